//! Accounts, qualities of service and what counts for priorities, as configured.
//!
//! What this does not do: check it. That is whoever reads the configuration, who knows
//! what its keys are called; what makes no sense here counts for nothing.

use std::collections::BTreeMap;
use std::time::Duration;
use storm_sched::PreemptMode;
use storm_sched::priority::{HalfLife, Weights};

/// Default of [`PriorityConfig::interval`]: Slurm's `PriorityCalcPeriod`.
pub const DEFAULT_PRIORITY_INTERVAL: Duration = Duration::from_secs(300);

/// The account of users who are in none, unless another one is marked as the default.
pub const DEFAULT_ACCOUNT: &str = "default";

/// Who is served how. By default all jobs are equal and nobody is charged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceConfig {
    /// What counts for priorities; all jobs are equal without it.
    pub priority: Option<PriorityConfig>,
    /// The accounts, in any order.
    pub accounts: Vec<AccountConfig>,
    /// The qualities of service.
    pub qos: Vec<QosConfig>,
    /// Users who are named and whom the host does not know: as if they were not named, until it
    /// does.
    pub unknown_users: Vec<UnknownUser>,
}

/// A user whom the configuration names and the host does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownUser {
    /// The name.
    pub name: String,
    /// Where it is named.
    pub named_in: NamedIn,
    /// The user's shares, of an account.
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

/// What counts for priorities.
#[derive(Clone, Debug, PartialEq)]
pub struct PriorityConfig {
    /// How much each factor counts.
    pub weights: Weights,
    /// The time in which half of a usage is forgotten.
    pub half_life: HalfLife,
    /// The time between two reckonings.
    pub interval: Duration,
    /// What partitions count among each other; those not named count 0.
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
    /// Users who are in no account are in this one.
    pub default: bool,
    /// Its users and their shares among the siblings.
    pub users: Vec<(u32, u32)>,
}

/// A quality of service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QosConfig {
    /// Its name.
    pub name: String,
    /// What it counts among the others.
    pub priority: u32,
    /// Jobs that name none have this one.
    pub default: bool,
    /// Users who may have it. Without users and accounts everybody may.
    pub users: Vec<u32>,
    /// Accounts whose jobs may have it.
    pub accounts: Vec<String>,
    /// The most jobs of a user that have it and have not ended.
    pub max_jobs_per_user: Option<u32>,
    /// The qualities of service whose jobs make room for those of this one.
    pub preempts: Vec<String>,
    /// What becomes of a job that makes room; without it none does. Of one that did not ask
    /// to be run again, to be requeued means to be cancelled.
    pub preempt_mode: Option<PreemptMode>,
}

impl ServiceConfig {
    /// Whether anybody is charged for anything.
    pub fn charges(&self) -> bool {
        self.priority.is_some() || !self.accounts.is_empty()
    }
}
