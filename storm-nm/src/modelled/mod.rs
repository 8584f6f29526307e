//! A modelled node: processes with scripts, a disk with a speed, in the time of
//! whatever runtime it is given.
//!
//! The node manager's tests run on it, and so does a simulated machine. A process
//! uses CPU time only while its job is not frozen, so that context switches can be
//! checked to the nanosecond. Not modelled: contention for CPUs, which gang
//! scheduling excludes, and anything that a process does besides its script.

mod activity;
mod disk;
mod exchange;
mod host;
mod host_act;
mod model;
mod pipe;
mod process;
mod script;

pub use activity::Activity;
pub use disk::ModelledSink;
pub use exchange::{Endpoint, Exchange, NoExchange};
pub use host::ModelledHost;
pub use host_act::HostAct;
pub use model::Model;
pub use script::{RankContext, Script, Step};
