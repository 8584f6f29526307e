//! The contract of [`Primitives`](crate::Primitives) as cases that run on any backend.
//!
//! A backend implements [`Factory`], which starts clusters. The backend is accepted when every case
//! passes:
//!
//! ```text
//! storm_primitives::conformance_tests!(MyFactory::new());
//! ```
//!
//! Nodes may be tasks of one simulation, threads, processes or machines. The suite sends each node
//! [`Command`]s, which the [`Agent`] around the node's `Primitives` handle executes. In-process
//! backends wrap their handles in a [`LocalCluster`], fabrics of the simulator in a [`SimFactory`].
//! Other backends carry [`wire`] frames between [`Agent::spawn`] and a [`RemoteAgent`].
//!
//! The suite asserts nothing about speed. It waits for expected events with a generous limit on the
//! cluster's own clock ([`Factory::patience`]).

mod agent;
mod any_cluster;
pub(crate) mod atomicity;
pub(crate) mod bench;
pub(crate) mod cases;
mod cluster;
mod command;
mod doom;
mod failure;
pub(crate) mod history;
mod local_cluster;
mod pattern;
mod plan;
mod remote_agent;
mod sim_factory;
pub mod suite;
mod trial;
pub mod wire;

pub use agent::Agent;
pub(crate) use any_cluster::AnyCluster;
pub use cases::CASES;
pub use cluster::{Capabilities, Cluster, ClusterSpec, Factory, NodeGone, Unsupported};
pub use command::{
    Command, Op, OpResult, Pace, Payload, Presence, Read, Reply, Seen, Status, Store,
};
pub use failure::{Failure, RunError};
pub use local_cluster::{LocalCluster, NodeControl};
pub use pattern::Pattern;
pub use plan::Plan;
pub use remote_agent::RemoteAgent;
pub use sim_factory::{SimControl, SimFactory, Wrap};
pub(crate) use trial::Trial;
