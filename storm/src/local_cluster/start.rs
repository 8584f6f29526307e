//! Starts the Machine Manager of a local cluster and waits for its nodes.

use super::ready::MAX_LINE_BYTES;
use super::{
    KeptCluster, LOG_NAME, LocalClusterError, ProcessIdentity, Ready, RuntimeDir, StateDir,
};
use crate::cli::Backend;
use crate::config::GivenParam;
use clap::ValueEnum;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::unistd::pipe2;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::time::{sleep, timeout};

/// How long the nodes of a local cluster may take to join. Hundreds of daemons on a slow core need
/// some seconds.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// How long the cluster may take to end by itself.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause between two checks whether a process has ended.
const END_POLL: Duration = Duration::from_millis(5);

/// How much of the log a message quotes.
const LOG_TAIL_BYTES: u64 = 2 << 10;

/// Room for the daemons' own files.
const BASE_BYTES: u64 = 64 << 20;

/// The message by which a cluster learns that it outlives the process that started it.
const LET_GO: &[u8] = &[1];

/// The kind of cluster to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalClusterShape {
    pub(crate) nodes: u32,
    /// Processing elements of each node.
    pub(crate) pes: u32,
    /// Policies, with a partition for each.
    pub(crate) sched: Vec<String>,
    /// Time slice.
    pub(crate) quantum: Duration,
    /// Settings of the policies.
    pub(crate) params: Vec<GivenParam>,
    /// The directory for the Node Managers' switch logs; `None` leaves the choice to the
    /// environment.
    pub(crate) switch_log: Option<PathBuf>,
    /// The network between the nodes; `None` leaves the choice to the environment.
    pub(crate) backend: Option<Backend>,
}

/// A cluster that lives as long as this value.
#[derive(Debug)]
pub(crate) struct EmbeddedCluster {
    child: Child,
    /// Closing it tells the cluster to end.
    lifeline: Option<OwnedFd>,
    directory: RuntimeDir,
    socket: PathBuf,
}

/// Starts a cluster for a single job, whose files take `job_bytes` on every node.
pub(crate) async fn start_embedded(
    shape: &LocalClusterShape,
    job_bytes: u64,
) -> Result<EmbeddedCluster, LocalClusterError> {
    let needed_bytes = job_bytes.saturating_mul(u64::from(shape.nodes) + 1);
    let directory = RuntimeDir::make(needed_bytes.saturating_add(BASE_BYTES))
        .map_err(LocalClusterError::RuntimeDir)?;
    let (read, write) = pipe2(OFlag::O_CLOEXEC).map_err(spawn_error)?;
    let (child, ready) = spawn(shape, directory.path(), &read)?;
    drop(read);
    let mut cluster =
        EmbeddedCluster { child, lifeline: Some(write), directory, socket: PathBuf::new() };
    match await_ready(ready, cluster.directory.path()).await {
        Ok(socket) => {
            cluster.socket = socket;
            Ok(cluster)
        }
        Err(error) => {
            cluster.end().await;
            Err(error)
        }
    }
}

impl EmbeddedCluster {
    /// The socket for clients.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Ends the cluster and removes its files.
    pub(crate) async fn end(mut self) {
        self.lifeline = None;
        let polls = END_TIMEOUT.as_millis() / END_POLL.as_millis();
        for _ in 0..polls {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            sleep(END_POLL).await;
        }
        // Dropping `self` kills what is left.
    }
}

impl Drop for EmbeddedCluster {
    fn drop(&mut self) {
        self.lifeline = None;
        if matches!(self.child.try_wait(), Ok(None)) {
            // The child is not reaped yet, so the pid is still its own.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Starts the cluster that `storm up` keeps, and records it. If this process ends before the record
/// is written, the cluster ends too, because no command would find it.
pub(crate) async fn start_kept(
    shape: &LocalClusterShape,
    state: &StateDir,
    free_bytes: u64,
) -> Result<KeptCluster, LocalClusterError> {
    let directory = RuntimeDir::make(free_bytes).map_err(LocalClusterError::RuntimeDir)?;
    let (read, write) = pipe2(OFlag::O_CLOEXEC).map_err(spawn_error)?;
    let (mut child, ready) = spawn(shape, directory.path(), &read)?;
    drop(read);
    let started = match await_ready(ready, directory.path()).await {
        Ok(socket) => record(&child, socket, directory.path(), shape, state),
        Err(error) => Err(error),
    };
    match started {
        Ok(kept) => {
            directory.keep();
            // If the cluster has died meanwhile, the next command notices.
            let _ = File::from(write).write_all(LET_GO);
            Ok(kept)
        }
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(error)
        }
    }
}

fn record(
    child: &Child,
    socket: PathBuf,
    directory: &Path,
    shape: &LocalClusterShape,
    state: &StateDir,
) -> Result<KeptCluster, LocalClusterError> {
    let pid = i32::try_from(child.id()).map_err(|_| spawn_error(nix::errno::Errno::EOVERFLOW))?;
    let kept = KeptCluster {
        process: ProcessIdentity::of(pid).map_err(LocalClusterError::Spawn)?,
        socket,
        runtime_dir: directory.to_owned(),
        nodes: shape.nodes,
        pes: shape.pes,
        sched: shape.sched.clone(),
        started: jiff::Timestamp::now(),
    };
    state.write(&kept)?;
    Ok(kept)
}

/// Starts the Machine Manager. Returns the pipe on which it reports that it is ready.
fn spawn(
    shape: &LocalClusterShape,
    directory: &Path,
    lifeline: &OwnedFd,
) -> Result<(Child, OwnedFd), LocalClusterError> {
    let (ready_read, ready_write) = pipe2(OFlag::O_CLOEXEC).map_err(spawn_error)?;
    inherit(&ready_write).map_err(spawn_error)?;
    let log = File::create_new(directory.join(LOG_NAME)).map_err(LocalClusterError::Spawn)?;
    let log_too = log.try_clone().map_err(LocalClusterError::Spawn)?;
    let program = std::env::current_exe().map_err(LocalClusterError::Spawn)?;
    let mut command = Command::new(program);
    command
        .arg("mm")
        .args(["--local-nodes", &shape.nodes.to_string()])
        .args(["--pes", &shape.pes.to_string()])
        .arg("--runtime-dir")
        .arg(directory)
        .args(["--partition-sched", &shape.sched.join(",")])
        .args(["--quantum", &format!("{}us", shape.quantum.as_micros())])
        .args(shape.params.iter().map(|param| format!("--param={}", param.written())))
        .args(["--ready-fd", &ready_write.as_raw_fd().to_string()])
        // The terminal's Ctrl-C is for this process, which cancels the job and then ends the
        // cluster.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(log_too);
    if let Some(directory) = &shape.switch_log {
        command.env("STORM_SWITCH_LOG", directory);
    }
    if let Some(backend) = shape.backend.and_then(|backend| backend.to_possible_value()) {
        // The nodes' daemons inherit it from the manager.
        command.env("STORM_BACKEND", backend.get_name());
    }
    inherit(lifeline).map_err(spawn_error)?;
    command.args(["--lifeline-fd", &lifeline.as_raw_fd().to_string()]);
    let child = command.spawn().map_err(LocalClusterError::Spawn)?;
    Ok((child, ready_read))
}

/// Lets a child inherit this descriptor.
fn inherit(descriptor: &OwnedFd) -> nix::Result<()> {
    fcntl(descriptor, FcntlArg::F_SETFD(FdFlag::empty())).map(drop)
}

fn spawn_error(error: nix::errno::Errno) -> LocalClusterError {
    LocalClusterError::Spawn(error.into())
}

async fn await_ready(ready: OwnedFd, directory: &Path) -> Result<PathBuf, LocalClusterError> {
    let log = || log_tail(&directory.join(LOG_NAME)).unwrap_or_default();
    let receiver = pipe::Receiver::from_owned_fd(ready).map_err(LocalClusterError::Spawn)?;
    let mut line = Vec::new();
    let mut bounded = receiver.take(MAX_LINE_BYTES as u64);
    let read = bounded.read_to_end(&mut line);
    match timeout(READY_TIMEOUT, read).await {
        Err(_) => {
            return Err(LocalClusterError::Late { seconds: READY_TIMEOUT.as_secs(), log: log() });
        }
        Ok(Err(error)) => return Err(LocalClusterError::Spawn(error)),
        Ok(Ok(_)) => {}
    }
    match serde_json::from_slice(&line) {
        Ok(Ready::Ready { socket, .. }) => Ok(socket),
        Ok(Ready::Failed { error }) => Err(LocalClusterError::Refused(error)),
        Err(_) => Err(LocalClusterError::Died { log: log() }),
    }
}

/// The last lines of a log.
fn log_tail(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL_BYTES)))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    Ok(String::from_utf8_lossy(&tail).into_owned())
}
