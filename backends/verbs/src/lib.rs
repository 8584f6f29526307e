//! The lanes of the tree on InfiniBand and RoCE verbs.
//!
//! A cluster on verbs is a cluster of `storm-backend-tcp` whose lanes, from parent to
//! child, are reliable connected queue pairs: the order at the root, deaths and repairs
//! are those that are tested there, and control links stay on TCP. What this crate adds is
//! a [`Fabric`](storm_backend_tcp::fabric::Fabric): [`VerbsFabric`].
//!
//! - An **express lane** is a pair of rings in registered memory: operations and replies
//!   are written to the other side by `RDMA WRITE WITH IMMEDIATE`, whose immediate value
//!   says how many bytes are new. Short ones travel inside their request (inline); while
//!   both ends look for what comes they are written to slots, and found there by looking at
//!   memory, without a completion.
//! - On a **bulk lane** the child grants blocks of registered memory, and the parent writes
//!   each chunk into one, head and payload gathered by the adapter. The child passes it on
//!   from there, and its global memory refers to it there: between hosts nothing is copied
//!   by a processor.
//! - A member sleeps on its completion channels, or [spins](VerbsConfig::spin) for a while
//!   first.
//!
//! What the library makes is in `storm-verbs`, and so is all that is unsafe about it.
//!
//! What it does not do: encrypt. What travels on a lane is as safe as the fabric is
//! (`docs/decisions/0070`); who may open one is proved over TCP.

pub mod multicast;
pub mod pool;

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
