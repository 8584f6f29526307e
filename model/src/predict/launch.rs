//! The parts of a launch (paper, section 4.4.1).

use crate::Limit;
use serde::Serialize;

/// The time of a launch, and its parts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Launch {
    /// Reading, in ms. Overlaps with the next two.
    pub read_ms: f64,
    /// Sending, in ms.
    pub send_ms: f64,
    /// Writing, in ms. If only the part after the last chunk was measured, it is that part;
    /// otherwise, all writing of one node.
    pub write_ms: f64,
    /// T_transfer, the three together, in ms.
    pub transfer_ms: f64,
    /// T_exec, in ms.
    pub exec_ms: f64,
    /// T_timeslice, in ms.
    pub slice_ms: f64,
    /// T_launch, in ms.
    pub total_ms: f64,
    /// The launch time by bottleneck, longest first. The parts add up to the total.
    pub parts: Vec<Part>,
}

/// The time in which everything else waits for one part.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Part {
    /// The bottleneck.
    pub limit: Limit,
    /// The time in ms.
    pub time_ms: f64,
}

impl Launch {
    /// The largest part.
    pub fn limit(&self) -> Limit {
        self.parts.first().map_or(Limit::Exec, |part| part.limit)
    }
}

/// Adds up parts of the same limit, drops empty ones, and sorts them.
pub(super) fn gathered(parts: impl IntoIterator<Item = Part>) -> Vec<Part> {
    let mut gathered: Vec<Part> = Vec::new();
    for part in parts {
        match gathered.iter_mut().find(|known| known.limit == part.limit) {
            Some(known) => known.time_ms += part.time_ms,
            None => gathered.push(part),
        }
    }
    gathered.retain(|part| part.time_ms > 0.0);
    gathered.sort_by(|a, b| b.time_ms.total_cmp(&a.time_ms));
    gathered
}
