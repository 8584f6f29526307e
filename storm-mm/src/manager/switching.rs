//! Another policy, or another quantum, for a partition at work, with all of its jobs.
//!
//! A switch of policies has two parts (`docs/decisions/0044`):
//!
//! 1. At once the waiting jobs leave the former policy, so that the former policy starts nothing
//!    more.
//! 2. As soon as the running jobs fit into the rows of the new policy, the new policy takes them
//!    over where they run, and then the waiting jobs, in their order. The second part follows at
//!    once, unless the jobs hold more rows than the new policy can have.
//!
//! If exactly one of the two policies has its jobs communicate in slices, nothing is taken over.
//! Ranks keep the way of communicating that they were launched with, so the running jobs end first.

use super::live::Awaiting;
use super::{Core, Immediate};
use crate::api::{ApiError, ErrorCode, PartitionView, Peer};
use crate::job::{JobEventKind, Phase};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use storm_primitives::Instant;
use storm_rm::{JobId, PartitionId, Row, RowSet};
use storm_sched::{Action, Event, JobRequest, Placement, Policy, Quantum};

/// A job that has a place in the matrix, and its place.
struct Holder {
    request: JobRequest,
    placement: Placement,
    row: Row,
    ran: Duration,
    suspended: bool,
}

impl Holder {
    fn job(&self) -> JobId {
        self.request.id
    }

    /// The event by which a policy takes the job over in `row`.
    fn restore(&self, row: Row) -> Event {
        let (request, placement) = (self.request.clone(), self.placement.clone());
        Event::Restore { request, placement, row, ran: self.ran }
    }
}

/// A new policy that has taken over the jobs of the former policy.
struct TakenOver {
    policy: Box<dyn Policy>,
    /// The rows of the jobs under the new policy.
    rows: BTreeMap<JobId, Row>,
    /// The new policy's decisions while it took the jobs over. Only the decisions about rows and
    /// resumed jobs are carried out.
    moved: Vec<Action>,
}

impl Core {
    /// Sets another policy, another quantum, or both for a partition.
    ///
    /// # Errors
    /// An [`ApiError`] for the client: not an administrator, no such partition or policy, or a
    /// quantum that is out of range or has no meaning for the policy.
    pub fn set_partition(
        &mut self,
        now: Instant,
        peer: Peer,
        name: &str,
        sched: Option<&str>,
        quantum: Option<Duration>,
    ) -> Result<PartitionView, ApiError> {
        if !self.is_admin(peer) {
            let message = "only an administrator may change a partition";
            return Err(ApiError::new(ErrorCode::NotPermitted, message));
        }
        let id = self.partitions.id_of(name).ok_or_else(|| self.partitions.none_named(name))?;
        let partition = &self.partitions[id];
        let target = sched.or(partition.next_sched()).unwrap_or(partition.policy().name());
        let target = partition
            .fresh_policy(target)
            .map_err(|why| ApiError::new(ErrorCode::NoSuchPolicy, why.to_string()))?;
        let quantum = quantum.map(|quantum| {
            // The policy named in this request, or else the policy of the change under way.
            let next = partition.next_sched().filter(|_| sched.is_none());
            checked(quantum, target.as_ref(), next.map(|_| name))
        });
        let quantum = quantum.transpose()?;
        if let Some(quantum) = quantum {
            self.set_quantum(now, id, quantum);
        }
        if sched.is_some() && !self.partitions[id].stays_under(target.name()) {
            self.begin_switch(now, id, target.name());
        }
        self.note_settings(now);
        Ok(self.partition_view(&self.partitions[id]))
    }

    pub(super) fn set_quantum(&mut self, now: Instant, id: PartitionId, quantum: Quantum) {
        self.partitions.set_quantum(id, quantum);
        self.handle_event(now, id, Event::SetQuantum(quantum));
        self.effects.immediate.push(Immediate::SlicesChanged(id));
    }

    /// From now on the former policy starts nothing, and the new policy takes over when it can.
    pub(super) fn begin_switch(&mut self, now: Instant, id: PartitionId, sched: &str) {
        let mut queue = self.partitions.end_switch(id).unwrap_or_default();
        // Jobs in the queue of an unfinished earlier switch are first.
        let earlier = queue.len();
        let waiting: Vec<JobId> = self.partitions[id].policy().pending();
        let awaiting: BTreeSet<JobId> = self.live.awaiting().map(Awaiting::job).collect();
        let goes_on = |job: &JobId| {
            self.jobs.get(job).is_some_and(|record| record.phase == Phase::Pending)
                && !awaiting.contains(job)
        };
        queue.extend(waiting.into_iter().filter(goes_on));
        // In one call, and from the end, so that no job reaches the front of the queue and starts.
        let withdrawn = queue[earlier..].iter().rev();
        let withdrawn = withdrawn.map(|job| Event::Cancel(*job)).collect();
        self.handle_together(now, id, withdrawn);
        self.partitions.begin_switch(id, sched, queue);
        self.try_switch(now, id);
    }

    /// Lets the new policy take over, if it already can.
    pub(super) fn try_switch(&mut self, now: Instant, id: PartitionId) {
        let partition = &self.partitions[id];
        let Some(sched) = partition.next_sched() else { return };
        if sched != partition.policy().name() {
            let sched = sched.to_owned();
            let drains = partition.drains_for(&sched);
            let holders = self.holders(now, id).filter(|all| all.is_empty() || !drains);
            let taken = holders.and_then(|all| self.taken_over(now, id, &sched, &all));
            let Some(taken) = taken else { return };
            self.install(now, id, taken);
        }
        let Some(queue) = self.partitions.end_switch(id) else { return };
        for job in queue {
            self.hand_over(now, job);
        }
        self.note_settings(now);
        if !self.partitions[id].is_slicing() {
            // The staged jobs waited for an edge that will not be reached any more.
            self.launch_staged(now, id);
        }
        self.effects.immediate.push(Immediate::SlicesChanged(id));
    }

    /// The jobs that have places in a partition: running jobs, by their rows, before suspended
    /// jobs. `None` while these jobs may change without an event: an end is not reported yet, or
    /// nodes have not returned.
    fn holders(&mut self, now: Instant, id: PartitionId) -> Option<Vec<Holder>> {
        let mut placed = Vec::new();
        for (job, live) in self.live.of(id) {
            if live.is_recovering() {
                return None;
            }
            if !live.is_released() {
                let (placement, row) = (live.placement()?.clone(), live.row());
                placed.push((job, placement, row, live.run_time(now), self.is_suspended(job)));
            }
        }
        for awaiting in self.live.awaiting().filter(|awaiting| awaiting.partition() == id) {
            let suspended = awaiting.suspended_for().is_some();
            let (placement, row) = (awaiting.placement().clone(), awaiting.row());
            placed.push((awaiting.job(), placement, row, Duration::ZERO, suspended));
        }
        let since = |job: &JobId| self.suspended().iter().position(|other| other == job);
        placed.sort_by_key(|(job, _, row, _, suspended)| (*suspended, since(job), *row, *job));
        let known = self.partitions[id].policy().running().len();
        let holders = placed.into_iter().map(|(job, placement, row, ran, suspended)| {
            let request = self.request_now(now, job)?;
            Some(Holder { request, placement, row, ran, suspended })
        });
        holders.collect::<Option<Vec<Holder>>>().filter(|holders| holders.len() == known)
    }

    /// The new policy with the jobs that have places; `None` while it has no room for all.
    fn taken_over(
        &self,
        now: Instant,
        id: PartitionId,
        sched: &str,
        holders: &[Holder],
    ) -> Option<TakenOver> {
        let partition = &self.partitions[id];
        let mut policy = partition.fresh_policy(sched).ok()?;
        self.tell_reservations(now, id, policy.as_mut());
        let time = super::partitions::sched_time(now);
        let refuses = |action: &Action| matches!(action, Action::Refused(_));
        if policy.preempts() {
            // In one call: a job whose elements seem free must not continue before the policy has
            // their holder.
            let (suspended, running): (Vec<_>, Vec<_>) =
                holders.iter().partition(|holder| holder.suspended);
            let stopped =
                |holder: &&Holder| [holder.restore(Row(0)), Event::Suspended(holder.request.id)];
            let events = suspended.iter().flat_map(stopped);
            let events = events.chain(running.iter().map(|holder| holder.restore(Row(0))));
            let moved = policy.handle_together(time, events.collect());
            let rows = holders.iter().map(|holder| (holder.job(), Row(0))).collect();
            let all = !moved.iter().any(refuses);
            return all.then_some(TakenOver { policy, rows, moved });
        }
        // Each job gets its own row if the new policy has that row and the row is free, else
        // another row. The same holds for suspended jobs, which get a slice again.
        let (mut rows, mut moved) = (BTreeMap::new(), Vec::new());
        for holder in holders {
            let others = (0..partition.params().mpl_limit.get()).map(Row);
            let found = std::iter::once(holder.row).chain(others).find(|row| {
                let actions = policy.handle(time, holder.restore(*row));
                let taken = !actions.iter().any(refuses);
                moved.extend(actions);
                taken
            });
            rows.insert(holder.job(), found?);
            if holder.suspended {
                moved.push(Action::Resume { job: holder.request.id });
            }
        }
        Some(TakenOver { policy, rows, moved })
    }

    /// Replaces the policy by a policy that has the running jobs.
    fn install(&mut self, now: Instant, id: PartitionId, taken: TakenOver) {
        let TakenOver { policy, rows: taken_rows, moved } = taken;
        self.note_run_times(now, id);
        let partition = &self.partitions[id];
        tracing::info!(partition = %partition.name(), from = partition.policy().name(),
                       to = policy.name(), "the partition has another policy");
        let active = self.partitions.take_over(id, policy);
        self.warn_if_never_preempting(id);
        for (job, &row) in &taken_rows {
            let rows = self.partitions[id].rows_of_new(row);
            self.live.awaiting_taken_over(*job, row, rows);
            let rows = if self.is_suspended(*job) { RowSet::NONE } else { rows };
            let moved = self.live.set_rows(*job, row, rows);
            if moved == Some(true) {
                self.append(now, *job, JobEventKind::Moved { row });
            }
        }
        let here: Vec<JobId> = self.live.of(id).map(|(job, _)| job).collect();
        for job in here {
            self.tell_rows(job);
            self.tell_coscheduling(job);
            if self.jobs.get(&job).is_some_and(|record| record.phase == Phase::Running) {
                self.arm_time_limit(now, job);
            }
        }
        for action in moved {
            match action {
                Action::SetRows { job, home, alternates } => {
                    self.set_rows(now, job, home, &alternates);
                }
                Action::Resume { job } => self.go_on(now, job),
                // A policy that takes over starts nothing, and its row is made active below.
                Action::Start { .. }
                | Action::Migrate { .. }
                | Action::Activate { .. }
                | Action::Preempt { .. }
                | Action::Refused(_) => {}
            }
        }
        match active {
            // Also sends the nodes the active row.
            Some(row) => self.activate(now, id, row),
            None => self.charge_time(now, id),
        }
        // A job that waited for an edge under another policy with slices may now have the active
        // row.
        self.launch_running(now, id);
        self.arm_wake(now);
    }

    /// Journals how long each job of a partition has run. After a restart, the policy decides how
    /// the time since the last entry counts.
    fn note_run_times(&mut self, now: Instant, id: PartitionId) {
        let times: Vec<(JobId, Duration)> =
            self.live.of(id).map(|(job, live)| (job, live.run_time(now))).collect();
        for (job, time) in times {
            if self.jobs.get(&job).is_some_and(|record| record.phase == Phase::Running) {
                self.append(now, job, JobEventKind::Ran { time });
            }
        }
    }
}

/// The quantum, if the policy can have that quantum. `changing` is the partition, if the partition
/// is about to change to the policy.
fn checked(
    quantum: Duration,
    policy: &dyn Policy,
    changing: Option<&str>,
) -> Result<Quantum, ApiError> {
    if policy.quantum().is_none() {
        let sched = policy.name();
        let (message, hint) = match changing {
            Some(name) => (
                format!("partition {name} is changing to {sched}, which cuts no time slices"),
                "storm partition set-sched can change it back; until the change, its rows keep \
                 their slices",
            ),
            None => (
                format!("the policy {sched} cuts no time slices"),
                "give the partition a policy that does, as gang, with storm partition set-sched",
            ),
        };
        return Err(ApiError::new(ErrorCode::BadRequest, message).hint(hint));
    }
    Quantum::try_from(quantum).map_err(|why| ApiError::new(ErrorCode::BadRequest, why.to_string()))
}
