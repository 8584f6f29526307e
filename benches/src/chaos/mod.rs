//! A cluster whose daemons are killed, stopped and restarted at random while it works, and the
//! promises that it makes to its users.
//!
//! One seed decides everything random. The timing depends on the machine, so the same seed does the
//! same things at different moments.

pub mod cluster;
pub mod faults;
pub mod records;
pub mod workload;
