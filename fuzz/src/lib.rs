//! What the fuzz targets share. Each target fuzzes one decoder, or one state machine
//! that is fed with what a decoder made; see `README.md`.
//!
//! What it does not do: check what the product's own tests check. A target finds what
//! nobody thought of.

mod cluster;
mod round_trip;
mod script;
mod seeds;

pub use cluster::{MM_USER, NODES, PES, job_spec, manager_config};
pub use round_trip::survives;
pub use script::Script;
pub use seeds::{plant, texts};
