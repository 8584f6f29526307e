//! The partition's policy at work: events in, placements and strobes out, at once. Only the launch
//! of a job whose row does not run now waits for a slice edge.

use super::live::{Awaiting, Placed, Taken};
use super::{ActiveRows, Core, Durable, Immediate, Notice, StageJob, StageOutcome};
use crate::api::{JobState, Reply};
use crate::job::{EndCause, JobEventKind, Phase};
use std::error::Error;
use std::time::Duration;
use storm_primitives::{Instant, NodeId, NodeSet};
use storm_rm::message::NodeRanks;
use storm_rm::{
    FileSpec, FirstStep, JobId, JobSlot, JobSpec, PartitionId, Program, Rank, Row, StepSpec,
};
use storm_sched::{Action, Event, EventError, PreemptMode};

impl Core {
    /// The active row of a partition.
    pub fn active_row(&self, partition: PartitionId) -> Row {
        self.partitions[partition].active()
    }

    /// The active row of every partition.
    pub fn active_rows(&self) -> ActiveRows {
        self.partitions.ids().map(|id| self.active_row(id)).collect()
    }

    /// The length of a partition's slices; `None` while its time is not sliced.
    pub fn slice(&self, partition: PartitionId) -> Option<Duration> {
        self.partitions[partition].slice()
    }

    /// When the slice under way began, if it began early because no job was left in the active row.
    /// `None` if the slice began with a regular edge.
    #[cfg(test)]
    pub(super) fn early_edge(&self, partition: PartitionId) -> Option<Instant> {
        self.partitions[partition].slices().early_edge()
    }

    /// A slice of a partition ends: the next row becomes active, and the launches that wait for an
    /// edge go out.
    pub(super) fn slice_edge(&mut self, now: Instant, partition: PartitionId) {
        self.prioritise_if_due(now, partition);
        self.partitions.begin_edge_on_time(partition);
        self.end_slice(now, partition);
    }

    /// A slice of a partition ends, so late that the next slice begins now instead of on time.
    /// Nodes that begin slices by themselves get a strobe.
    pub(super) fn late_slice_edge(&mut self, now: Instant, partition: PartitionId) {
        self.prioritise_if_due(now, partition);
        self.end_slice(now, partition);
    }

    fn end_slice(&mut self, now: Instant, partition: PartitionId) {
        self.handle_event(now, partition, Event::SliceEdge);
        self.partitions.end_edge(partition);
        self.launch_staged(now, partition);
        self.effects.immediate.push(Immediate::SlicesChanged(partition));
    }

    /// Passes an event to a policy at once, even in the middle of a slice. No element that a job
    /// needs idles until the edge ([decision
    /// 0056](../../../docs/decisions/0056-edges-that-nobody-waits-for.md)).
    pub(super) fn tell_policy(&mut self, now: Instant, partition: PartitionId, event: Event) {
        if matches!(event, Event::Finished(_)) {
            // The usage up to now decides which job starts on these elements.
            self.freshen_priorities(now);
            self.prioritise_if_due(now, partition);
        }
        self.handle_event(now, partition, event);
        self.effects.immediate.push(Immediate::SlicesChanged(partition));
    }

    pub(super) fn handle_event(&mut self, now: Instant, partition: PartitionId, event: Event) {
        let is_end = matches!(event, Event::Finished(_));
        let is_edge = matches!(event, Event::SliceEdge);
        // Earlier events of the same request are passed first.
        self.tell_untold(now, partition);
        let actions = self.partitions.handle(now, partition, event);
        // An edge at which the policy does only what it had named as upcoming leaves the ordered
        // slices as they are. Comparing them at every edge would be wasted.
        let as_upcoming = is_edge && matches!(*actions, [Action::Activate { .. }]);
        self.carry_out(now, partition, actions);
        if !as_upcoming {
            self.recall_slices(now, partition);
        }
        self.arm_wake(now);
        if is_end {
            self.try_switch(now, partition);
        }
    }

    /// Passes several events of one instant to a policy, so that the policy can decide once.
    pub(super) fn handle_together(
        &mut self,
        now: Instant,
        partition: PartitionId,
        events: Vec<Event>,
    ) {
        let actions = self.partitions.handle_together(now, partition, events);
        self.carry_out(now, partition, actions);
        self.recall_slices(now, partition);
        self.arm_wake(now);
    }

    fn carry_out(&mut self, now: Instant, partition: PartitionId, actions: Vec<Action>) {
        // First the rows of jobs, then the active row. The launch of a job that starts now names
        // the active row, and no job runs in a row that it has lost.
        for action in &actions {
            if let Action::SetRows { job, home, alternates } = action {
                self.set_rows(now, *job, *home, alternates);
            }
        }
        let (mut moved, mut edge) = (false, false);
        for action in &actions {
            match action {
                Action::Activate { row } => {
                    self.activate(now, partition, *row);
                    edge = true;
                }
                Action::SetRows { .. } => moved = true,
                Action::Start { .. }
                | Action::Migrate { .. }
                | Action::Preempt { .. }
                | Action::Resume { .. }
                | Action::Refused(_) => {}
            }
        }
        // Ends are last: the end of a job may be reported at once and lead to further decisions.
        let mut ends = Vec::new();
        for action in actions {
            match action {
                Action::Start { job, placement, row } => {
                    let rows = self.partitions[partition].rows_of_new(row);
                    let first = self.jobs.get(&job).map(|record| record.spec.first);
                    let first = first.unwrap_or_default();
                    let placed = Awaiting::new(job, partition, (placement, row), rows, first);
                    self.place_or_await_flags(now, placed);
                }
                // Repeated for jobs that have just started.
                Action::SetRows { job, home, alternates } => {
                    self.set_rows(now, job, home, &alternates);
                }
                Action::Activate { .. } => {}
                Action::Migrate { job, .. } => {
                    tracing::error!(%job, "the policy moves a job, but declared that it moves \
                                           none");
                }
                Action::Preempt { job, mode: PreemptMode::Suspend, by } => {
                    self.suspend(now, job, by);
                }
                Action::Preempt { job, mode, by } => ends.push((job, mode, by)),
                Action::Resume { job } => self.go_on(now, job),
                Action::Refused(error) => self.refused(now, &error),
            }
        }
        if edge {
            self.launch_staged(now, partition);
        } else if moved {
            self.launch_running(now, partition);
        }
        for (job, mode, by) in ends {
            self.end_for(now, job, mode, by);
        }
    }

    /// A policy refused an event. A job that the policy does not take must not wait for ever. Other
    /// refusals are defects, and change nothing.
    fn refused(&mut self, now: Instant, error: &EventError) {
        let job = match *error {
            // The policy takes the job to be running.
            EventError::NotSuspended { job } => {
                tracing::error!(%error, "it goes on");
                return self.go_on(now, job);
            }
            EventError::Infeasible { job, .. } | EventError::QueueFull { job, .. } => job,
            EventError::DuplicateJob { .. }
            | EventError::NotRestored { .. }
            | EventError::NotRunning { .. }
            | EventError::NotPending { .. }
            | EventError::ReservationOver { .. }
            | EventError::ReservationClash { .. }
            | EventError::NoSuchReservation { .. }
            | EventError::NoSuchNode { .. } => {
                tracing::error!(%error, "the policy refused an event");
                return;
            }
        };
        if self.jobs.get(&job).is_some_and(|record| record.phase == Phase::Pending) {
            let why = error.source().map(|why| format!(": {why}")).unwrap_or_default();
            let cause = EndCause::Unplaceable { reason: format!("{error}{why}") };
            self.end_waiting(now, job, cause);
        }
    }

    /// A job got its processing elements. The job starts, unless more jobs run than there are flags
    /// for.
    fn place_or_await_flags(&mut self, now: Instant, placed: Awaiting) {
        let wanted = self.jobs.get(&placed.job()).is_some_and(|r| r.phase == Phase::Pending);
        if !wanted {
            // The job was withdrawn meanwhile: its elements go back.
            return self.handle_event(now, placed.partition(), Event::Finished(placed.job()));
        }
        self.live.await_slot(placed);
        self.place_awaiting(now);
    }

    /// Starts placed jobs in order while there are flags for them.
    pub(super) fn place_awaiting(&mut self, now: Instant) {
        loop {
            // A job placed on a node that is just being lost will get another placement.
            let Core { live, partitions, nodes, .. } = self;
            let can = |placed: &Awaiting| {
                let placed_on = placed.nodes(&partitions[placed.partition()]);
                placed_on.iter().all(|node| nodes.up().contains(*node))
            };
            match live.take_awaiting(can) {
                Taken::Nothing => return,
                Taken::NoSlot => return self.give_way(now),
                Taken::Job(placed, slot, spare) => self.place(now, placed, (slot, spare)),
            }
        }
    }

    /// Releases the elements of a job that waits for flags; false if the job does not wait for
    /// flags.
    pub(super) fn give_back(&mut self, now: Instant, job: JobId) -> bool {
        let Some(placed) = self.live.stop_awaiting(job) else { return false };
        self.tell_policy(now, placed.partition(), Event::Finished(job));
        if !self.jobs.is_closed() {
            // The job may have waited for two places, and the next one needs only one.
            self.place_awaiting(now);
        }
        true
    }

    /// The launch of a job begins.
    fn place(&mut self, now: Instant, placed: Awaiting, (slot, spare): (JobSlot, Option<JobSlot>)) {
        let (job, partition, row) = (placed.job(), placed.partition(), placed.row());
        let (rows, suspended_for) = (placed.rows(), placed.suspended_for());
        let placement = placed.into_placement();
        let members = self.partitions[partition].members();
        let ranks: Vec<NodeRanks> = placement
            .shares()
            .iter()
            .map(|share| NodeRanks {
                node: members[share.node.0 as usize],
                first: Rank(share.first_rank),
                count: share.ranks,
            })
            .collect();
        let nodes: NodeSet = ranks.iter().map(|share| share.node).collect();
        let incarnation = self.live.begin_run();
        let node_list = self.nodes.fold(&nodes);
        self.partitions.job_comes_to(partition, &nodes);
        let first = self.jobs.get(&job).map_or(FirstStep::Program, |record| record.spec.first);
        let steps = ranks.iter().map_while(|share| share.of_step(first.id()));
        let nodes = (nodes, steps.map(|share| share.node).collect());
        self.append(now, job, JobEventKind::Placed { incarnation, ranks, row, node_list });
        let rooms = self.jobs.get(&job).map(|record| self.rooms(record)).unwrap_or_default();
        let placed = Placed {
            incarnation,
            slot,
            first,
            spare,
            partition,
            row,
            rows,
            placement,
            nodes,
            rooms,
        };
        self.live.place(now, job, placed);
        self.note_elements(now, job);
        if let Some(by) = suspended_for {
            let time = Duration::ZERO;
            self.append(now, job, JobEventKind::Suspended { by, time });
        }
        self.stage(now, job);
    }

    /// Brings the files of a job to its nodes.
    pub(super) fn stage(&mut self, now: Instant, job: JobId) {
        let (Some(live), Some(record)) = (self.live.get(job), self.jobs.get(&job)) else { return };
        let (incarnation, nodes) = (live.incarnation(), live.nodes().clone());
        let (files, owner) = (files_of(&record.spec), record.spec.owner);
        if files.is_empty() {
            self.staged(now, job, incarnation, Ok(StageOutcome::default()));
        } else {
            self.effects.durable.push(Durable::Stage(StageJob {
                job,
                incarnation,
                nodes,
                files,
                owner,
            }));
        }
    }

    /// Every node's part of a job is over, or will never begin: the job's elements are free.
    pub(super) fn release(&mut self, now: Instant, job: JobId) {
        let Some(partition) = self.live.release(job) else { return };
        self.tell_policy(now, partition, Event::Finished(job));
    }

    pub(super) fn notify_state(&mut self, job: JobId, state: JobState, reason: Option<String>) {
        let node_list = self.jobs.get(&job).map(|record| record.node_list.clone());
        let node_list = node_list.filter(|list| !list.is_empty());
        self.notify(job, state, reason, node_list);
    }

    /// Notifies the clients that follow a job that the job waits, on no nodes.
    pub(super) fn notify_pending(&mut self, job: JobId, reason: Option<String>) {
        self.notify(job, JobState::Pending, reason, None);
    }

    fn notify(
        &mut self,
        job: JobId,
        state: JobState,
        reason: Option<String>,
        node_list: Option<String>,
    ) {
        let run = self.jobs.get(&job).map_or_else(Default::default, |record| record.incarnation);
        let away = self.is_recovering(job);
        let reply = Reply::State { job, state, run, away, reason, node_list };
        self.effects.durable.push(Durable::Notify(job, Notice::Event(reply)));
    }

    /// The first node of a job that is up: this node announces the end (Algorithm 9).
    pub(super) fn announcer(&self, nodes: &NodeSet) -> NodeId {
        self.up(nodes).first().or(nodes.first()).unwrap_or(NodeId::MM)
    }
}

/// The files of a job, the program first.
pub(super) fn files_of(spec: &JobSpec) -> Vec<FileSpec> {
    files_of_step(&spec.step)
}

/// The files of a step, the program first.
pub(super) fn files_of_step(spec: &StepSpec) -> Vec<FileSpec> {
    let program = match &spec.program {
        Program::Shipped(file) => Some(file.clone()),
        Program::OnNodes(_) => None,
    };
    program.into_iter().chain(spec.files.iter().cloned()).collect()
}
