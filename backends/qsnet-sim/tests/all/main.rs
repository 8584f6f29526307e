//! The simulated fabrics: contract, determinism, and the times of the paper.

mod conformance;
mod determinism;
mod guide;
mod packet_level;
mod profiles;
mod timing;
