//! The network and the hosts of a simulated machine: how long everything takes.
//!
//! [`storm_primitives::sim`] carries the primitives in virtual time and keeps
//! their contract. This crate says *when*: a [`Machine`] is made from a
//! [`Profile`] and yields a [`Fabric`](storm_primitives::sim::Fabric) for
//! `SimNetwork::with_fabric` and a [`HostModel`] for what happens on the nodes.
//!
//! | part | model | where |
//! |---|---|---|
//! | QsNet's multicast | packets of 320 bytes, circuit-switched, the acknowledgement overlapped (section 4.4.2); [`PacketLevel`] walks them, [`Broadcast`] is the formula that gives the same times, [`Fidelity`] chooses | `packet_level`, `broadcast` |
//! | the fat tree | stages, switches, cable along the floor's diagonal (Equations 4 and 5) | [`FatTree`] |
//! | COMPARE-AND-WRITE on QsNet | network conditionals (Fig. 7) | [`QsNetFabric`] |
//! | Ethernet, InfiniBand | a k-ary tree of messages with LogGP costs | [`TreeFabric`] |
//! | hosts | file systems, PCI bus, the process that serves the NIC, fork and exit, noise | [`HostModel`] |
//! | load | processes that spin or send on every processor (section 4.2.2) | [`Load`], [`CpuLoader`], [`NetworkLoader`] |
//!
//! Every parameter has a name, a unit, a range and a source, in a TOML profile: the
//! analytic model's, with a part of its own, so that there is one value of each.
//!
//! What this crate does not do: run a daemon, keep a clock, or carry a byte.
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
