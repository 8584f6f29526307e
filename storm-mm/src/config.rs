//! What a Machine Manager is told at its start: nodes, partitions, settings.

use crate::ServiceConfig;
use jiff::Timestamp;
use std::rc::Rc;
use std::time::Duration;
use storm_sched::{NodeSpec, PolicyParams, Registry};

/// The cluster as configured.
#[derive(Clone)]
pub struct CoreConfig {
    /// The cluster's name.
    pub cluster: String,
    /// The compute nodes, in the order of columns and listings; ids have nothing to do with it
    /// ([`NodeBook`](crate::NodeBook)).
    pub nodes: Vec<NodeSpec>,
    /// The partitions; every node belongs to exactly one. The first one marked
    /// default, or else the first, takes jobs that name none.
    pub partitions: Vec<PartitionConfig>,
    /// The policies that there are: those that partitions name here, and those that they
    /// can be switched to.
    pub policies: Registry,
    /// Jobs that can be on the machine at once.
    pub job_slots: u32,
    /// Largest heartbeat in bytes: bounds a job's arguments and environment.
    pub heartbeat_bytes: usize,
    /// Bytes per chunk of a file transfer.
    pub chunk_bytes: u32,
    /// Time between the request to end and the kill.
    pub kill_grace: Duration,
    /// How long a launch may take, from LAUNCH-JOB until all ranks execute; the time
    /// in which the job's row is not active does not count.
    pub launch_timeout: Duration,
    /// How long a restarted manager waits for the nodes of the jobs that were on the
    /// machine; a node that is not back by then has lost its jobs.
    pub recovery_timeout: Duration,
    /// How long a node that was lost can go on running a job that asked to be queued
    /// again, at most; such a job waits so long, or until the node is back. Zero where
    /// nodes end their jobs with the loss of the manager.
    pub requeue_fence: Duration,
    /// One strobe orders the slices of so much time, which nodes begin by their own clocks;
    /// zero strobes each slice, as the paper does.
    pub strobe_span: Duration,
    /// Ended jobs kept in memory for `history`. A thousandth of them, at least one, are the newest of each user,
    /// as long as there is room for these.
    pub history_limit: usize,
    /// The most jobs of an array.
    pub array_max: u32,
    /// The most jobs of one user that are not over.
    pub user_jobs_max: u32,
    /// Accounts, qualities of service, and what counts for priorities.
    pub service: ServiceConfig,
    /// Users who may cancel other users' jobs and shut the cluster down.
    pub admin_uids: Vec<u32>,
    /// The wall-clock time of the backend clock's origin.
    pub origin: Timestamp,
    /// The login name of a user, where the host knows it.
    pub user_name: Rc<dyn Fn(u32) -> Option<String>>,
}

/// One partition.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionConfig {
    /// Its name.
    pub name: String,
    /// Its nodes, as indices into [`CoreConfig::nodes`].
    pub nodes: Vec<usize>,
    /// The name of its policy.
    pub sched: String,
    /// The policy's settings.
    pub params: PolicyParams,
    /// Takes the jobs that name no partition.
    pub default: bool,
}

/// Default of [`CoreConfig::strobe_span`]: quanta of milliseconds share strobes, at which a
/// strobe each costs more than the switch; where the manager dies its nodes go on by themselves
/// for so long, which nobody notices, and clocks of 50 parts in a million drift 10 us apart.
pub const DEFAULT_STROBE_SPAN: Duration = Duration::from_millis(200);

/// Ended jobs kept in memory unless configured otherwise: a day of a busy
/// cluster, at about a KiB each.
pub const DEFAULT_HISTORY_LIMIT: usize = 20_000;

/// Default of [`CoreConfig::array_max`]: ten times that of Slurm, and a listing of it is
/// still read at once.
pub const DEFAULT_ARRAY_MAX: u32 = 10_000;

/// Default of [`CoreConfig::user_jobs_max`]: a tenth of what may wait in a partition, at about
/// 1.5 KiB each beside their arguments and environments.
pub const DEFAULT_USER_JOBS_MAX: u32 = 100_000;

/// Default of [`CoreConfig::kill_grace`]: long enough for a checkpoint of a
/// small program, short enough for a person who waits.
pub const DEFAULT_KILL_GRACE: Duration = Duration::from_secs(2);

/// Default of [`CoreConfig::recovery_timeout`]: a node that lives is back within a
/// tenth of a second, one behind a switch that restarts too within ten.
pub const DEFAULT_RECOVERY_TIMEOUT: Duration = Duration::from_secs(10);

/// Default of [`CoreConfig::launch_timeout`]: a hundred times what a launch takes on an
/// overrun node, and time to copy large files where the node's disk cannot link them.
pub const DEFAULT_LAUNCH_TIMEOUT: Duration = Duration::from_secs(30);
