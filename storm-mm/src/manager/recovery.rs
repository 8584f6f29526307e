//! A manager on the journal of a former one. Jobs that waited wait again. Jobs that were on the
//! machine keep their places in the matrix until their nodes have come back and said what they hold
//! (`docs/decisions/0006-jobs-survive-the-manager.md`).
//!
//! No rank of a run is ever started twice: a launch is repeated only to nodes that have kept their
//! memory and never heard of it.

use super::fences::Fences;
use super::live_job::{Launch, LiveJob};
use super::vacating::Lost;
use super::{Core, Effect, StageOutcome, TimerKind};
use crate::job::{EndCause, JobEvent, JobEventKind, JobRecord, Phase};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Instant, NodeId, NodeSet};
use storm_rm::message::{Command, HeldJob, ResumedJob};
use storm_rm::{ArraySpec, JobId, JobIncarnation, JobSlot, OutputSpec, PartitionId, Row, RowSet};
use storm_sched::{Event, Pe, Placement, Slot};

/// How long the client of a surviving job has to come back. After that, the job's output is passed
/// on even if no client takes it.
const CLIENT_GRACE: Duration = Duration::from_secs(2);
/// The most runs of jobs that a node can report as held: as many as it can have rows and processing
/// elements for, and more.
const HELD_MAX: usize = 1 << 16;

/// The memory of a node that comes back.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    jobs: BTreeSet<(JobId, JobIncarnation)>,
    /// The earliest run of which the node can have heard; `None` if it can have heard of none.
    first_run: Option<JobIncarnation>,
}

impl Memory {
    /// Whether it holds any run of a job.
    pub(super) fn holds(&self, job: JobId) -> bool {
        let runs = (job, JobIncarnation(0))..=(job, JobIncarnation(u32::MAX));
        self.jobs.range(runs).next().is_some()
    }

    /// Whether it would hold this run if it had heard of it.
    fn covers(&self, run: JobIncarnation) -> bool {
        self.first_run.is_some_and(|first| first <= run)
    }
}

/// In each row, the columns that jobs have got back.
type Taken = BTreeMap<(PartitionId, Row), BTreeSet<u32>>;

impl Core {
    /// Rebuilds the job table from the journal.
    pub(super) fn recover(
        &mut self,
        journal: impl IntoIterator<Item = (JobId, JobEvent)>,
        now: Instant,
    ) {
        self.replay(journal);
        self.counters.submitted_before = self.next_job - 1;
        // Each waiting job has the news of these ends in the journal.
        self.needs.ends.clear();
        self.restore_settings(now);
        self.needs.begins.clear();
        self.restore_reservations(now);
        self.note_unmet();
        let of_phase = |wanted: fn(&Phase) -> bool| {
            let records = self.jobs.values().filter(|record| wanted(&record.phase));
            records.map(|record| record.id).collect::<Vec<JobId>>()
        };
        let placed =
            of_phase(|phase| matches!(phase, Phase::Starting | Phase::Running | Phase::Ending(_)));
        let waiting = of_phase(|phase| *phase == Phase::Pending);
        self.take_over_all(now, placed);
        for job in &waiting {
            self.watch_dependencies(now, *job);
        }
        self.together(now, |core| {
            for job in waiting {
                // The job may have ended because of another job's end, and be forgotten.
                let Some(record) = core.jobs.get(&job) else { continue };
                if record.phase == Phase::Pending {
                    let former = core.lost_now(now, &record.former_nodes);
                    core.queue_when_vacated(now, job, former);
                }
            }
        });
        for id in (0..self.partition_count()).map(PartitionId) {
            self.try_switch(now, id);
        }
    }

    /// Makes the records of the journal, and continues its numbers.
    fn replay(&mut self, journal: impl IntoIterator<Item = (JobId, JobEvent)>) {
        for (job, mut event) in journal {
            self.next_job = self.next_job.max(job.0.saturating_add(1));
            if let JobEventKind::ArraySubmitted { spec, .. } = &event.kind {
                let array = spec.needs.array.as_ref();
                let indices = array.and_then(|array| array.indices(ArraySpec::MAX_TASKS).ok());
                let last = job.0.saturating_add(indices.map_or(0, |all| all.len() as u64));
                self.next_job = self.next_job.max(last.saturating_add(1));
            }
            if let JobEventKind::Placed { incarnation, .. } = &event.kind {
                self.next_incarnation = self.next_incarnation.max(incarnation.0.saturating_add(1));
            }
            if let JobEventKind::Submitted { spec, .. }
            | JobEventKind::ArraySubmitted { spec, .. } = &mut event.kind
            {
                let shared = self.environments.shared(&spec.env);
                Rc::make_mut(spec).env = shared;
            }
            self.apply(job, &event);
        }
    }

    /// Gives jobs back their places in the matrix, before other jobs get these elements.
    fn take_over_all(&mut self, now: Instant, mut placed: Vec<JobId>) {
        // The latest first. If two jobs have the same element, the earlier one gave it up: its
        // ranks had ended (Algorithm 8), and only the reports were on their way. Suspended jobs
        // come after the jobs that have their elements, in the order of their suspension.
        let since = |job: &JobId| self.suspended().iter().position(|other| other == job);
        placed.sort_by_key(|job| (since(job), std::cmp::Reverse(self.jobs[job].incarnation)));
        let mut taken = Taken::new();
        let mut restored: BTreeMap<PartitionId, [Vec<Event>; 2]> = BTreeMap::new();
        for job in placed {
            if let Some(array) = self.array_of(job) {
                array.entered.insert(job);
            }
            match self.take_over(now, job, &mut taken) {
                Ok((partition, restore)) => {
                    let stopped = self.is_suspended(job);
                    let [first, then] = restored.entry(partition).or_default();
                    let events = if stopped { first } else { then };
                    let has_place = restore.is_some();
                    events.extend(restore);
                    let suspended = Event::Suspended(storm_sched::JobId(job.0));
                    events.extend((stopped && has_place).then_some(suspended));
                }
                Err(reason) => self.lose(now, job, reason),
            }
        }
        self.await_nodes(now);
        for (partition, [stopped, running]) in restored {
            // In one call: a job whose elements seem free must not go on before their holder is
            // known.
            self.handle_together(now, partition, stopped.into_iter().chain(running).collect());
            let known: BTreeSet<_> =
                self.partition(partition).policy.running().into_iter().collect();
            let here = self.live.iter().filter(|(_, live)| live.partition == partition);
            let lost = here.filter(|(job, live)| {
                !live.released && !known.contains(&storm_sched::JobId(job.0))
            });
            let without_place: Vec<JobId> = lost.map(|(job, _)| *job).collect();
            for job in without_place {
                self.go_beside(now, job);
            }
        }
    }

    /// A job on the machine cannot be taken over.
    fn lose(&mut self, now: Instant, job: JobId, reason: String) {
        tracing::error!(%job, reason, "a job on the machine cannot be taken over");
        self.end_waiting(now, job, EndCause::Unplaceable { reason });
    }

    /// Finds the place of a job in the matrix; returns the event that tells its policy. A job for
    /// which the present partitions have no place goes on beside the matrix. Its nodes must come
    /// back.
    fn take_over(
        &mut self,
        now: Instant,
        job: JobId,
        taken: &mut Taken,
    ) -> Result<(PartitionId, Option<Event>), String> {
        let record = self.jobs.get(&job).ok_or("it is not known")?;
        let row = record.row.ok_or("it has no row")?;
        let slot = self.slots.take().ok_or("there are fewer places for jobs than before")?;
        let home = self.partition_of_nodes(record);
        let place = home.and_then(|home| self.place_of(job, record, home, row, taken));
        let partition = home.unwrap_or_else(|| self.partition_beside(record));
        let row = place.as_ref().map_or(row, |(row, _)| *row);
        let live = self.live_again(now, record, partition, row, slot);
        let incarnation = live.incarnation;
        let placement = place.map(|(_, placement)| placement);
        self.live.insert(job, LiveJob { placement: placement.clone(), ..live });
        let suspends = self.partitions[usize::from(partition.0)].policy.preempts();
        if placement.is_some() && self.is_suspended(job) && !suspends {
            self.append(now, job, JobEventKind::Moved { row });
            self.go_on(now, job);
        }
        let at = now + self.config.recovery_timeout;
        self.effects.push(Effect::Timer { at, job, incarnation, kind: TimerKind::Recovery });
        let Some(placement) = placement else {
            self.go_beside(now, job);
            return Ok((partition, None));
        };
        self.note_columns(now, job);
        let request = self.request_now(now, job).ok_or("it is not known")?;
        let ran = self.ran_before(now, &self.jobs[&job], partition);
        Ok((partition, Some(Event::Restore { request, placement, slot: Slot(row.0), ran })))
    }

    /// The row and the elements that a job on the machine has in a partition, if it has room.
    fn place_of(
        &self,
        job: JobId,
        record: &JobRecord,
        partition: PartitionId,
        row: Row,
        taken: &mut Taken,
    ) -> Option<(Row, Placement)> {
        let of_partition = &self.partitions[usize::from(partition.0)];
        if !self.is_suspended(job) {
            return Some((row, self.placement_of(record, partition, row, taken)?));
        }
        if of_partition.policy.preempts() {
            // Other jobs have its elements.
            return Some((row, self.placement_of(record, partition, row, &mut Taken::new())?));
        }
        // The former policy suspended jobs; under this policy each job has a row.
        (0..of_partition.rows_max())
            .map(Row)
            .find_map(|row| Some((row, self.placement_of(record, partition, row, taken)?)))
    }

    /// The elements of a job: those of its nodes, in its row, that no job before it has. A job's
    /// ranks may run on any elements of their node.
    fn placement_of(
        &self,
        record: &JobRecord,
        partition: PartitionId,
        row: Row,
        taken: &mut Taken,
    ) -> Option<Placement> {
        let partition_of = &self.partitions[usize::from(partition.0)];
        let machine = partition_of.policy.machine();
        let taken = taken.entry((partition, row)).or_default();
        let asked = &record.spec.resources;
        let (mut columns, mut held) = (Vec::new(), Vec::new());
        for share in &record.ranks {
            let node = machine.node(partition_of.index_of(share.node)?)?;
            let wanted = share.count.saturating_mul(asked.cpus_per_task) as usize;
            let free = node.columns().filter(|column| !taken.contains(column));
            // The elements that it had come first, if they still belong to its node and no job has
            // them.
            let had = |column: &u32| has_had(record, share.node, node.columns().start, *column);
            let (former, others): (Vec<u32>, Vec<u32>) = free.partition(had);
            let mut own: Vec<u32> = former.into_iter().chain(others).take(wanted).collect();
            own.sort_unstable();
            if own.len() < wanted {
                return None;
            }
            columns.extend(own);
            held.extend(node.columns().filter(|_| asked.exclusive));
        }
        // The order of nodes may differ from that of ranks.
        columns.sort_unstable();
        let pes = columns.iter().copied().map(Pe).collect();
        let placement = Placement::with_pes_per_proc(machine, pes, asked.cpus_per_task)?;
        taken.extend(columns.iter().chain(&held));
        Some(placement)
    }

    /// How long a job of a former manager has run.
    fn ran_before(&self, now: Instant, record: &JobRecord, partition: PartitionId) -> Duration {
        let runs_all = self.partitions[usize::from(partition.0)].runs_all();
        // In a row among several, only the journal knows how much of the time a job has run.
        let since = record.ran_at.filter(|_| runs_all).map(|told| {
            let since = self.wall(now).duration_since(told);
            Duration::try_from(since).unwrap_or_default()
        });
        record.ran + since.unwrap_or_default()
    }

    fn live_again(
        &self,
        now: Instant,
        record: &JobRecord,
        partition: PartitionId,
        row: Row,
        slot: JobSlot,
    ) -> LiveJob {
        let nodes: NodeSet = record.ranks.iter().map(|share| share.node).collect();
        let mut live = LiveJob {
            incarnation: record.incarnation,
            slot,
            partition,
            row,
            placement: None,
            rows: match record.suspended_for {
                Some(_) => RowSet::NONE,
                None => self.partitions[usize::from(partition.0)].rows_of_new(row),
            },
            launch: Launch::Recovering,
            over: NodeSet::new(),
            lost: Lost::new(),
            unheard: nodes.clone(),
            away: Default::default(),
            input_known: NodeSet::new(),
            outputs: BTreeMap::new(),
            nodes,
            lacking: NodeSet::new(),
            hold_output: record.spec.output == OutputSpec::Client,
            exits: BTreeMap::new(),
            classes: BTreeMap::new(),
            fences: Fences::resumed(),
            released: false,
            placed_at: now,
            staged_at: now,
            launched_at: now,
            stage: StageOutcome::default(),
            ran: self.ran_before(now, record, partition),
            active_since: None,
        };
        live.set_active(now, self.partitions[usize::from(partition.0)].runs(live.rows));
        live
    }

    /// A returning node reports the runs that it holds.
    pub(super) fn node_holds(
        &mut self,
        node: NodeId,
        jobs: Vec<HeldJob>,
        first_run: Option<JobIncarnation>,
    ) {
        let memory = self.held.entry(node).or_default();
        memory.first_run = first_run;
        let room = HELD_MAX.saturating_sub(memory.jobs.len());
        let runs = jobs.into_iter().map(|held| (held.job, held.incarnation));
        memory.jobs.extend(runs.take(room));
    }

    /// A node has come back, or a new node in its place that remembers nothing. The node is told
    /// which of its jobs go on.
    pub(super) fn node_back(&mut self, now: Instant, node: NodeId, memory: Option<Memory>) {
        let memory = memory.unwrap_or_default();
        let awaited: Vec<JobId> = self
            .live
            .iter()
            .filter(|(_, live)| live.unheard.contains(node))
            .map(|(job, _)| *job)
            .collect();
        let run_of = |core: &Core, job: &JobId| core.live[job].incarnation;
        let (kept, lost): (Vec<JobId>, Vec<JobId>) =
            awaited.iter().partition(|job| memory.jobs.contains(&(**job, run_of(self, job))));
        let jobs = kept.iter().map(|job| self.resumed(*job, node)).collect();
        let next_run = JobIncarnation(self.next_incarnation);
        let answer = Command::Resume { jobs, next_run };
        self.effects.push(Effect::Command(NodeSet::single(node), answer));
        for job in &awaited {
            if let Some(live) = self.live.get_mut(job) {
                live.unheard.remove(node);
                live.away.remove(&node);
                live.input_known.insert(node);
            }
        }
        for job in kept {
            if let Some(Phase::Ending(cause)) = self.jobs.get(&job).map(|record| &record.phase) {
                let cause = cause.clone();
                self.order_end(now, job, NodeSet::single(node), &cause);
            }
        }
        for job in lost {
            let never_heard = memory.covers(run_of(self, &job));
            self.part_lost(now, job, node, never_heard);
        }
        for job in awaited {
            self.go_on_if_all_heard(now, job);
        }
    }

    /// A node that came back does not hold its part of a job.
    fn part_lost(&mut self, now: Instant, job: JobId, node: NodeId, never_heard: bool) {
        let starting = self.jobs.get(&job).is_some_and(|record| record.phase == Phase::Starting);
        let Some(live) = self.live.get_mut(&job) else { return };
        if starting && never_heard {
            live.lacking.insert(node);
            return;
        }
        live.over.insert(node);
        let node = self.node_name(node);
        self.end_job(now, job, EndCause::NodeLost { node });
    }

    fn resumed(&self, job: JobId, node: NodeId) -> ResumedJob {
        let live = &self.live[&job];
        ResumedJob {
            job,
            incarnation: live.incarnation,
            slot: live.slot,
            partition: live.partition,
            rows: live.rows,
            active_row: self.active_row(live.partition),
            coscheduling: self.partitions[usize::from(live.partition.0)].coscheduling(),
            hold_output: live.hold_output,
            input_known: live.input_known.contains(node),
        }
    }

    /// If all nodes of a job have come back, or are no longer waited for, the job goes on where it
    /// was.
    fn go_on_if_all_heard(&mut self, now: Instant, job: JobId) {
        let Some(phase) = self.jobs.get(&job).map(|record| record.phase.clone()) else { return };
        let Some(live) = self.live.get_mut(&job) else { return };
        if live.launch != Launch::Recovering || !live.unheard.is_empty() {
            return;
        }
        let lacking = std::mem::take(&mut live.lacking);
        let incarnation = live.incarnation;
        match phase {
            Phase::Starting if lacking == live.nodes => {
                // No node was told to launch it.
                live.launch = Launch::Staging;
                live.placed_at = now;
                live.hold_output = false;
                (live.ran, live.active_since) = (Duration::ZERO, None);
                let partition = live.partition;
                self.stage(now, job);
                return self.try_switch(now, partition);
            }
            Phase::Starting => self.launch_on(now, job, lacking),
            Phase::Running | Phase::Ending(_) => {
                live.launch = Launch::Started;
                live.over = live.over.union(&lacking);
                self.arm_time_limit(now, job);
            }
            Phase::Pending | Phase::Ended(_) => return,
        }
        tracing::info!(%job, "all its nodes are back");
        // The former manager may have changed the policy and not told them.
        self.tell_rows(job);
        if let Some(partition) = self.live.get(&job).map(|live| live.partition) {
            self.try_switch(now, partition);
        }
        let Some(live) = self.live.get(&job) else { return };
        if live.hold_output {
            let at = now + CLIENT_GRACE;
            self.effects.push(Effect::Timer { at, job, incarnation, kind: TimerKind::Output });
        }
        if !live.over.is_empty() && !live.is_over() {
            self.effects.push(Effect::AwaitTermination(live.watch(job)));
        }
        self.finish_if_over(now, job);
    }

    /// Nodes have been waited for long enough: those that are not back have lost their part of the
    /// job.
    pub(super) fn recovery_timer(&mut self, now: Instant, job: JobId) {
        let Some(live) = self.live.get_mut(&job) else { return };
        if live.launch != Launch::Recovering {
            return;
        }
        // Nodes that left under this manager have their own, later times.
        let late = |node: &NodeId| live.away.get(node).is_none_or(|left| left.until <= now);
        let missing: NodeSet = live.unheard.iter().filter(late).collect();
        if missing.is_empty() {
            return;
        }
        live.unheard = live.unheard.difference(&missing);
        live.over = live.over.union(&missing);
        for node in missing.iter() {
            let until = live.away.remove(&node).map(|left| left.vacated);
            live.lost.insert(node, until.unwrap_or(now + self.config.requeue_fence));
        }
        let removed = self.nodes.not_configured(&missing);
        let cause = match removed.is_empty() {
            true => EndCause::NodeLost { node: self.nodes.fold(&missing) },
            false => EndCause::NodeRemoved { node: self.nodes.fold(&removed) },
        };
        self.end_job(now, job, cause);
        self.go_on_if_all_heard(now, job);
    }

    /// The client of a job has come back, or has had its time to: the job's output is passed on.
    pub fn release_output(&mut self, job: JobId) {
        let Some(live) = self.live.get_mut(&job) else { return };
        if std::mem::take(&mut live.hold_output) {
            let nodes = live.nodes.difference(&live.over).difference(&live.unheard);
            let command = Command::HoldOutput { job, hold: false };
            self.effects.push(Effect::Command(nodes, command));
        }
    }

    /// Whether nodes of the job have not come back yet.
    pub fn is_recovering(&self, job: JobId) -> bool {
        self.live.get(&job).is_some_and(|live| live.launch == Launch::Recovering)
    }

    /// Why a job is where a former manager left it.
    pub(super) fn recovery_reason(&self, job: JobId) -> String {
        let Some(live) = self.live.get(&job) else { return String::new() };
        let nodes = self.nodes.fold(&live.unheard);
        let left: NodeSet = live.away.keys().copied().collect();
        if live.unheard.is_subset(&left) {
            return format!("the Node Manager of {nodes} has ended: it waits for the next one");
        }
        let removed = self.nodes.not_configured(&live.unheard);
        let why = match removed.is_empty() {
            true => String::new(),
            false => {
                format!("; {} is not in the configuration any more", self.nodes.fold(&removed))
            }
        };
        format!("the Machine Manager was restarted and waits for {nodes} to come back{why}")
    }
}

/// Whether a job had this column when it was placed; `first` is the first column of the node.
fn has_had(record: &JobRecord, node: NodeId, first: u32, column: u32) -> bool {
    match &record.elements {
        Some(elements) => elements.iter().any(|(own, start, end)| {
            *own == node && (*start..*end).contains(&column.saturating_sub(first))
        }),
        None => {
            let mut ranges = record.columns.iter().flatten();
            ranges.any(|(start, end)| (*start..*end).contains(&column))
        }
    }
}
