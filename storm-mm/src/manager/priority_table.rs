//! The state of priorities outside the records of jobs: shares, charges, and the priorities that
//! policies have. Only this module changes this state.

use super::shares::{Line, Shares};
use crate::ServiceConfig;
use crate::cluster::UsageOf;
use crate::job::JobRecord;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;
use storm_primitives::Instant;
use storm_rm::{JobId, PartitionId};
use storm_sched::Priority;
use storm_sched::priority::Contributions;

/// The state of priorities outside the records of jobs.
#[derive(Debug)]
pub(super) struct Priorities {
    shares: Shares,
    /// The part of each present run that was charged already.
    charged: BTreeMap<JobId, Duration>,
    /// Usage was charged that is not in the journal yet.
    unnoted: bool,
    /// The priorities that the policies have, of the jobs that wait.
    ordered_by: HashMap<JobId, OrderedBy>,
    /// When priorities were last computed.
    reckoned: Option<Instant>,
    /// Partitions whose policies receive the priorities at their next slice edge.
    due: BTreeSet<PartitionId>,
}

/// A priority that a policy orders its queue by, and its parts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OrderedBy {
    pub(super) priority: Priority,
    pub(super) factors: Contributions,
}

impl Priorities {
    pub(super) fn new(config: &ServiceConfig) -> Priorities {
        Priorities {
            shares: Shares::new(config),
            charged: BTreeMap::new(),
            unnoted: false,
            ordered_by: HashMap::new(),
            reckoned: None,
            due: BTreeSet::new(),
        }
    }

    /// Whether there is an account of this name.
    pub(super) fn knows_account(&self, name: &str) -> bool {
        self.shares.knows(name)
    }

    /// The accounts that a user may name, the user's own account first.
    pub(super) fn accounts_of(&self, uid: u32) -> Vec<&str> {
        self.shares.accounts_of(uid)
    }

    /// Adds a user to an account.
    pub(super) fn add_user(&mut self, account: &str, uid: u32, shares: u32) {
        self.shares.add_user(account, uid, shares);
    }

    /// The fair-share factor of a user, as last computed; computed now for a new user.
    pub(super) fn fair_share(&mut self, at: Timestamp, account: Option<&str>, uid: u32) -> f64 {
        self.shares.factor(at, account, uid)
    }

    /// The tree of accounts and users, as last computed.
    pub(super) fn lines(&self) -> Vec<Line<'_>> {
        self.shares.lines()
    }

    /// A policy orders its queue by this priority of a job.
    pub(super) fn order(&mut self, job: JobId, by: OrderedBy) {
        self.ordered_by.insert(job, by);
    }

    /// The priority that a job's policy orders its queue by, if the policy has received a priority.
    pub(super) fn order_of(&self, job: JobId) -> Option<OrderedBy> {
        self.ordered_by.get(&job).copied()
    }

    /// Priorities are computed now.
    pub(super) fn begin_reckoning(&mut self, now: Instant) {
        self.reckoned = Some(now);
    }

    /// Computes the fair shares anew.
    pub(super) fn reckon_shares(&mut self, at: Timestamp) {
        self.shares.reckon(at);
    }

    /// Whether priorities were ever computed.
    pub(super) fn were_reckoned(&self) -> bool {
        self.reckoned.is_some()
    }

    /// Whether priorities were computed at most this long ago, and no new user was added since.
    pub(super) fn were_reckoned_lately(&self, now: Instant, lately: Duration) -> bool {
        self.reckoned.is_some_and(|at| now < at + lately) && !self.shares.is_untold()
    }

    /// The policy of a partition is to receive the priorities at its next slice edge.
    pub(super) fn defer(&mut self, partition: PartitionId) {
        self.due.insert(partition);
    }

    /// Whether the policy of a partition is to receive the priorities at its next slice edge.
    pub(super) fn are_due(&self, partition: PartitionId) -> bool {
        self.due.contains(&partition)
    }

    /// The policy of a partition receives the priorities now. Returns whether they were due.
    pub(super) fn take_due(&mut self, partition: PartitionId) -> bool {
        self.due.remove(&partition)
    }

    /// Charges a job whose present run has lasted `ran`.
    pub(super) fn charge(&mut self, at: Timestamp, record: &JobRecord, pes: u32, ran: Duration) {
        let before = self.charged.insert(record.id, ran).unwrap_or_default();
        let time = ran.saturating_sub(before);
        if !time.is_zero() {
            let pe_s = time.as_secs_f64() * f64::from(pes);
            let (account, uid) = (record.service.account.as_deref(), record.spec.owner.uid);
            self.shares.charge(at, account, uid, pe_s);
            self.unnoted = true;
        }
    }

    /// The run of a job is over, and charged.
    pub(super) fn end_run(&mut self, job: JobId) {
        self.charged.remove(&job);
    }

    /// Keeps the priorities of jobs that wait and the charges of jobs that run. Forgets all others.
    pub(super) fn keep(&mut self, waits: impl Fn(JobId) -> bool, runs: impl Fn(JobId) -> bool) {
        self.ordered_by.retain(|job, _| waits(*job));
        self.charged.retain(|job, _| runs(*job));
    }

    /// The usage of all users and the parts of present runs in it, if the journal lacks some.
    pub(super) fn take_unnoted(
        &mut self,
        at: Timestamp,
    ) -> Option<(Vec<UsageOf>, BTreeMap<JobId, Duration>)> {
        let unnoted = std::mem::take(&mut self.unnoted);
        unnoted.then(|| (self.shares.noted(at), self.charged.clone()))
    }

    /// Restores the usage of all users from the journal.
    pub(super) fn restore_usage(
        &mut self,
        at: Timestamp,
        usage: &[UsageOf],
        charged: &BTreeMap<JobId, Duration>,
    ) {
        self.shares.restore(at, usage);
        self.charged.clone_from(charged);
    }
}
