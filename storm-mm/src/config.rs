//! The configuration of a Machine Manager: nodes, partitions, settings.

use crate::ServiceConfig;
use jiff::Timestamp;
use std::rc::Rc;
use std::time::Duration;
use storm_rm::message::ClientsAddress;
use storm_sched::{NodeSpec, PolicyParams, Registry};

/// The cluster as configured.
#[derive(Clone)]
pub struct CoreConfig {
    /// The cluster's name.
    pub cluster: String,
    /// The compute nodes, in the order of columns and listings. A node's id does not depend on this
    /// order ([`NodeBook`](crate::NodeBook)).
    pub nodes: Vec<NodeSpec>,
    /// The partitions; every node belongs to exactly one. A job that names no partition gets the
    /// first partition that is marked default, or else the first.
    pub partitions: Vec<PartitionConfig>,
    /// All policies: those that the partitions name, and those that they can be switched to.
    pub policies: Registry,
    /// Jobs that can be on the machine at once.
    pub job_slots: u32,
    /// Largest heartbeat in bytes: bounds a job's arguments and environment.
    pub heartbeat_bytes: usize,
    /// Bytes per chunk of a file transfer.
    pub chunk_bytes: u32,
    /// Time between the request to end and the kill.
    pub kill_grace: Duration,
    /// Longest time from LAUNCH-JOB until all ranks execute. Time in which the job's row is not
    /// active does not count.
    pub launch_timeout: Duration,
    /// How long a restarted manager waits for the nodes of the jobs that were on the machine. A
    /// node that is not back by then has lost its jobs.
    pub recovery_timeout: Duration,
    /// The longest time for which a lost node can continue to run a job. A job that is to be
    /// requeued waits this long, or until the node is back. Zero where nodes end their jobs when
    /// they lose the manager.
    pub requeue_fence: Duration,
    /// The time whose slices one strobe orders; nodes begin these slices by their own clocks. Zero
    /// strobes each slice, as the paper does.
    pub strobe_span: Duration,
    /// Ended jobs kept in memory for `history`. The newest of each user are protected while there
    /// is room: a thousandth of the limit per user, at least one job.
    pub history_limit: usize,
    /// The most jobs of an array.
    pub array_max: u32,
    /// The most jobs of one user that are not over.
    pub user_jobs_max: u32,
    /// Accounts, qualities of service, and the weights of priorities.
    pub service: ServiceConfig,
    /// Users that may cancel other users' jobs and shut the cluster down.
    pub admin_uids: Vec<u32>,
    /// Where users of other hosts connect; sent to the nodes. `None` if such users cannot connect.
    pub clients: Option<ClientsAddress>,
    /// The wall-clock time of the backend clock's origin.
    pub origin: Timestamp,
    /// The login name of a user, where the host's user database has it.
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

/// Default of [`CoreConfig::strobe_span`]. At quanta of milliseconds a strobe per slice costs more
/// than the switch, so slices share strobes. If the manager dies, its nodes continue by themselves
/// for this long at most, which nobody notices. Clocks of 50 parts in a million drift 10 us apart
/// in this time.
pub const DEFAULT_STROBE_SPAN: Duration = Duration::from_millis(200);

/// Ended jobs kept in memory unless configured otherwise: a day of a busy
/// cluster, at about a KiB each.
pub const DEFAULT_HISTORY_LIMIT: usize = 20_000;

/// Default of [`CoreConfig::array_max`]: ten times Slurm's default, and its listing is still read
/// at once.
pub const DEFAULT_ARRAY_MAX: u32 = 10_000;

/// Default of [`CoreConfig::user_jobs_max`]: a tenth of the jobs that may wait in a partition. Each
/// takes about 1.5 KiB and its arguments and environment.
pub const DEFAULT_USER_JOBS_MAX: u32 = 100_000;

/// Default of [`CoreConfig::kill_grace`]: long enough for a small program's checkpoint, short
/// enough for a waiting user.
pub const DEFAULT_KILL_GRACE: Duration = Duration::from_secs(2);

/// Default of [`CoreConfig::recovery_timeout`]. A live node is back within a tenth of a second, a
/// node behind a switch that restarts too within ten seconds.
pub const DEFAULT_RECOVERY_TIMEOUT: Duration = Duration::from_secs(10);

/// Default of [`CoreConfig::launch_timeout`]: a hundred times a launch on an overrun node, and
/// enough to copy large files where the node's disk cannot link them.
pub const DEFAULT_LAUNCH_TIMEOUT: Duration = Duration::from_secs(30);
