//! Settings of a real node.

use super::Departure;
use super::script_commands::ScriptCommands;
use super::shared_memory::SharedMemory;
use crate::NmConfig;
use crate::classes::ClassRules;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use storm_pl::{KeeperConfig, ProcessId, StartMethod, Survival, keeper_at};
use storm_rm::message::ClientsAddress;

/// Begins the names of keepers' doors. The cluster follows.
const DOOR_PREFIX: &str = "keeper-";

/// Finds a keeper of another cluster that uses this directory of a node, and returns its cluster.
/// The directory must not be cleared while the keeper's jobs wait there for their next node
/// manager.
///
/// # Errors
/// The directory cannot be read, or a door cannot be tried.
pub fn keeper_of_other_cluster(dir: &Path, own: &str) -> io::Result<Option<(String, ProcessId)>> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let cluster = name.to_str().and_then(|name| name.strip_prefix(DOOR_PREFIX));
        let Some(cluster) = cluster.filter(|cluster| *cluster != own) else { continue };
        if let Some(keeper) = keeper_at(&entry.path())? {
            return Ok(Some((cluster.to_owned(), keeper)));
        }
    }
    Ok(None)
}

/// The program from which a rank under PMIx becomes the job's program: `storm __pmix`.
#[derive(Clone, Debug)]
pub struct PmixStarter {
    /// The path of the program; users must be able to execute it.
    pub program: PathBuf,
    /// Bytes of the manager's messages to nodes, which bound what ranks exchange at once.
    pub heartbeat_bytes: Arc<AtomicU32>,
}

/// The settings of a node manager on a real node.
#[derive(Clone, Debug)]
pub struct LiveConfig {
    /// Name of the cluster. With the node's name it names the node's control group.
    pub cluster: String,
    /// The node's name: it names the control group, and `%n` in output files.
    pub name: String,
    /// Processing elements offered: the most ranks of one job.
    pub pes: u16,
    /// The address under which ranks of other nodes reach this node.
    pub address: String,
    /// The node manager's own directory for the cache and the jobs' directories. The directory is
    /// created if need be, gets the mode that it needs, and loses what a former life left there.
    /// Users must be able to pass through its parents.
    pub dir: PathBuf,
    /// Most bytes of cached content. Running jobs keep their content beyond it. `None`: half of the
    /// space that the file system of `dir` has left, at the start or later, and at most 2 GiB.
    pub cache_bytes: Option<u64>,
    /// Leave the cache in place at the end, for the next start.
    pub keep_cache: bool,
    /// Places for jobs made at the start: one for the running job and one for the next, so that a
    /// launch finds processes waiting. If more jobs arrive at once, more are made.
    pub pads: u16,
    /// Most places for jobs: jobs on the node at once.
    pub pads_max: u16,
    /// The control group in which the node makes its own; the daemon's group if `None`.
    pub cgroup_parent: Option<PathBuf>,
    /// Switch by signals even where control groups could be used.
    pub signals_only: bool,
    /// How to start the keeper.
    pub start: StartMethod,
    /// How long the keeper may leave pings unanswered before it counts as hanging. The keeper is
    /// killed then, and the node with it. The keeper answers within a millisecond, but on an
    /// overrun host an ordinary process may wait for seconds.
    pub keeper_timeout: Duration,
    /// SCHED_FIFO priority of the node manager's thread and of the thread that begins slices.
    /// `None` leaves them ordinary threads.
    pub realtime_priority: Option<u8>,
    /// How often ranks are boosted that wait for a message which has arrived.
    pub boost_period: Duration,
    /// The rules by which flexible coscheduling judges ranks.
    pub class_rules: ClassRules,
    /// Set before the link is closed to request the end of the node manager alone. The node manager
    /// then does not try to join the cluster again.
    pub asked_to_end: Arc<AtomicBool>,
    /// The planned end of the node manager alone: what it holds is handed over before the link is
    /// closed.
    pub departure: Arc<Departure>,
    /// Set if the node manager must end its jobs too, even if the jobs could continue without it.
    pub ends_jobs: Arc<AtomicBool>,
    /// Where to write the last switches at the end, as comma-separated values.
    pub switch_log: Option<PathBuf>,
    /// Starts the ranks of jobs that join through PMIx; `None` leaves them to PMI-1.
    pub pmix: Option<PmixStarter>,
    /// The commands that scripts find first; `None` leaves them those of the host.
    pub script_commands: Option<ScriptCommands>,
    /// Environment variables about the node's network for ranks. The variables are known once the
    /// node has joined.
    pub network_variables: Arc<Mutex<Vec<(&'static str, String)>>>,
    /// The means by which processes of this host reach the Machine Manager; `None` if this node
    /// offers none.
    pub relay: Option<RelayOfNode>,
    /// Settings that hold on any host.
    pub nm: NmConfig,
}

/// The socket on which this node passes users of its host on to the Machine Manager.
#[derive(Clone)]
pub struct RelayOfNode {
    /// The path of the socket.
    pub socket: PathBuf,
    /// Receives the address where the manager admits users of other hosts. Returns whether users
    /// reach the manager by the socket. Must not wait: the strobe thread calls it.
    pub hear: Arc<Hear>,
}

/// See [`RelayOfNode::hear`].
pub type Hear = dyn Fn(Option<ClientsAddress>) -> bool + Send + Sync;

impl fmt::Debug for RelayOfNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayOfNode").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl LiveConfig {
    /// A node with the defaults.
    pub fn new(cluster: String, name: String, pes: u16, address: String, dir: PathBuf) -> Self {
        LiveConfig {
            cluster,
            name,
            pes,
            address,
            dir,
            cache_bytes: None,
            keep_cache: false,
            pads: 2,
            pads_max: 64,
            cgroup_parent: None,
            signals_only: false,
            start: StartMethod::Fork,
            keeper_timeout: Duration::from_secs(10),
            realtime_priority: Some(storm_pl::realtime::DEFAULT_PRIORITY),
            boost_period: crate::DEFAULT_BOOST_PERIOD,
            class_rules: ClassRules::default(),
            asked_to_end: Arc::default(),
            departure: Arc::default(),
            ends_jobs: Arc::default(),
            switch_log: None,
            pmix: None,
            script_commands: None,
            network_variables: Arc::default(),
            relay: None,
            nm: NmConfig::default(),
        }
    }

    /// How the keeper continues without this node manager. The cluster is a part of the door's
    /// name: the keeper of another cluster keeps other jobs.
    fn survival(&self) -> Option<Survival> {
        let bound = self.nm.node_return;
        let door = self.dir.join(format!("{DOOR_PREFIX}{}", self.cluster));
        (!bound.is_zero()).then_some(Survival { door, bound })
    }

    pub(super) fn keeper(&self) -> KeeperConfig {
        KeeperConfig {
            cluster: self.cluster.clone(),
            node: self.name.clone(),
            capacity: self.pes,
            cgroup_parent: self.cgroup_parent.clone(),
            signals_only: self.signals_only,
            leftovers: Some(SharedMemory::of(&self.dir).leftovers()),
            survival: self.survival(),
            start: self.start.clone(),
        }
    }
}
