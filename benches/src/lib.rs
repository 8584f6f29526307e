//! What the benchmarks share: a cluster driven through the `storm` command as a
//! user would, the physical floor of the machine, programs to launch, and the
//! median and spread of what was measured.
//!
//! Nothing here looks inside the daemons: what is not printed by a command or
//! written to a log that anyone can ask for is not measured.

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
