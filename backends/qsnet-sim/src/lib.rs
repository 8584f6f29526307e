//! The network and the hosts of a simulated machine: how long everything takes.
//!
//! [`storm_primitives::sim`] carries the primitives in virtual time and keeps their contract. This
//! crate gives the times. A [`Machine`] is made from a [`Profile`]. It yields a
//! [`Fabric`](storm_primitives::sim::Fabric) for `SimNetwork::with_fabric`, and a [`HostModel`] for
//! the nodes.
//!
//! The parts and their models:
//!
//! - QsNet's multicast: packets of 320 bytes, circuit-switched, with overlapped acknowledgement
//!   (section 4.4.2). [`PacketLevel`] walks the packets, [`Broadcast`] is the formula that gives
//!   the same times, and [`Fidelity`] chooses between them.
//! - The fat tree, [`FatTree`]: stages, switches, cable along the floor's diagonal (Equations 4
//!   and 5).
//! - COMPARE-AND-WRITE on QsNet, [`QsNetFabric`]: network conditionals (Fig. 7).
//! - Ethernet and InfiniBand, [`TreeFabric`]: a k-ary tree of messages with LogGP costs.
//! - Hosts, [`HostModel`]: file systems, PCI bus, the process that serves the NIC, fork and exit,
//!   noise.
//! - [`Load`]: processes that spin ([`CpuLoader`]) or send ([`NetworkLoader`]) on every processor
//!   (section 4.2.2).
//!
//! Every parameter has a name, a unit, a range and a source, in a TOML profile. A profile is one of
//! the analytic model with an additional part, so every value exists once.
//!
//! This crate runs no daemon, keeps no clock and carries no byte.
#![forbid(unsafe_code)]

mod broadcast;
mod cpu_loader;
mod fat_tree;
mod fidelity;
mod host_model;
mod load;
mod machine;
mod network_loader;
mod noise;
mod packet_level;
mod profile;
mod qsnet_fabric;
mod tree_fabric;

pub use broadcast::Broadcast;
pub use cpu_loader::CpuLoader;
pub use fat_tree::FatTree;
pub use fidelity::Fidelity;
pub use host_model::HostModel;
pub use load::Load;
pub use machine::{BufferPlace, Machine, MachineError};
pub use network_loader::NetworkLoader;
pub use noise::Noise;
pub use packet_level::{Delivery, PacketLevel};
pub use profile::{HostProfile, LoadProfile, Profile, ProfileError, SIMULATION_KEYS, WireProfile};
pub use qsnet_fabric::QsNetFabric;
pub use storm_model::{BUILTIN_NAMES, SourceFile};
pub use tree_fabric::TreeFabric;
