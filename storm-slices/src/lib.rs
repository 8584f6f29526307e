//! The slices of buffered coscheduling: their variables in global memory, and the strobes that
//! lead the nodes through them.
//!
//! The Machine Manager needs no more than these: [`Plan`] places the variables, [`Strobe`] is the
//! command that begins a microphase, and [`StrobeSender`] leads nodes through the microphases of
//! each slice. What the nodes do in a microphase, and with whose messages, is in `storm-bcs`.
//! This crate knows no message of a rank, no daemon and no backend.
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
