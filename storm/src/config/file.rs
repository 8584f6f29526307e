//! The file as it is written.

use super::clients::ClientsConfig;
use super::flexible::FlexibleConfig;
use super::security::SecurityConfig;
use super::service::{AccountEntry, PriorityEntry, QosEntry};
use super::user_name::UserName;
use super::users::{KnownUsers, NamedUser};
use super::written_address;
use super::written_memory::WrittenMemory;
use super::written_time::WrittenTime;
use super::{ConfigError, ConfigProblem};
use serde::Deserialize;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use storm_sched::PolicyParams;

/// Largest file that is read: a line for each of 16,384 nodes is far less.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Room for the files of a few thousand users, and less than a disk has.
pub(crate) const DEFAULT_SPOOL_BYTES: u64 = 64 << 30;

/// A stopped Node Manager is found dead at most this long after `node-hung`: the manager asks
/// it each second, and a lease is renewed several times in its term.
const LEASE_BEYOND_HUNG: Duration = Duration::from_secs(2);

/// A cluster.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct MmConfig {
    /// Name of the cluster.
    #[serde(default = "default_cluster")]
    pub(crate) cluster: String,
    /// The address where nodes connect. Loopback by default, so that the manager listens on a
    /// public address only if configured.
    #[serde(default = "default_listen", deserialize_with = "written_address::one")]
    pub(crate) listen: SocketAddr,
    /// Socket of the client API.
    #[serde(default = "default_socket")]
    pub(crate) socket: PathBuf,
    /// Journal and spool.
    #[serde(default = "default_state_dir")]
    pub(crate) state_dir: PathBuf,
    /// Most bytes in the spool. Jobs that are not over may take more if they need it.
    #[serde(default = "default_spool_bytes")]
    pub(crate) spool_bytes: u64,
    /// Most bytes of jobs' files that each node keeps for the next job. Nodes read this setting.
    /// Without it, they decide by the room in their file system.
    pub(crate) cache_bytes: Option<u64>,
    /// Number of ended jobs that are remembered in memory and in the journal, which has room for
    /// no more of them.
    #[serde(default = "default_history")]
    pub(crate) history: usize,
    /// One strobe orders the slices of this much time; with zero, each slice has its own strobe.
    #[serde(default = "default_strobe_span")]
    pub(super) strobe_span: WrittenTime,
    /// The most jobs of an array.
    #[serde(default = "default_array_max")]
    pub(crate) array_max: u32,
    /// The most jobs of one user that are not over.
    #[serde(default = "default_user_jobs_max")]
    pub(crate) user_jobs_max: u32,
    /// Users besides root who may end other users' jobs and the cluster.
    #[serde(default)]
    pub(super) admins: Vec<UserName>,
    pub(crate) nodes: Vec<NodesConfig>,
    /// The partitions; without any, all nodes are in one called `main`, under
    /// gang scheduling.
    #[serde(default)]
    pub(crate) partitions: Vec<PartitionEntry>,
    /// The weights of priorities. Without it all jobs are equal.
    pub(super) priority: Option<PriorityEntry>,
    /// The accounts and their users.
    #[serde(default)]
    pub(super) accounts: Vec<AccountEntry>,
    /// The qualities of service.
    #[serde(default)]
    pub(super) qos: Vec<QosEntry>,
    /// The keys that make a host a node of the cluster.
    #[serde(default)]
    pub(crate) security: SecurityConfig,
    /// Users on other hosts.
    #[serde(default)]
    pub(crate) clients: ClientsConfig,
    /// How the nodes are connected.
    #[serde(default)]
    pub(crate) network: NetworkConfig,
    /// Thresholds by which flexible coscheduling judges processes.
    #[serde(default)]
    pub(crate) flexible: FlexibleConfig,
    /// When something has taken too long.
    #[serde(default)]
    pub(crate) timeouts: TimeoutConfig,
    /// The uids of the users that the file names; empty until the host was asked.
    #[serde(skip)]
    pub(super) users: KnownUsers,
}

/// Nodes that are alike.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct NodesConfig {
    /// Their names, folded: `n[1-64]`.
    pub(crate) names: String,
    /// Processing elements of each.
    pub(crate) pes: u32,
    /// Memory of each node that jobs may have, as `64GiB`. Without it memory is not counted.
    pub(super) memory: Option<WrittenMemory>,
    /// Features that jobs may ask for by `--constraint`.
    #[serde(default)]
    pub(crate) features: Vec<String>,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct PartitionEntry {
    pub(crate) name: String,
    /// Its nodes, folded; all nodes when there is one partition.
    pub(crate) nodes: Option<String>,
    /// Its policy.
    pub(crate) sched: String,
    /// Its time slice; short for `params.quantum-us`.
    pub(super) quantum: Option<WrittenTime>,
    /// Whether jobs that name neither partition nor policy go there.
    #[serde(default)]
    pub(crate) default: bool,
    /// Further settings of the policy.
    #[serde(default)]
    pub(crate) params: PolicyParams,
}

/// How the nodes are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct NetworkConfig {
    /// Children of each node in the tree.
    pub(crate) fan_out: u32,
    /// Bytes per chunk of a file; 512 KiB in the paper (section 3.3), with two slots.
    pub(crate) chunk_bytes: u32,
    /// Chunks of a file that a node may hold before they are written (`docs/decisions/0111`).
    pub(crate) chunk_slots: u32,
    /// Files transferred at once.
    pub(crate) channels: u32,
    /// Jobs that can be on the machine at once.
    pub(crate) job_slots: u32,
    /// Largest heartbeat, which must hold a job's arguments and environment.
    pub(crate) heartbeat_bytes: u32,
    /// Bytes of messages that a node's link carries each way in a slice of buffered coscheduling.
    pub(crate) slice_link_bytes: u32,
}

impl Default for NetworkConfig {
    fn default() -> NetworkConfig {
        NetworkConfig {
            fan_out: 4,
            chunk_bytes: 1 << 20,
            chunk_slots: 16,
            channels: 2,
            job_slots: 4096,
            heartbeat_bytes: 256 << 10,
            slice_link_bytes: storm_rm::SLICE_LINK_BYTES,
        }
    }
}

/// When something has taken too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct TimeoutConfig {
    /// Time between two heartbeats when nothing else is sent.
    pub(super) heartbeat: WrittenTime,
    /// A node is dead when its host has not answered for this long. The time is more than two
    /// heartbeats, so that one late heartbeat doesn't end a job.
    pub(super) node_dead: WrittenTime,
    /// A node is dead when it has not answered for this long although its host does: it is stopped,
    /// not merely slow.
    pub(super) node_hung: WrittenTime,
    /// Time between the request to end and the kill.
    pub(super) kill_grace: WrittenTime,
    /// How long a node keeps its jobs without a manager, and tries to find one.
    pub(super) manager_lost: WrittenTime,
    /// How long a node without a manager keeps its jobs that asked to be queued again.
    pub(super) requeue_fence: WrittenTime,
    /// How long jobs continue on a node whose Node Manager has ended.
    #[serde(deserialize_with = "WrittenTime::or_none")]
    pub(super) node_return: WrittenTime,
    /// How long a restarted manager waits for the nodes of jobs that ran.
    pub(super) recovery: WrittenTime,
}

/// Long enough to install and start another version, or for `systemd` to restart a Node Manager
/// that crashed. Short enough for the job's other nodes to wait for a node that never returns.
const DEFAULT_NODE_RETURN: Duration = Duration::from_secs(60);

impl Default for TimeoutConfig {
    fn default() -> TimeoutConfig {
        TimeoutConfig {
            heartbeat: WrittenTime(Duration::from_millis(250)),
            node_dead: WrittenTime(Duration::from_millis(800)),
            node_hung: WrittenTime(Duration::from_secs(3)),
            kill_grace: WrittenTime(storm_mm::DEFAULT_KILL_GRACE),
            manager_lost: WrittenTime(storm_nm::NmConfig::default().manager_lost),
            requeue_fence: WrittenTime(storm_nm::NmConfig::default().requeue_fence),
            node_return: WrittenTime(DEFAULT_NODE_RETURN),
            recovery: WrittenTime(storm_mm::DEFAULT_RECOVERY_TIMEOUT),
        }
    }
}

impl TimeoutConfig {
    /// Time between two heartbeats when nothing else is sent.
    pub(crate) fn heartbeat(&self) -> Duration {
        self.heartbeat.0
    }

    /// How long a host is silent before its node counts as dead.
    pub(crate) fn node_dead(&self) -> Duration {
        self.node_dead.0
    }

    /// How long a node is silent before it counts as dead although its host answers.
    pub(crate) fn node_hung(&self) -> Duration {
        self.node_hung.0
    }

    /// Time between the request to end and the kill.
    pub(crate) fn kill_grace(&self) -> Duration {
        self.kill_grace.0
    }

    /// How long jobs outlive their manager.
    pub(crate) fn manager_lost(&self) -> Duration {
        self.manager_lost.0
    }

    /// How long jobs outlive the Node Manager of their node.
    pub(crate) fn node_return(&self) -> Duration {
        self.node_return.0
    }

    /// How long jobs that asked to be queued again outlive their manager.
    pub(crate) fn requeue_fence(&self) -> Duration {
        self.requeue_fence.0
    }

    /// How long jobs that asked to be queued again continue after the last message of a Node
    /// Manager that is stopped. By then the manager, which asks each second, has found that node
    /// dead.
    pub(crate) fn lease(&self) -> Duration {
        self.node_hung.0.saturating_add(LEASE_BEYOND_HUNG)
    }

    /// How long such a job may continue after its node could first know that it is lost.
    pub(crate) fn outlives_loss(&self) -> Duration {
        self.requeue_fence().max(self.lease())
    }

    /// How long a restarted manager waits for the nodes of jobs that ran.
    pub(crate) fn recovery(&self) -> Duration {
        self.recovery.0
    }
}

impl MmConfig {
    /// One strobe orders the slices of this much time.
    pub(crate) fn strobe_span(&self) -> Duration {
        self.strobe_span.0
    }

    /// Reads and checks a file, without looking up the users that it names.
    pub(crate) fn read(path: &Path) -> Result<MmConfig, ConfigError> {
        MmConfig::read_with_users(path, |_| KnownUsers::default())
    }

    /// Reads and checks a file. `look_up` maps the user names in it to uids; an unknown user is
    /// treated as absent, with a warning.
    pub(crate) fn read_with_users(
        path: &Path,
        look_up: impl FnOnce(Vec<String>) -> KnownUsers,
    ) -> Result<MmConfig, ConfigError> {
        let fail = |problem| ConfigError { file: path.to_owned(), line: None, problem };
        let length = fs::metadata(path).map_err(|error| fail(error.into()))?.len();
        if length > MAX_FILE_BYTES {
            return Err(fail(ConfigProblem::TooLong));
        }
        let text = fs::read_to_string(path).map_err(|error| fail(error.into()))?;
        let wrong =
            |problem: ConfigProblem| ConfigError { line: problem.line_in(&text), ..fail(problem) };
        let mut config = MmConfig::parse(&text).map_err(wrong)?;
        let named: Vec<NamedUser> = config.named_users().collect();
        config.users = look_up(named.iter().map(|user| user.name.clone()).collect());
        // Checked again: two names may turn out to be the same user.
        config.plan().map_err(wrong)?;
        Ok(config)
    }

    /// Warns of each user that the host does not know, with the key and line that name it.
    pub(crate) fn warn_of_unknown_users(&self, path: &Path) {
        // If the file was edited since it was read, the line numbers may be off.
        let text = fs::read_to_string(path).unwrap_or_default();
        for NamedUser { key, name } in self.unknown_users() {
            let (file, line) = (path.display(), super::line::line_of(&text, &key));
            tracing::warn!(
                %file, line, key, name,
                "this host knows no such user, so the entry counts for nobody until it does; a \
                 number works as well"
            );
        }
    }

    /// Parses and checks a file's text.
    pub(crate) fn parse(text: &str) -> Result<MmConfig, ConfigProblem> {
        let config: MmConfig =
            toml::from_str(text).map_err(|error| ConfigProblem::Syntax(Box::new(error)))?;
        config.plan()?;
        Ok(config)
    }
}

/// The name of a cluster that gives itself none.
pub(crate) const DEFAULT_CLUSTER: &str = "storm";

fn default_cluster() -> String {
    DEFAULT_CLUSTER.to_owned()
}

fn default_listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 7117))
}

fn default_socket() -> PathBuf {
    PathBuf::from(crate::target::SYSTEM_SOCKET)
}

fn default_spool_bytes() -> u64 {
    DEFAULT_SPOOL_BYTES
}

fn default_strobe_span() -> WrittenTime {
    WrittenTime(storm_mm::DEFAULT_STROBE_SPAN)
}

fn default_user_jobs_max() -> u32 {
    storm_mm::DEFAULT_USER_JOBS_MAX
}

fn default_array_max() -> u32 {
    storm_mm::DEFAULT_ARRAY_MAX
}

fn default_history() -> usize {
    storm_mm::DEFAULT_HISTORY_LIMIT
}

fn default_state_dir() -> PathBuf {
    PathBuf::from("/var/lib/storm")
}
