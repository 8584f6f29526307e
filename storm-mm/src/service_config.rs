//! The configured accounts, qualities of service and settings of priorities.
//!
//! The values are not checked here. The reader of the configuration checks them, since it has the
//! names of the keys. An entry that makes no sense has no effect.

use std::collections::BTreeMap;
use std::time::Duration;
use storm_sched::PreemptMode;
use storm_sched::priority::{HalfLife, Weights};

/// Default of [`PriorityConfig::interval`]: Slurm's `PriorityCalcPeriod`.
pub const DEFAULT_PRIORITY_INTERVAL: Duration = Duration::from_secs(300);

/// The account of users without one, unless another account is marked as the default.
pub const DEFAULT_ACCOUNT: &str = "default";

/// The accounts, qualities of service and priorities of a cluster. By default all jobs are equal
/// and nobody is charged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceConfig {
    /// The settings of priorities; without them all jobs are equal.
    pub priority: Option<PriorityConfig>,
    /// The accounts, in any order.
    pub accounts: Vec<AccountConfig>,
    /// The qualities of service.
    pub qos: Vec<QosConfig>,
    /// Users that are named here but unknown to the host. Their entries have no effect until the
    /// host's user database has them.
    pub unknown_users: Vec<UnknownUser>,
}

/// A user that the configuration names and that is unknown to the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownUser {
    /// The name.
    pub name: String,
    /// The place that names the user.
    pub named_in: NamedIn,
    /// The user's shares, if an account names it.
    pub shares: u32,
}

/// A place in the configuration that names users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedIn {
    /// The administrators.
    Admins,
    /// An account, by name.
    Account(String),
    /// A quality of service, by name.
    Qos(String),
}

/// The settings of priorities.
#[derive(Clone, Debug, PartialEq)]
pub struct PriorityConfig {
    /// The weight of each factor.
    pub weights: Weights,
    /// The time after which a usage counts half.
    pub half_life: HalfLife,
    /// The time between two computations of all priorities.
    pub interval: Duration,
    /// The priorities of partitions; a partition not named has 0.
    pub partitions: BTreeMap<String, u32>,
}

/// An account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountConfig {
    /// Its name.
    pub name: String,
    /// The account above it, if there is one.
    pub parent: Option<String>,
    /// Its shares among its siblings.
    pub shares: u32,
    /// Whether users without an account belong to this account.
    pub default: bool,
    /// Its users and their shares among the siblings.
    pub users: Vec<(u32, u32)>,
}

/// A quality of service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QosConfig {
    /// Its name.
    pub name: String,
    /// Its priority among the qualities of service.
    pub priority: u32,
    /// Whether jobs that name no quality of service get this one.
    pub default: bool,
    /// Users that may have it. Without users and accounts, all may.
    pub users: Vec<u32>,
    /// Accounts whose jobs may have it.
    pub accounts: Vec<String>,
    /// The most jobs of a user that have it and have not ended.
    pub max_jobs_per_user: Option<u32>,
    /// The qualities of service whose jobs make room for those of this one.
    pub preempts: Vec<String>,
    /// The way in which a job makes room; without it, none does. A job that is not marked to be run
    /// again is cancelled instead of requeued.
    pub preempt_mode: Option<PreemptMode>,
}

impl ServiceConfig {
    /// Whether usage is charged at all.
    pub fn charges(&self) -> bool {
        self.priority.is_some() || !self.accounts.is_empty()
    }
}
