//! Algorithms 1 to 9 on the simulated network, with many seeds.
//!
//! Each module tests one algorithm or pair of algorithms. [`mutants`] shows that the checks of the
//! remote queue fail on the queue as the paper printed it. No wall clock, no socket: one seed fixes
//! everything.

mod anonymous;
mod cluster;
mod codec;
mod determinism;
mod failure_detection;
mod file;
mod file_faults;
mod file_transfer;
mod heartbeat;
mod mutants;
mod queue;
mod queue_checks;
mod seeds;
mod termination;
