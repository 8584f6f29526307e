//! `up` and `down`: the cluster that is kept for a user.

use super::progress::waiting;
use super::{note, print, state_dir};
use crate::cli::{DownOptions, UpOptions};
use crate::config::{policies, refuse_both};
use crate::failure::{EXIT_USAGE, Failure};
use crate::local_cluster::{
    CLUSTER_NAME, KeptCluster, LocalClusterError, LocalClusterShape, StateDir, start_kept,
};
use crate::output::Output;
use crate::target::variable_of_another;
use nix::sys::signal::Signal;
use std::path::Path;
use std::time::Duration;
use storm_mm::api::{Client, ManagerRequest};
use storm_sched::{DEFAULT_QUANTUM, Machine, PolicyParams};
use tokio::time::{sleep, timeout};

/// Room that a kept cluster should have for its jobs' files.
const FREE_BYTES: u64 = 1 << 30;

/// How long each way to end a cluster may take: a request, then SIGTERM, then SIGKILL.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a manager may take to end if some of its nodes are stopped. The manager waits until
/// they count as dead (`node-hung`). It then waits for the time that nodes have to leave before a
/// kill.
const END_WITHOUT_NODES: Duration = Duration::from_secs(20);

/// Pause between two checks whether it has ended.
const END_POLL: Duration = Duration::from_millis(10);

pub(super) async fn up(
    options: UpOptions,
    output: &dyn Output,
    silent: bool,
) -> Result<u8, Failure> {
    check_policies(&options.sched, options.nodes)?;
    if options.quantum.is_some() {
        refuse_both("--quantum", "quantum-us", &options.params)
            .map_err(|error| Failure::of("usage", &error).exit(EXIT_USAGE))?;
    }
    let state = state_dir();
    let lock = state.lock()?;
    if let Some(kept) = state.read() {
        if kept.process.is_alive() {
            let KeptCluster { nodes, pes, started, .. } = kept;
            let started = started.to_string();
            return Err(LocalClusterError::AlreadyUp { nodes, pes, started }.into());
        }
        clean(&kept, &state)?;
    }
    let UpOptions { nodes, pes, sched, quantum, params, backend } = options;
    let quantum = quantum.unwrap_or(DEFAULT_QUANTUM);
    let shape = LocalClusterShape { nodes, pes, sched, quantum, params, switch_log: None, backend };
    let started = {
        let _spinner = waiting(silent, "starting the nodes");
        start_kept(&shape, &state, FREE_BYTES).await
    };
    let kept = match started {
        Ok(kept) => kept,
        Err(error) => {
            state.leave(lock);
            return Err(error.into());
        }
    };
    print(&output.up(&kept))?;
    Ok(0)
}

/// Checks that these policies exist, and that there is a node for the partition of each.
pub(super) fn check_policies(sched: &[String], nodes: u32) -> Result<(), Failure> {
    // Any machine will do to check a name.
    let one = Machine::uniform(1, 1).map_err(|error| Failure::of("usage", &error))?;
    for name in sched {
        policies()
            .make(name, one.clone(), &PolicyParams::default())
            .map_err(|error| Failure::of("usage", &error).exit(EXIT_USAGE))?;
    }
    if sched.len() <= nodes as usize {
        return Ok(());
    }
    let least = sched.len();
    let message =
        format!("{least} policies need at least {least} nodes, and --nodes gives {nodes}");
    Err(Failure::new("usage", message)
        .hint(format!("--nodes {least}, or fewer policies with --sched: each has nodes of its own"))
        .exit(EXIT_USAGE))
}

pub(super) async fn down(
    options: DownOptions,
    output: &dyn Output,
    silent: bool,
) -> Result<u8, Failure> {
    if let Some(socket) = options.socket {
        let _spinner = waiting(silent, "ending the cluster");
        end_configured(&socket).await?;
        print(&output.down(true))?;
        return Ok(0);
    }
    let state = state_dir();
    let kept = state.read();
    if let Some(variable) = variable_of_another(kept.as_ref().map(|kept| kept.socket.as_path())) {
        let message = format!("{variable} names another cluster than the one that `up` keeps");
        return Err(Failure::new("usage", message)
            .hint(format!(
                "unset {variable} to end the kept cluster; `storm down --socket` ends another"
            ))
            .exit(EXIT_USAGE));
    }
    let lock = state.lock()?;
    let Some(kept) = state.read() else {
        state.leave(lock);
        print(&output.down(false))?;
        return Ok(0);
    };
    let alive = kept.process.is_alive();
    if alive {
        let _spinner = waiting(silent, "ending the cluster");
        end(&kept).await?;
    }
    clean(&kept, &state)?;
    if !alive {
        storm_pl::remove_abandoned(CLUSTER_NAME);
        note(&output.note("the cluster that `up` kept had died: its files are removed"));
    }
    state.leave(lock);
    print(&output.down(alive))?;
    Ok(0)
}

/// Ends a configured cluster, and waits until its manager is gone.
async fn end_configured(socket: &Path) -> Result<(), Failure> {
    Client::connect(socket).await?.call(ManagerRequest::Shutdown).await?;
    let gone = async {
        while Client::connect(socket).await.is_ok() {
            sleep(END_POLL).await;
        }
    };
    timeout(END_TIMEOUT, gone).await.map_err(|_| {
        Failure::new("cluster", "the cluster is ending and not yet down")
            .hint("`storm queue` shows which jobs are left; they have until kill-grace to end")
    })
}

/// Ends the cluster, gently at first.
async fn end(kept: &KeptCluster) -> Result<(), Failure> {
    let asked = timeout(END_TIMEOUT, async {
        Client::connect(&kept.socket).await?.call(ManagerRequest::Shutdown).await
    });
    if matches!(asked.await, Ok(Ok(_))) && has_ended(kept).await {
        return Ok(());
    }
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        // A stopped process must continue before it can end.
        for signal in [signal, Signal::SIGCONT] {
            kept.process.signal(signal).map_err(|error| Failure::of("local-cluster", &error))?;
        }
        if has_ended(kept).await {
            return Ok(());
        }
    }
    Err(LocalClusterError::WillNotEnd { pid: kept.process.pid }.into())
}

async fn has_ended(kept: &KeptCluster) -> bool {
    let ended = async {
        while kept.process.is_alive() {
            sleep(END_POLL).await;
        }
    };
    timeout(END_WITHOUT_NODES, ended).await.is_ok()
}

/// Removes the files of an ended cluster.
fn clean(kept: &KeptCluster, state: &StateDir) -> Result<(), Failure> {
    let removed = kept.remove_files();
    // Files that cannot be removed do no harm.
    state.forget().map_err(|error| Failure::of("local-cluster", &error))?;
    removed.map_err(|error| {
        let left = kept.runtime_dir.display();
        let mut failure =
            Failure::new("local-cluster", format!("{left} is not removed completely"))
                .hint("remove it by hand; `storm up` works either way");
        failure.causes.push(error.to_string());
        failure
    })
}
