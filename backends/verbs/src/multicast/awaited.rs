//! A chunk whose header has arrived on the lane and whose payload arrives in datagrams. Decides
//! when to take it, and when to ask for missing parts.

use super::assembly::{Assembler, Store};
use std::time::{Duration, Instant};

/// How long after its header the last datagrams of a chunk may arrive, since they take another way.
/// The time is several times the delay of either way, and too short for a reader to notice.
const PATIENCE: Duration = Duration::from_millis(4);

/// An awaited chunk.
#[derive(Clone, Copy, Debug)]
pub struct Awaited {
    /// The number.
    pub number: u64,
    /// Length of its payload, in bytes.
    pub total: u32,
    /// The time when the wait began.
    pub since: Instant,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The chunk is complete: claim it.
    Take,
    /// The missing parts will not arrive: claim the chunk, and ask for them.
    Ask,
    /// Check again when something has arrived, or after this time.
    Wait(Duration),
}

impl Awaited {
    /// The step to take now.
    pub fn step<S: Store>(&self, assembler: &Assembler<S>, now: Instant) -> Step {
        let waited = now.saturating_duration_since(self.since);
        match () {
            () if assembler.is_complete(self.number) => Step::Take,
            () if assembler.is_past(self.number) || waited >= PATIENCE => Step::Ask,
            () => Step::Wait(PATIENCE - waited),
        }
    }
}
