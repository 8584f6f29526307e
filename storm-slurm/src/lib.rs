//! Slurm's commands as text: their options, and what they print. Pure: no I/O, no manager.

pub mod view;
