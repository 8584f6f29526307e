//! The file as it is written.

use super::clients::ClientsConfig;
use super::flexible::FlexibleConfig;
use super::security::SecurityConfig;
use super::service::{AccountEntry, PriorityEntry, QosEntry, UserName};
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

/// Room for the files of some thousand users; less than what a disk has.
pub(crate) const DEFAULT_SPOOL_BYTES: u64 = 64 << 30;

/// A Node Manager that is stopped is found dead so much after `node-hung` at the latest: it is asked each second, and
/// a lease is renewed several times in its term.
const LEASE_BEYOND_HUNG: Duration = Duration::from_secs(2);

/// A cluster.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct MmConfig {
    /// Name of the cluster.
    #[serde(default = "default_cluster")]
    pub(crate) cluster: String,
    /// Where nodes connect. Loopback unless told otherwise: nothing listens on
    /// a public address by itself.
    #[serde(default = "default_listen", deserialize_with = "written_address::one")]
    pub(crate) listen: SocketAddr,
    /// Socket of the client API.
    #[serde(default = "default_socket")]
    pub(crate) socket: PathBuf,
    /// Journal and spool.
    #[serde(default = "default_state_dir")]
    pub(crate) state_dir: PathBuf,
    /// What the spool may take as long as the jobs that are not over do not need
    /// more.
    #[serde(default = "default_spool_bytes")]
    pub(crate) spool_bytes: u64,
    /// Most bytes that each node keeps of jobs' files, for the next job; by the room that its
    /// file system has unless it is given. Nodes read it.
    pub(crate) cache_bytes: Option<u64>,
    /// Ended jobs that are remembered: in memory, and in the journal, which has room
    /// for no more of them.
    #[serde(default = "default_history")]
    pub(crate) history: usize,
    /// One strobe orders the slices of so much time; zero strobes each.
    #[serde(default = "default_strobe_span")]
    pub(super) strobe_span: WrittenTime,
    /// The most jobs of an array.
    #[serde(default = "default_array_max")]
    pub(crate) array_max: u32,
    /// The most jobs of one user that are not over.
    #[serde(default = "default_user_jobs_max")]
    pub(crate) user_jobs_max: u32,
    /// Users who may end other users' jobs and the cluster, besides root.
    #[serde(default)]
    pub(super) admins: Vec<UserName>,
    /// The nodes.
    pub(crate) nodes: Vec<NodesConfig>,
    /// The partitions; without any, all nodes are in one called `main`, under
    /// gang scheduling.
    #[serde(default)]
    pub(crate) partitions: Vec<PartitionEntry>,
    /// What counts for priorities; all jobs are equal without it.
    pub(super) priority: Option<PriorityEntry>,
    /// The accounts and their users.
    #[serde(default)]
    pub(super) accounts: Vec<AccountEntry>,
    /// The qualities of service.
    #[serde(default)]
    pub(super) qos: Vec<QosEntry>,
    /// Who may be a node.
    #[serde(default)]
    pub(crate) security: SecurityConfig,
    /// Users on other hosts.
    #[serde(default)]
    pub(crate) clients: ClientsConfig,
    /// How the nodes are connected.
    #[serde(default)]
    pub(crate) network: NetworkConfig,
    /// By what processes are judged under flexible coscheduling.
    #[serde(default)]
    pub(crate) flexible: FlexibleConfig,
    /// When something has taken too long.
    #[serde(default)]
    pub(crate) timeouts: TimeoutConfig,
    /// Who the users are that it names: nobody, unless the host was asked.
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
    /// Memory of each that jobs may have, as `64GiB`; without it memory is not counted.
    pub(super) memory: Option<WrittenMemory>,
    /// What jobs may ask for by `--constraint`.
    #[serde(default)]
    pub(crate) features: Vec<String>,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct PartitionEntry {
    /// Its name.
    pub(crate) name: String,
    /// Its nodes, folded; all nodes when there is one partition.
    pub(crate) nodes: Option<String>,
    /// Its policy.
    pub(crate) sched: String,
    /// Its time slice: short for `params.quantum-us`.
    pub(super) quantum: Option<WrittenTime>,
    /// Jobs that name neither partition nor policy go there.
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
    /// Chunks of a file that a node may have that are not written (`docs/decisions/0111`).
    pub(crate) chunk_slots: u32,
    /// Files transferred at once.
    pub(crate) channels: u32,
    /// Jobs that can be on the machine at once.
    pub(crate) job_slots: u32,
    /// Largest heartbeat: a job's arguments and environment must fit.
    pub(crate) heartbeat_bytes: u32,
    /// Bytes of messages that the link of a node carries each way in a slice of buffered coscheduling.
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
    /// Between two heartbeats when nothing else is sent.
    pub(super) heartbeat: WrittenTime,
    /// A node whose host has not answered for so long is dead: more than two
    /// heartbeats, so that one that is late is not the end of a job.
    pub(super) node_dead: WrittenTime,
    /// A node that has not answered for so long is dead, although its host
    /// answers: it is stopped, and not merely slow.
    pub(super) node_hung: WrittenTime,
    /// Between the request to end and the kill.
    pub(super) kill_grace: WrittenTime,
    /// How long a node keeps its jobs without a manager, and looks for one.
    pub(super) manager_lost: WrittenTime,
    /// How long it keeps those of them that asked to be queued again.
    pub(super) requeue_fence: WrittenTime,
    /// How long jobs go on on a node whose Node Manager has ended.
    #[serde(deserialize_with = "WrittenTime::or_none")]
    pub(super) node_return: WrittenTime,
    /// How long a restarted manager waits for the nodes of jobs that ran.
    pub(super) recovery: WrittenTime,
}

/// Longer than it takes to install another version and to start it, or than `systemd` takes to start a
/// Node Manager that has crashed; no longer than the other nodes of a job can be let wait for one that
/// does not come.
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
    /// Between two heartbeats.
    pub(crate) fn heartbeat(&self) -> Duration {
        self.heartbeat.0
    }

    /// Silence of a host that means death.
    pub(crate) fn node_dead(&self) -> Duration {
        self.node_dead.0
    }

    /// Silence of a node on a host that answers that means death.
    pub(crate) fn node_hung(&self) -> Duration {
        self.node_hung.0
    }

    /// Between the request to end and the kill.
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

    /// How long those of a Node Manager that stands still go on after the last word of it: so long that the
    /// manager has found it dead by then, which it asks each second.
    pub(crate) fn lease(&self) -> Duration {
        self.node_hung.0.saturating_add(LEASE_BEYOND_HUNG)
    }

    /// How long such a job may go on after its node can have known that it is lost.
    pub(crate) fn outlives_loss(&self) -> Duration {
        self.requeue_fence().max(self.lease())
    }

    /// How long a restarted manager waits for nodes.
    pub(crate) fn recovery(&self) -> Duration {
        self.recovery.0
    }
}

impl MmConfig {
    /// One strobe orders the slices of so much time.
    pub(crate) fn strobe_span(&self) -> Duration {
        self.strobe_span.0
    }

    /// Reads and checks a file; users whom it names are not looked up.
    pub(crate) fn read(path: &Path) -> Result<MmConfig, ConfigError> {
        MmConfig::read_with_users(path, |_| KnownUsers::default())
    }

    /// Reads and checks a file; `look_up` says who the users are that it names. Those of whom
    /// nothing is known are warned of, and absent.
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
        // Two names may be of one user.
        config.plan().map_err(wrong)?;
        Ok(config)
    }

    /// Says which of its users the host does not know, with their keys and lines.
    pub(crate) fn warn_of_unknown_users(&self, path: &Path) {
        // Whoever has changed it since has changed its lines.
        let text = fs::read_to_string(path).unwrap_or_default();
        for NamedUser { key, name } in self.unknown_users() {
            let (file, line) = (path.display(), super::line::line_of(&text, &key));
            tracing::warn!(
                %file, line, key, name,
                "this host knows no such user: as if it were not named, until the host does; a \
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

fn default_cluster() -> String {
    "storm".to_owned()
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
