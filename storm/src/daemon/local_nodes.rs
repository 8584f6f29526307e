//! The Node Managers of a local cluster: real processes of this machine.

use super::DaemonError;
use super::last_words::LastWords;
use super::settings::LocalCluster;
use crate::key_file;
use crate::local_cluster::{CLUSTER_NAME, LOG_NAME, nodes_dir};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use storm_primitives::{Membership, NodeId};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Name of the key's file in the cluster's directory.
const KEY_NAME: &str = "cluster.key";
/// How long all nodes may take to join.
const JOIN_TIMEOUT: Duration = Duration::from_secs(50);
/// How long all nodes may take to leave, before they are killed.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(8);

/// The processes.
pub(super) struct LocalNodes {
    children: Vec<Child>,
    /// The log of the cluster, if it is kept in a file: what its daemons print.
    log: PathBuf,
}

impl LocalNodes {
    /// Starts one process per node. They read the cluster's key from a file that only this user can
    /// read.
    pub(super) fn start(
        local: &LocalCluster,
        root: SocketAddr,
        cluster: &str,
    ) -> Result<Self, DaemonError> {
        storm_pl::remove_abandoned(CLUSTER_NAME);
        let failed = |source| DaemonError::System { what: "a Node Manager", source };
        let program = std::env::current_exe().map_err(failed)?;
        let key_file = local.runtime_dir.join(KEY_NAME);
        // A key file that exists already is left over from a cluster that has ended.
        key_file::write(&key_file, &local.key, true)?;
        nodes_dir::make(&local.runtime_dir).map_err(|source| DaemonError::Path {
            path: nodes_dir::path_in(&local.runtime_dir),
            source,
        })?;
        let start = |index: u32| {
            let name = format!("n{index}");
            Command::new(&program)
                .arg("nm")
                .args(["--mm", &root.to_string(), "--name", &name, "--cluster", cluster])
                .args(["--pes", &local.pes.to_string()])
                .arg("--work-dir")
                .arg(nodes_dir::path_in(&local.runtime_dir))
                .arg("--key")
                .arg(&key_file)
                .arg("--once")
                .args(["--parent", &std::process::id().to_string()])
                .stdin(Stdio::null())
                .kill_on_drop(true)
                .spawn()
        };
        let children = (1..=local.nodes).map(start).collect::<io::Result<_>>().map_err(failed)?;
        Ok(LocalNodes { children, log: local.runtime_dir.join(LOG_NAME) })
    }

    /// Waits until all have joined.
    pub(super) async fn joined(&mut self, membership: &Membership) -> Result<(), DaemonError> {
        let nodes = self.children.len();
        let count = || membership.alive().iter().filter(|node| *node != NodeId::MM).count();
        let all = async {
            let mut epoch = membership.epoch();
            while count() < nodes {
                epoch = membership.changed(epoch).await;
            }
        };
        let died = self.children.iter_mut().map(|child| Box::pin(child.wait()));
        let any_died = futures_util::future::select_all(died);
        let ended = tokio::select! {
            ended = timeout(JOIN_TIMEOUT, all) => ended.is_ok(),
            (status, index, _) = any_died => {
                let source = LastWords::of(&self.log, status);
                return Err(DaemonError::NodeDied { node: format!("n{}", index + 1), source });
            }
        };
        if ended {
            return Ok(());
        }
        Err(DaemonError::NodesLate { joined: count(), nodes: nodes as u32 })
    }

    /// Waits until all have left, and kills those that stay.
    pub(super) async fn leave(mut self) {
        let all = async {
            for child in &mut self.children {
                // If waiting fails, the process has ended.
                let _ = child.wait().await;
            }
        };
        if timeout(LEAVE_TIMEOUT, all).await.is_err() {
            tracing::warn!("some Node Managers did not leave and are killed");
        }
    }
}
