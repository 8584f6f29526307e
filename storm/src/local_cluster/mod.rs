//! A cluster of real daemons on this machine: the embedded cluster of a job, or the cluster that
//! `storm up` keeps. Both are a `storm mm --local-nodes` process, which starts its Node Managers
//! itself.
//!
//! An embedded cluster depends on a lifeline, a pipe that its Machine Manager reads. When this
//! process ends for any reason, the cluster ends and removes its directory. A kept cluster does so
//! too until it is recorded, as only the record lets later commands find it.

mod error;
mod kept;
pub(crate) mod nodes_dir;
mod process;
mod ready;
mod runtime_dir;
mod start;

pub(crate) use error::LocalClusterError;
pub(crate) use kept::{KeptCluster, StateDir};
pub(crate) use process::ProcessIdentity;
pub(crate) use ready::Ready;
pub(crate) use runtime_dir::{RuntimeDir, check_unused, memory_directory};
pub(crate) use start::{LocalClusterShape, start_embedded, start_kept};

/// Text such as "64 nodes x 4 PEs".
pub(crate) fn dimensions(nodes: u32, pes: u32) -> String {
    let plural = |number: u32| if number == 1 { "" } else { "s" };
    format!("{nodes} node{} x {pes} PE{}", plural(nodes), plural(pes))
}

/// Name of the client API's socket in a local cluster's directory.
pub(crate) const SOCKET_NAME: &str = "mm.sock";
/// Prefix of a local cluster's name; the rest is its manager's pid.
pub(crate) const CLUSTER_NAME: &str = "local-";
/// Name of the daemons' log in that directory.
pub(crate) const LOG_NAME: &str = "mm.log";
