//! The common parts of the benchmarks: a cluster driven by the `storm` command, the physical floor
//! of the machine, programs to launch, and the median and spread of measurements.
//!
//! The benchmarks do not look inside the daemons. They measure only the output of commands, and
//! logs that any user can ask for.

pub mod buffered;
pub mod chaos;
pub mod cluster;
pub mod configured_cluster;
pub mod daemons;
pub mod floor;
pub mod measuring;
pub mod payload;
pub mod peers;
pub mod pingpong;
pub mod primitives;
pub mod replay;
pub mod slice_kinds;
pub mod spread;
pub mod switch_floor;
pub mod switches;
pub mod throughput;
