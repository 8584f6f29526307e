//! Starts the keeper of a node. Synchronous, because it runs before the NM makes any thread.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command as Program, ExitCode, Stdio};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use thiserror::Error;

use crate::capabilities::Capabilities;
use crate::cgroup::{CgroupUnusable, MemoryControl, MemoryUnlimited};
use crate::descriptors::DescriptorLimit;
use crate::ids::ProcessId;
use crate::keeper::{Leftovers, Survival, run_keeper};
use crate::node::former::Former;
use crate::node::{KeeperEvents, KeeperHandle};
use crate::protocol::{self, Command, MESSAGE_MAX_BYTES, Refusal, Report, Setup};
use crate::realtime::{DEFAULT_PRIORITY, probe_realtime};
use crate::seqpacket::{Seqpacket, Wait};
use crate::shortage::Shortage;
use crate::sys::{self, Forked};

/// A keeper reports its start after a millisecond, or after the 4 s in which it waits for a former
/// keeper to clean up.
const START_TIMEOUT_MS: u16 = 15_000;
/// The NM has a descriptor for every waiting PL, so a larger number is a mistake.
const CAPACITY_MAX: u16 = 4_096;

/// The longest name of a cluster or a node: both are in the name of a directory (NAME_MAX).
const NAME_BYTES_MAX: usize = 100;
/// The rule of [`is_name`], for messages.
pub const NAME_RULE: &str =
    "names have letters of ASCII, digits, '-', '_' and '.', and at most 100 of them";

/// Whether a cluster or a node may have this name.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(allowed)
}

/// How the keeper's process is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartMethod {
    /// Fork the calling process, which must have one thread. The process should be small: the
    /// keeper keeps its memory, and each PL is forked from the keeper.
    Fork,
    /// Run a program that calls [`keeper_main`]; possible from any process.
    Exec {
        /// The program, usually `/proc/self/exe`.
        program: PathBuf,
        /// Its arguments after its name, usually one hidden subcommand.
        args: Vec<OsString>,
    },
}

/// The configuration of a keeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeeperConfig {
    /// The cluster this node belongs to.
    pub cluster: String,
    /// This node's name in the cluster. `cluster` and this name are the name of the node's cgroup
    /// directory, so that a new daemon finds the directory of a crashed one.
    pub node: String,
    /// PLs in each pad: the PEs of this node.
    pub capacity: u16,
    /// The cgroup v2 directory for the node's directory; that of the calling process if `None`.
    pub cgroup_parent: Option<PathBuf>,
    /// Switch by signals even if cgroup v2 could be used.
    pub signals_only: bool,
    /// Files that the keeper removes when it ends, after all processes of jobs have ended. The
    /// keeper does it because it outlives a daemon that is killed.
    pub leftovers: Option<Leftovers>,
    /// How the keeper continues without this process, with the jobs that were left with it
    /// ([`KeeperHandle::keep`](crate::KeeperHandle::keep)). If `None`, it ends with this process.
    pub survival: Option<Survival>,
    /// How to make the process.
    pub start: StartMethod,
}

/// Why there is no keeper.
#[derive(Debug, Error)]
pub enum StartError {
    /// The cluster's or the node's name cannot be part of a directory name.
    #[error("{0:?} is no name for a cluster or node: {NAME_RULE}")]
    Name(String),
    /// No PE, or absurdly many.
    #[error("a node has between 1 and {CAPACITY_MAX} processing elements, not {0}")]
    Capacity(u16),
    /// Forking would be unsound.
    #[error("the keeper must be forked before the daemon makes a thread (it has {0})")]
    Threads(usize),
    /// The process could not be made.
    #[error("cannot start the keeper")]
    Spawn(#[source] io::Error),
    /// The keeper ended, or sent another message, before it was ready.
    #[error("the keeper did not come up")]
    NotUp(#[source] io::Error),
    /// This process has no room for the jobs of a former daemon. The jobs continue.
    #[error("the jobs that a former daemon left here cannot be taken over: {0}")]
    TooMany(Shortage),
    /// The keeper gave its reason.
    #[error(transparent)]
    Refused(Refusal),
}

/// A running keeper, not yet attached to an event loop. Dropping it ends the keeper.
#[derive(Debug)]
pub struct Keeper {
    pub(super) control: Seqpacket,
    pub(super) pid: ProcessId,
    pub(super) capacity: u16,
    pub(super) cgroup: Result<PathBuf, CgroupUnusable>,
    pub(super) memory: Result<MemoryControl, MemoryUnlimited>,
    pub(super) survives: bool,
    /// Set for a keeper that another process started and this process takes over.
    pub(super) former: Option<Former>,
}

impl Keeper {
    /// Starts a keeper and waits until it is ready. Raises this process's soft limit on descriptors
    /// to the hard limit, as the keeper does. A waiting PL takes one descriptor, a rank up to six.
    /// Ranks keep the earlier limit, unless their job has its own.
    ///
    /// # Errors
    /// The process cannot be made, or another daemon already serves this node.
    pub fn start(config: &KeeperConfig) -> Result<Self, StartError> {
        let name = cgroup_name(config)?;
        if config.capacity == 0 || config.capacity > CAPACITY_MAX {
            return Err(StartError::Capacity(config.capacity));
        }
        let (control, theirs) = Seqpacket::pair().map_err(StartError::Spawn)?;
        let pid = match &config.start {
            StartMethod::Fork => fork_keeper(theirs)?,
            StartMethod::Exec { program, args } => {
                let child = Program::new(program)
                    .args(args)
                    .stdin(Stdio::from(OwnedFd::from(theirs)))
                    .stdout(Stdio::null())
                    .spawn()
                    .map_err(StartError::Spawn)?;
                ProcessId(child.id() as i32)
            }
        };
        if let Err(errno) = DescriptorLimit::raise() {
            tracing::warn!(%errno, "the limit on open descriptors stays as it is");
        }
        let setup = Command::Setup(Setup {
            name: name.clone(),
            capacity: config.capacity,
            cgroup_parent: config.cgroup_parent.clone(),
            signals_only: config.signals_only,
            leftovers: config.leftovers.clone(),
            survival: config.survival.clone(),
            node: config.node.clone(),
        });
        protocol::send(&control, &setup, &[], Wait::Block).map_err(StartError::NotUp)?;
        let (cgroup, survives) = await_start(&control)?;
        let memory = MemoryControl::find(cgroup.as_deref().ok(), &name);
        let capacity = config.capacity;
        Ok(Self { control, pid, capacity, cgroup, memory, survives, former: None })
    }

    /// Whether the keeper continues without this process, with the jobs that are left with it.
    #[must_use]
    pub fn survives(&self) -> bool {
        self.survives
    }

    /// The capabilities of this node, to be logged once.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        Capabilities { cgroup: self.cgroup.clone(), realtime: probe_realtime(DEFAULT_PRIORITY) }
    }

    /// Whether the memory of jobs can be limited here.
    ///
    /// # Errors
    /// The reason why it cannot.
    pub fn limits_memory(&self) -> Result<(), MemoryUnlimited> {
        self.memory.as_ref().map(|_| ()).map_err(Clone::clone)
    }

    /// The node's cgroup directory; `None` if signals do the switch.
    #[must_use]
    pub fn cgroup(&self) -> Option<&Path> {
        self.cgroup.as_deref().ok()
    }

    /// The keeper's process.
    #[must_use]
    pub fn pid(&self) -> ProcessId {
        self.pid
    }

    /// Attaches the keeper to the tokio runtime of the caller.
    ///
    /// # Errors
    /// The kernel refuses an epoll instance.
    ///
    /// # Panics
    /// There is no tokio runtime with I/O enabled.
    pub fn into_async(self) -> io::Result<(KeeperHandle, KeeperEvents)> {
        KeeperEvents::attach(self)
    }
}

/// The whole program of [`StartMethod::Exec`]: the keeper, with its control socket as standard
/// input. Call it before any thread is made.
#[must_use]
pub fn keeper_main() -> ExitCode {
    match io::stdin().as_fd().try_clone_to_owned() {
        Ok(control) => {
            run_keeper(control);
            ExitCode::SUCCESS
        }
        Err(_) => ExitCode::FAILURE,
    }
}

fn fork_keeper(theirs: Seqpacket) -> Result<ProcessId, StartError> {
    let threads = fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads > 1 {
        return Err(StartError::Threads(threads));
    }
    // SAFETY: this process has one thread, as was just seen.
    match unsafe { sys::fork_into(None) } {
        Ok(Forked::Child) => {
            run_keeper(theirs.into());
            sys::exit_now(0)
        }
        Ok(Forked::Parent(pid)) => Ok(pid),
        Err(error) => Err(StartError::Spawn(error)),
    }
}

/// The node's cgroup, or why there is none, and whether the keeper survives this process.
type Started = (Result<PathBuf, CgroupUnusable>, bool);

fn await_start(control: &Seqpacket) -> Result<Started, StartError> {
    let mut sources = [PollFd::new(control.as_fd(), PollFlags::POLLIN)];
    let timeout = PollTimeout::from(START_TIMEOUT_MS);
    let ready = loop {
        match poll(&mut sources, timeout) {
            Err(nix::errno::Errno::EINTR) => {}
            other => break other,
        }
    };
    let not_up = |error: io::Error| StartError::NotUp(error);
    if ready.map_err(|errno| not_up(errno.into()))? == 0 {
        return Err(not_up(io::ErrorKind::TimedOut.into()));
    }
    let mut buffer = vec![0; MESSAGE_MAX_BYTES];
    let received = control.receive(&mut buffer, Wait::No).map_err(not_up)?;
    if received.len == 0 {
        return Err(not_up(io::ErrorKind::UnexpectedEof.into()));
    }
    match protocol::decode(&buffer[..received.len]).map_err(not_up)? {
        Report::Started { cgroup, survives } => Ok((cgroup, survives)),
        Report::Refused { what } => Err(StartError::Refused(what)),
        _ => Err(not_up(io::ErrorKind::InvalidData.into())),
    }
}

pub(super) fn cgroup_name(config: &KeeperConfig) -> Result<String, StartError> {
    for name in [&config.cluster, &config.node] {
        if !is_name(name) {
            return Err(StartError::Name(name.clone()));
        }
    }
    Ok(format!("{}-{}-{}", crate::cgroup::NAME, config.cluster, config.node))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env;

    /// The environment variable that makes this test's second run act as the keeper.
    const AS_KEEPER: &str = "STORM_TEST_AS_KEEPER";

    /// The keeper's directory was once never removed.
    #[test]
    fn a_keeper_whose_manager_died_before_it_was_up_leaves_no_cgroup() {
        if env::var_os(AS_KEEPER).is_some() {
            let _ = keeper_main();
            return;
        }
        let Ok(parent) = Capabilities::probe(None).cgroup else {
            eprintln!("no cgroup v2 on this host: NOT tested");
            return;
        };
        let path = parent.join(format!("storm-test-{}", std::process::id()));
        let setup = Setup {
            name: format!("storm-test-{}", std::process::id()),
            capacity: 1,
            cgroup_parent: None,
            signals_only: false,
            leftovers: None,
            survival: None,
            node: "n1".to_owned(),
        };
        let (control, theirs) = Seqpacket::pair().expect("a pair");
        protocol::send(&control, &Command::Setup(setup), &[], Wait::Block).expect("sent");
        // The manager sends its set-up, and dies.
        drop(control);
        let name =
            "node::keeper::tests::a_keeper_whose_manager_died_before_it_was_up_leaves_no_cgroup";
        let ended = Program::new(env::current_exe().expect("this program"))
            .args(["--exact", name, "--test-threads=1"])
            .env(AS_KEEPER, "1")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        ended.expect("it runs");
        assert!(!path.exists(), "{} is left", path.display());
    }
}
