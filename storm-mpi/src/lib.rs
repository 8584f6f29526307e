//! Message passing for applications: a subset of MPI, in direct mode.
//!
//! [`World`] is a rank's handle, a [`Communicator`] of all ranks: blocking messages, collectives, and
//! a [`Scope`] for non-blocking ones; others are split off it. Inside a node bytes go through shared memory, between nodes through TCP or by RDMA; ranks that wait
//! sleep in the kernel, so that a node may have many more ranks than processors. [`pmi`] is the
//! wire-up with the resource manager; its server half is used by the Node Manager.
//!
//! Layers, each knowing the one below: [`World`] and the C ABI of `capi/` (types, lifetimes) -
//! [`comm`], [`collective`], [`layout`] (communicators, collectives over bytes, datatypes) -
//! [`Process`] (one process's handle on the engine) - engine (messages: protocol and matching) -
//! transport (byte streams). Deliberately absent: any wall-clock timeout: a
//! gang-scheduled job may be stopped at any instant. Derived datatypes and one-sided operations are the C ABI's: a slice of
//! Rust is one stretch of memory.

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
