//! The contract of the primitives: the suite on the simulated network, through frames and
//! through every middleware, and that it finds wrong implementations.

mod conformance;
mod conformance_through_frames;
mod conformance_through_middleware;
mod late_news;
mod middleware;
mod mutant;
mod mutants;
mod sim_faults;
mod wire_cluster;
