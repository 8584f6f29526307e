//! The lanes of the tree on InfiniBand and RoCE verbs.
//!
//! A cluster on verbs is a cluster of `storm-backend-tcp` whose lanes are reliable connected queue
//! pairs. The order at the root, deaths and repairs are implemented in `storm-backend-tcp` and
//! tested there. Control links stay on TCP. This crate adds a
//! [`Fabric`](storm_backend_tcp::fabric::Fabric): [`VerbsFabric`].
//!
//! - An **express lane** is a pair of rings in registered memory. Operations and replies are
//!   written to the other side by `RDMA WRITE WITH IMMEDIATE`, with the number of new bytes as
//!   immediate value. Short messages travel inside their request (inline). While both ends poll,
//!   short messages are written to slots and found there by polling memory, without a completion.
//! - On a **bulk lane** the child grants blocks of registered memory. The parent writes each chunk
//!   into one block, and its adapter gathers header and payload. The child passes the chunk on from
//!   this block, and its global memory refers to it there: no processor copies anything between
//!   hosts.
//! - A member sleeps on its completion channel, or [polls](VerbsConfig::spin) for a while first.
//!
//! `storm-verbs` contains the library's objects, and all of the unsafe code.
//!
//! This crate does not encrypt. Data on a lane is as safe as the fabric (`docs/decisions/0070`).
//! Peers prove over TCP that they are allowed to open a lane.

pub mod multicast;
pub mod pool;

mod adapter;
mod config;
mod error;
mod fabric;
mod inventory;
mod lane;
mod message;
mod offer;
mod poller;
mod ring;
mod slot;
mod watch;

pub use config::{Multicast, VerbsConfig};
pub use error::LaneError;
pub use fabric::VerbsFabric;
pub use inventory::{DeviceReport, PortReport, inventory};
pub use multicast::group::MulticastReport;
pub use storm_verbs::{VerbsError, abi, guard};
