//! A cluster whose daemons are killed, stopped and started again at random while it works, and what its users
//! may rely on all the same.
//!
//! Everything random comes of one seed. What happens when is up to the machine: the same seed does the
//! same to other moments.

pub mod cluster;
pub mod faults;
pub mod records;
pub mod workload;
