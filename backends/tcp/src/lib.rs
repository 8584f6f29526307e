//! The primitives on a self-repairing tree of TCP connections, for any Linux cluster.
//!
//! The management node is the [`Root`]. It gives every operation its place in one order and sends
//! it down a tree of nodes. The nodes combine the replies on the way back (paper, section 2.4.1, on
//! networks without hardware multicast). A [`Node`] has a *control link* to the root, for its own
//! requests, changes of the tree and direct pings. It has two lanes to its parent: the *express
//! lane* for operations and replies, the *bulk lane* for the data of large transfers.
//!
//! The deciding parts are pure: [`sequencer`] (the order, at the root) and [`engine`] (one node of
//! the tree) know no socket and no clock. The driver only carries frames between them.
//!
//! A network other than TCP may carry the lanes: [`fabric`].
//!
//! Members that hold a [`ClusterKey`] speak only to peers that prove that they hold it too:
//! `storm_session`.
//!
//! This crate stores nothing, and knows no daemon and no job.

pub mod engine;
pub mod fabric;
pub mod sequencer;
pub mod shared_memory;
pub mod topology;
pub mod wire;

mod config;
mod driver;
mod initiator;
mod join_error;
mod liveness;
mod names;
mod observer;
mod primitives;
mod runtime;
mod stream;

pub use config::{Adopt, DEFAULT_JOIN_TIMEOUT, NodeConfig, RootConfig};
pub use join_error::JoinError;
pub use liveness::Patience;
pub use names::NameTable;
pub use observer::{Direction, LinkKind, Observer};
pub use primitives::{Node, Root, TcpPrimitives};
pub use runtime::TcpRuntime;
pub use storm_session::{ClusterKey, KeyId, NotAKey, SessionError, Trust};
pub use wire::Refusal;
