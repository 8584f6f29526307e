//! The slices of buffered coscheduling: their variables in global memory, and the strobes that
//! start the microphases on all nodes.
//!
//! The Machine Manager uses three types. [`Plan`] places the variables, [`Strobe`] is the command
//! that begins a microphase, and [`StrobeSender`] leads nodes through the microphases of each
//! slice. `storm-bcs` defines the work of a node in a microphase. This crate knows no message of a
//! rank, no daemon and no backend.
#![forbid(unsafe_code)]

mod config;
mod error;
mod pace;
mod plan;
mod strobe;
mod strobe_sender;

pub use config::{BcsConfig, BcsConfigError, RANK_COLLECTIVE_BYTES};
pub use error::SliceError;
pub use plan::{Plan, ROUNDS};
pub use strobe::{Phase, Strobe};
pub use strobe_sender::{Checkpoint, StrobeSender};
