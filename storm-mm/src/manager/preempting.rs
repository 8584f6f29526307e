//! Jobs that get the processing elements of others: the meaning of qualities of service for a
//! policy, and the fate of preempted jobs (`docs/decisions/0047`).
//!
//! A suspended job keeps its memory and its place; its processes are stopped, like those of a row
//! that never runs. The policies choose which job makes room.

use super::live::{Launch, LivePlace};
use super::partitions::sched_time;
use super::{ClusterTimer, Core, Durable, Immediate, Timer};
use crate::api::JobState;
use crate::job::{EndCause, JobEventKind, JobRecord, Phase};
use storm_primitives::Instant;
use storm_rm::message::Command;
use storm_rm::{JobId, PartitionId};
use storm_sched::{Event, JobRequest, PreemptMode};

impl Core {
    /// Adds the job's quality of service to the request to its policy.
    pub(super) fn with_precedence(&self, request: JobRequest, record: &JobRecord) -> JobRequest {
        let precedence = self.preemption.precedence_of(record);
        let mut request = request;
        request.preempted = record.comes_first;
        match precedence {
            Some(precedence) => request.with_precedence(precedence),
            None => request,
        }
    }

    /// Warns if a partition's policy ignores which jobs may preempt which.
    pub(super) fn warn_if_never_preempting(&self, id: PartitionId) {
        let partition = &self.partitions[id];
        if self.preemption.is_possible() && !partition.policy().heeds_precedence() {
            let (name, sched) = (partition.name(), partition.policy().name());
            tracing::warn!(
                partition = %name, sched,
                "qualities of service preempt others, but this policy preempts no job"
            );
        }
    }

    /// Suspended jobs, in the order of their suspension.
    pub(super) fn suspended(&self) -> &[JobId] {
        self.jobs.suspended()
    }

    pub(super) fn is_suspended(&self, job: JobId) -> bool {
        self.suspended().contains(&job)
    }

    /// Why a suspended job does not run.
    pub(super) fn suspended_reason(&self, now: Instant, record: &JobRecord) -> String {
        let by = record.suspended_for.and_then(|by| self.jobs.get(&by));
        let name = by.map_or_else(String::new, |by| format!(" for job {}", by.name()));
        let partition = self.partitions.named(&record.partition);
        let kept = partition.and_then(|p| p.policy().explain_suspended(sched_time(now), record.id));
        // Only a reservation is taken from the policy's reason. The policy names other holders by
        // its own numbers, and the list of nodes shows the holders.
        if let Some(reserved) = kept.and_then(|kept| self.reserved_reason(&kept)) {
            return format!("it is suspended{name}; {reserved}");
        }
        let nodes = &record.node_list;
        format!(
            "it is suspended{name}, and goes on when its processing elements of {nodes} are free"
        )
    }

    /// Journals the elements of a job, where they matter after a restart: a suspended job waits for
    /// the job that has the same elements.
    pub(super) fn note_elements(&mut self, now: Instant, job: JobId) {
        let placement = self.live.get(job).and_then(LivePlace::placement);
        let known = self.jobs.get(&job).is_none_or(|record| record.elements.is_some());
        if known || !self.preemption.is_possible() {
            return;
        }
        let Some(live) = self.live.get(job) else { return };
        let partition = &self.partitions[live.partition()];
        if let Some(elements) = placement.map(|placement| partition.elements_of(placement)) {
            self.append(now, job, JobEventKind::OnElements { elements });
        }
    }

    /// Ends a job whose elements another job gets, for good or until its next turn.
    pub(super) fn end_for(&mut self, now: Instant, job: JobId, mode: PreemptMode, by: JobId) {
        let requeue = mode == PreemptMode::Requeue;
        let cause = EndCause::Preempted { by, requeue };
        if requeue && self.live.awaiting_job(job).is_some() {
            self.append(now, job, JobEventKind::Requeued { cause });
            self.give_back(now, job);
            self.queue_again(now, job);
        } else {
            self.end_job(now, job, cause);
        }
    }

    /// Stops the processes of a job on all its nodes: another job has its elements.
    pub(super) fn suspend(&mut self, now: Instant, job: JobId, by: JobId) {
        if self.live.suspend_awaiting(job, by) {
            return;
        }
        let Some(time) = self.live.suspend(now, job) else { return };
        self.tell_rows(job);
        self.append(now, job, JobEventKind::Suspended { by, time });
        self.tell_whether_stopped(job, Some(format!("suspended for job {by}")));
    }

    /// The processes of a suspended job continue.
    pub(super) fn go_on(&mut self, now: Instant, job: JobId) {
        if let Some(awaiting) = self.live.awaiting_job(job) {
            let partition = &self.partitions[awaiting.partition()];
            let rows = partition.rows_of_new(awaiting.row());
            return self.live.awaiting_goes_on(job, rows);
        }
        let Some(live) = self.live.get(job) else { return };
        let partition = &self.partitions[live.partition()];
        let rows = partition.rows_of_new(live.row());
        let staged = live.launch() == Launch::Staged;
        let may_launch = partition.may_launch(rows);
        let Some(time) = self.live.go_on(now, job, (rows, partition.active())) else { return };
        self.tell_rows(job);
        if self.is_suspended(job) {
            self.append(now, job, JobEventKind::Resumed { time });
        }
        self.tell_whether_stopped(job, None);
        if staged && may_launch && !self.jobs.is_closed() {
            self.launch(now, job);
        }
        self.launch_steps_of(now, job);
    }

    /// Suspended jobs hold all places in the arrays of flags. None of them can end unless the jobs
    /// that wait for a place release their elements. The waiting jobs therefore release them.
    pub(super) fn give_way(&mut self, now: Instant) {
        if self.preemption.set_giving_way(true) {
            return;
        }
        while let Some(job) = self.live.to_give_way() {
            self.preemption.strand(job);
            self.jobs.wait(job);
            self.give_back(now, job);
        }
        self.preemption.set_giving_way(false);
    }

    /// Whether a job waits for a suspended job to end.
    pub(super) fn is_stranded(&self, job: JobId) -> bool {
        !self.has_slots_for(job) && self.preemption.is_stranded(job)
    }

    fn has_slots_for(&self, job: JobId) -> bool {
        let first = self.jobs.get(&job).map(|record| record.spec.first);
        self.live.has_slots_for(first.unwrap_or_default())
    }

    /// A job has ended: jobs that released their elements may wait for others again.
    pub(super) fn return_stranded(&mut self, now: Instant) {
        for job in self.preemption.take_stranded() {
            if self.has_slots_for(job) {
                self.reconsider(now, job);
            } else {
                self.preemption.strand(job);
            }
        }
    }

    /// No job suspends others until the nodes have returned, or their time to return is over.
    pub(super) fn await_nodes(&mut self, now: Instant) {
        if self.live.is_empty() || !self.preemption.is_possible() {
            return;
        }
        self.preemption.set_returning(true);
        let at = now + self.config.recovery_timeout;
        self.effects
            .durable
            .push(Durable::Timer { at, timer: Timer::Cluster(ClusterTimer::Returned) });
    }

    /// All nodes have returned, or are no longer waited for. Submits the waiting jobs that may
    /// preempt others to their policies anew.
    pub(super) fn nodes_returned(&mut self, now: Instant) {
        if !self.preemption.set_returning(false) {
            return;
        }
        for id in self.partitions.ids() {
            let policy = self.partitions[id].policy();
            let waiting = if policy.preempts() { policy.pending() } else { Vec::new() };
            let mut events = Vec::new();
            for job in waiting {
                let request = self.request_now(now, job);
                if let Some(request) = request.filter(JobRequest::may_preempt) {
                    events.extend([Event::Cancel(job), Event::Submit(request)]);
                }
            }
            if !events.is_empty() {
                self.handle_together(now, id, events);
                self.effects.immediate.push(Immediate::SlicesChanged(id));
            }
        }
    }

    /// Notifies the clients that watch a running job whether the job is suspended.
    fn tell_whether_stopped(&mut self, job: JobId, reason: Option<String>) {
        let record = self.jobs.get(&job);
        if let Some(state) = record.filter(|record| record.phase == Phase::Running) {
            let state = state.state();
            debug_assert!(matches!(state, JobState::Running | JobState::Suspended));
            self.notify_state(job, state, reason);
        }
    }

    /// Sends the rows of a job to the nodes that hold a part of the job.
    pub(super) fn tell_rows(&mut self, job: JobId) {
        let Some(rows) = self.live.get(job).map(|live| live.rows()) else { return };
        self.tell_holders(job, Command::SetRows { job, rows });
    }

    /// Sends the nodes of a job how its ranks are coscheduled.
    pub(super) fn tell_coscheduling(&mut self, job: JobId) {
        let Some(partition) = self.live.get(job).map(|live| live.partition()) else { return };
        let coscheduling = self.partitions[partition].coscheduling();
        self.tell_holders(job, Command::Coschedule { job, coscheduling });
    }

    /// Sends a command to the nodes that hold a part of a job.
    fn tell_holders(&mut self, job: JobId, command: Command) {
        let Some(live) = self.live.get(job) else { return };
        if !live.is_on_nodes() {
            return;
        }
        let nodes = live.holders_of_all();
        if !nodes.is_empty() {
            self.effects.durable.push(Durable::Command(nodes, command));
        }
    }
}
