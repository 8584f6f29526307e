//! The effect of commands and events on a node: pure, without I/O and clock.

mod action;
mod active_rows;
mod ending;
mod event;
mod inheriting;
mod input;
mod job;
mod node_core;
mod node_life;
mod pmi;
mod resuming;
mod rows;
mod turns;

pub use action::Action;
pub use event::Event;
pub use job::JobPhase;
pub use node_core::{CoreConfig, NodeCore};
