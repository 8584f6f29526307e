//! No job waits while nothing runs, all nodes are up and no node is reserved. The same holds after
//! earlier reservations.

use super::{Invariant, Violation};
use crate::suite::Step;
use crate::{JobId, NodeState};

/// A job that can run on an empty machine runs.
#[derive(Debug)]
pub struct NothingStarves;

#[derive(Debug, thiserror::Error)]
#[error("job {0} waits, and nothing runs or is reserved")]
struct Waits(JobId);

impl Invariant for NothingStarves {
    fn name(&self) -> &'static str {
        "no job waits for an empty machine"
    }

    fn check(&mut self, step: &Step<'_>) -> Result<(), Violation> {
        let world = step.after;
        let all_up = world.machine.nodes().iter().all(|node| node.state() == NodeState::Up);
        let reserved = world.reserved(step.now).next().is_some();
        if !world.running.is_empty() || !all_up || reserved {
            return Ok(());
        }
        world.queue.first().map_or(Ok(()), |request| Err(Waits(request.id).into()))
    }
}
