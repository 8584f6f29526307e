//! Measured replays. Each runs in its own process, so that its memory is counted separately and it
//! can be ended when it takes too long.

mod replayed;
mod workload;

pub use replayed::{Outcome, Replayed, measure};
pub use workload::{MACHINE_PES, Workload};
