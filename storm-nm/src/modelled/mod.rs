//! A modelled node: processes with scripts and a disk with a speed, in the time of any runtime.
//!
//! The node manager's tests and a simulated machine run on modelled nodes. A process uses CPU time
//! only while its job is not frozen, so that context switches can be checked to the nanosecond. The
//! node outlives its node manager where [`Model::returns`] permits it, and is a keeper until the
//! next node manager begins.
//!
//! Ranks of a row do not contend for processors, as gang scheduling prevents it. Under policies
//! that run all rows at once, they share processors like processes of an operating system
//! (`processor`). If the ranks leave a processor free, the node manager has this processor for
//! itself. If not, the node manager takes its time from the last processor. A process does nothing
//! but its script.

mod activity;
mod ahead;
mod daemon_time;
mod disk;
mod exchange;
mod flexible;
mod host;
mod host_act;
mod job;
mod ledger;
mod model;
mod pipe;
mod process;
mod processor;
mod script;
mod share;

pub use activity::Activity;
pub use disk::ModelledSink;
pub use exchange::{Endpoint, Exchange, NoExchange};
pub use host::ModelledHost;
pub use host_act::HostAct;
pub use model::{Model, OperatingSystem};
pub use script::{RankContext, Script, Step};
