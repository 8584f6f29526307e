//! The three network primitives that all of STORM stands on, as one trait.
//!
//! | primitive | here | paper |
//! |---|---|---|
//! | XFER-AND-SIGNAL | [`Primitives::xfer_and_signal`] | Algorithm 10 |
//! | TEST-EVENT | [`Primitives::test_event`], [`Primitives::await_event`] | Algorithm 11 |
//! | COMPARE-AND-WRITE | [`Primitives::compare_and_write`] | Algorithm 12 |
//!
//! The primitives act on *global memory* ([`GlobalMemory`]): a symmetric heap in which the same
//! [`GlobalAddr`] means the same variable on every node. A [`Layout`] places the variables; its
//! hash is compared when a node joins. The contract is written on the [`Primitives`] trait. The
//! contract follows section 2.4.1 of the paper and adds rules where the paper has none;
//! [`conformance`] tests it on any backend.
//!
//! Also here: [`middleware`] that injects faults, traces or delays over any backend, and
//! [`sim`], a deterministic single-threaded executor with a virtual clock and an in-memory
//! network.
//!
//! This crate does not open a socket, read the wall clock or start a thread, and has no notion of a
//! job. Nothing here names a backend or a daemon.

mod answer_slot;
mod bell;
pub mod conformance;
mod error;
mod events;
mod ids;
mod layout;
mod membership;
mod memory;
pub mod middleware;
mod node_names;
mod node_runs;
mod node_set;
mod primitives;
mod runtime;
pub mod sim;
mod sparse_memory;
mod time;

pub use bell::Bell;
pub use error::{NodeSetParseError, OutOfBounds, PrimitiveError};
pub use events::{AwaitEvent, EventTable, LocalEvent, Signal};
pub use ids::{Epoch, EventId, GlobalAddr, Incarnation, NoSuchNodeId, NodeId};
pub use layout::{EventRange, Layout, LayoutBuilder, LayoutHash, Region, Var, VarArray, Word};
pub use membership::Membership;
pub use memory::GlobalMemory;
pub use node_names::{NodeNames, NodeNamesError, fold_names};
pub use node_runs::NodeRuns;
pub use node_set::{MAX_NODES, NodeSet};
pub use primitives::{CompareAndWrite, Primitives, Relation, Xfer};
pub use runtime::{Runtime, Task};
pub use time::Instant;
