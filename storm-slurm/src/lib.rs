//! Slurm's commands as text: what their command lines mean, and what they print.
//!
//! Everything here is pure: no file, no clock, no manager. `storm/src/slurm/` asks the manager.
//! The facts that a command prints come as plain structs of this crate.

pub mod host_list;
mod job_name;
pub mod options;
mod verb;
pub mod view;

pub use job_name::{JobName, NotAJob};
pub use verb::Verb;

/// The version that each command prints. Clients split the text at the blank and the dots.
pub const VERSION: &str = "slurm 25.11.0";
