//! Replays that are measured: each in a process of its own, so that it has its
//! own memory and can be ended when it takes too long.

mod replayed;
mod workload;

pub use replayed::{Outcome, Replayed, measure};
pub use workload::{MACHINE_PES, Workload};
