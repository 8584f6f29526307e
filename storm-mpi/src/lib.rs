//! Message passing for applications: a subset of MPI, in direct mode.
//!
//! [`World`] is a rank's handle. A [`Communicator`] of all ranks offers blocking messages,
//! collectives, and a [`Scope`] for non-blocking messages; other communicators are split off it.
//! Bytes are sent through shared memory inside a node, and through TCP or RDMA between nodes. Ranks
//! that wait sleep in the kernel, so a node may have many more ranks than processors. [`pmi`]
//! connects ranks with the resource manager; the Node Manager uses its server half.
//!
//! Layers, each knowing only the layers below:
//! - [`World`] and the C ABI of `capi/`: types and lifetimes;
//! - [`comm`], [`collective`], [`layout`]: communicators, collectives over bytes, datatypes;
//! - [`Process`]: one process's handle on the engine;
//! - engine: messages, their protocol and matching;
//! - transport: byte streams.
//!
//! Wall-clock timeouts are deliberately absent: a gang-scheduled job may be stopped at any instant.
//! Derived datatypes and one-sided operations exist in the C ABI only, because a slice of Rust is
//! one stretch of memory.

mod background;
pub mod collective;
pub mod comm;
mod communicator;
mod datatype;
pub mod defaults;
mod engine;
mod envelope;
mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod layout;
pub mod page;
pub mod pmi;
mod process;
mod rank;
mod scope;
pub mod segment;
mod shared;
#[cfg(feature = "testing")]
pub mod testing;
mod threads;
mod thresholds;
mod transport;
mod world;

pub use background::Outstanding;
pub use communicator::{Communicator, OnError};
pub use datatype::{Datatype, Ordered, ReduceOp, Reducible};
pub use engine::{MessageId, Received, RequestId};
pub use envelope::{
    ANY_SOURCE, ANY_TAG, Address, Context, Pattern, SendMode, Source, Status, Tag, TagPattern,
};
pub use error::{CommError, InitError, Violation};
pub use process::{Process, processor_name};
pub use rank::Rank;
pub use scope::{RecvRequest, Scope, SendRequest, Tested};
pub use shared::SharedMemory;
pub use threads::{Inside, Threads};
pub use thresholds::Thresholds;
pub use transport::RDMA_DEVICE_VARIABLE;
pub use world::World;
