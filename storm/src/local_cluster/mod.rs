//! A cluster of real daemons on this machine: the embedded one of a job, and
//! the one that `storm up` keeps. Both are a `storm mm --local-nodes` process,
//! which starts its Node Managers itself.
//!
//! An embedded cluster hangs on a lifeline, a pipe that its Machine Manager
//! reads: when this process is gone, however it went, the cluster ends and
//! removes its directory. So does a kept one until it has the record by which later
//! commands find it. What this does not do: the daemons' work.

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

/// "64 nodes x 4 PEs".
pub(crate) fn dimensions(nodes: u32, pes: u32) -> String {
    let plural = |number: u32| if number == 1 { "" } else { "s" };
    format!("{nodes} node{} x {pes} PE{}", plural(nodes), plural(pes))
}

/// Name of the client API's socket in a local cluster's directory.
pub(crate) const SOCKET_NAME: &str = "mm.sock";
/// Begins the name of a local cluster; its manager's process is the rest.
pub(crate) const CLUSTER_NAME: &str = "local-";
/// Name of the daemons' log in it.
pub(crate) const LOG_NAME: &str = "mm.log";
