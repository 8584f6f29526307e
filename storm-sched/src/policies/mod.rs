//! The policies, one file each; [`crate::registry`] lists them.

pub mod fcfs;
pub mod gang;

pub use fcfs::Fcfs;
pub use gang::Gang;
