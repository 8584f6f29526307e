//! The common parts of the fuzz targets. Each target fuzzes one decoder, or one state machine that
//! gets the output of a decoder; see `README.md`.
//!
//! The targets do not repeat the product's own tests. They find faults that nobody thought of.

mod cluster;
mod round_trip;
mod script;
mod seeds;

pub use cluster::{MM_USER, NODES, PES, job_spec, manager_config};
pub use round_trip::survives;
pub use script::Script;
pub use seeds::{plant, texts};
