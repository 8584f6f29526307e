//! Other resource managers, measured in the same run where they are installed: Slurm and MPICH's
//! Hydra, set up on this host by the scripts of `peers/`.
//!
//! Every table names a missing peer. This module installs nothing and does not change the host's
//! configuration.

mod absent;
mod hydra;
mod launch_times;
mod launching;
mod script;
mod slurm;
mod slurm_gang;

pub use absent::{Absent, available};
pub use hydra::Hydra;
pub use launch_times::{LaunchCase, PeerTimes, launch_times, launch_times_table};
pub use launching::{LaunchPeer, PeerLaunches, launch_peers, launch_table};
pub use slurm::Slurm;
pub use slurm_gang::{SlurmGang, gang_table, slurm_gang, spin_seconds};
