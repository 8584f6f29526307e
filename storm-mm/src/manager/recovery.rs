//! A manager on the journal of a former manager. Jobs that waited wait again. Jobs that were on the
//! machine keep their places in the matrix until their nodes have [returned](super::returning) and
//! reported the jobs that they hold (`docs/decisions/0006-jobs-survive-the-manager.md`).

use super::Core;
use super::absent_clients::AbsentClients;
use super::live::{Restored, RestoredStep};
use super::restored_elements::RestoredElements;
use crate::job::{EndCause, JobEvent, JobEventKind, JobRecord, Phase, StepEvent};
use crate::journal::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use storm_primitives::Instant;
use storm_rm::{JobId, JobSlot, PartitionId, Row, RowSet};
use storm_sched::{Event, Placement};

impl Core {
    /// Rebuilds the job table from the journal.
    pub(super) fn recover(&mut self, journal: impl IntoIterator<Item = Entry>, now: Instant) {
        self.replay(journal);
        self.absent_clients = AbsentClients::of(now, self.jobs.values());
        // The journal has these ends for each waiting job.
        self.jobs.forget_ends();
        self.restore_settings(now);
        self.jobs.forget_begins();
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
                // The job may have ended because of another job's end, and may be forgotten.
                let Some(record) = core.jobs.get(&job) else { continue };
                if record.phase == Phase::Pending {
                    let former = core.lost_now(now, &record.former_nodes);
                    core.queue_when_fenced(now, job, former);
                }
            }
        });
        for id in self.partitions.ids() {
            self.try_switch(now, id);
        }
    }

    /// Makes the records of the journal, and continues its numbers.
    fn replay(&mut self, journal: impl IntoIterator<Item = Entry>) {
        for entry in journal {
            match entry {
                Entry::Job(job, event) => self.replay_job(job, event),
                Entry::Cluster(event) => self.apply_of_cluster(&event),
            }
        }
    }

    fn replay_job(&mut self, job: JobId, mut event: JobEvent) {
        self.jobs.read(job, &mut event);
        match &event.kind {
            JobEventKind::Placed { incarnation: run, .. }
            | JobEventKind::Step { event: StepEvent::Began { run, .. }, .. }
            | JobEventKind::Step { event: StepEvent::Ended { latest_run: run, .. }, .. } => {
                self.live.has_begun(*run);
            }
            _ => {}
        }
        self.apply(job, &event);
    }

    /// Returns jobs to their places in the matrix, before other jobs get these elements.
    fn take_over_all(&mut self, now: Instant, mut placed: Vec<JobId>) {
        // The latest first. If two jobs have the same element, the earlier job had released the
        // element. Its ranks had ended (Algorithm 8), and only the reports were on their way.
        // Suspended jobs are after the jobs that have their elements, in the order of their
        // suspension.
        let since = |job: &JobId| self.suspended().iter().position(|other| other == job);
        placed.sort_by_key(|job| (since(job), std::cmp::Reverse(self.jobs[job].incarnation)));
        let mut elements = RestoredElements::default();
        let mut restored: BTreeMap<PartitionId, [Vec<Event>; 2]> = BTreeMap::new();
        for job in placed {
            self.jobs.enter(job);
            match self.take_over(now, job, &mut elements) {
                Ok((partition, restore)) => {
                    let stopped = self.is_suspended(job);
                    let [first, then] = restored.entry(partition).or_default();
                    let events = if stopped { first } else { then };
                    let has_place = restore.is_some();
                    events.extend(restore);
                    let suspended = Event::Suspended(job);
                    events.extend((stopped && has_place).then_some(suspended));
                }
                Err(reason) => self.lose(now, job, reason),
            }
        }
        self.live.take_spares();
        self.await_nodes(now);
        for (partition, [stopped, running]) in restored {
            // In one call: a job whose elements seem free must not continue before the policy has
            // their holder.
            self.handle_together(now, partition, stopped.into_iter().chain(running).collect());
            let known: BTreeSet<_> =
                self.partitions[partition].policy().running().into_iter().collect();
            let lost = self
                .live
                .of(partition)
                .filter(|(job, live)| !live.is_released() && !known.contains(job));
            let without_place: Vec<JobId> = lost.map(|(job, _)| job).collect();
            for job in without_place {
                self.leave_matrix(now, job);
            }
        }
    }

    /// A job on the machine cannot be taken over.
    fn lose(&mut self, now: Instant, job: JobId, reason: String) {
        tracing::error!(%job, reason, "a job on the machine cannot be taken over");
        self.end_waiting(now, job, EndCause::Unplaceable { reason });
    }

    /// Finds the place of a job in the matrix; returns the event for its policy. A job for which
    /// the present partitions have no place continues outside the matrix. Its nodes must return.
    fn take_over(
        &mut self,
        now: Instant,
        job: JobId,
        restored: &mut RestoredElements,
    ) -> Result<(PartitionId, Option<Event>), String> {
        let record = self.jobs.get(&job).ok_or("it is not known")?;
        let row = record.row.ok_or("it has no row")?;
        let steps = record.steps.as_ref().map_or(0, |steps| steps.live().count());
        let slots = self.live.take_slots(1 + steps);
        let (slot, slots) = slots.ok_or("there are fewer places for jobs than before")?;
        let home = self.partitions.of_nodes(record);
        let suspended = self.is_suspended(job);
        let place = home.and_then(|home| {
            let partition = &self.partitions[home];
            restored.place(record, (home, partition), row, suspended)
        });
        let partition = home.unwrap_or_else(|| self.partitions.counted(record));
        let row = place.as_ref().map_or(row, |(row, _)| *row);
        let placement = place.map(|(_, placement)| placement);
        let steps = restored_steps(record, slots);
        let place = (partition, row, slot);
        let restored = self.to_restore(now, record, place, (placement.clone(), steps));
        self.live.restore(now, job, restored);
        self.await_step_clients(now, job);
        let suspends = self.partitions[partition].policy().preempts();
        if placement.is_some() && self.is_suspended(job) && !suspends {
            self.append(now, job, JobEventKind::Moved { row });
            self.go_on(now, job);
        }
        self.arm_return(job);
        let Some(placement) = placement else {
            self.leave_matrix(now, job);
            return Ok((partition, None));
        };
        self.note_elements(now, job);
        let request = self.request_now(now, job).ok_or("it is not known")?;
        let ran = self.ran_before(now, &self.jobs[&job], partition);
        Ok((partition, Some(Event::Restore { request, placement, row, ran })))
    }

    /// How long a job of a former manager has run.
    fn ran_before(&self, now: Instant, record: &JobRecord, partition: PartitionId) -> Duration {
        let runs_all = self.partitions[partition].runs_all();
        // In a row among several, only the journal records how much of the time a job has run.
        let since = record.ran_at.filter(|_| runs_all).map(|told| {
            let since = self.wall(now).duration_since(told);
            Duration::try_from(since).unwrap_or_default()
        });
        record.ran + since.unwrap_or_default()
    }

    fn to_restore(
        &self,
        now: Instant,
        record: &JobRecord,
        (partition, row, slot): (PartitionId, Row, JobSlot),
        (placement, steps): (Option<Placement>, Vec<RestoredStep>),
    ) -> Restored {
        let at_work = &self.partitions[partition];
        let rows = match record.suspended_for {
            Some(_) => RowSet::NONE,
            None => at_work.rows_of_new(row),
        };
        Restored {
            incarnation: record.incarnation,
            slot,
            first: record.spec.first,
            partition,
            row,
            rows,
            placement,
            nodes: (record.nodes(), record.step_nodes()),
            expected: now + self.config.recovery_timeout,
            parts_over: record.parts_over.clone(),
            ran: self.ran_before(now, record, partition),
            stopped: record.stopped_by.is_some(),
            active: at_work.runs(rows),
            rooms: self.rooms(record),
            steps,
        }
    }
}

/// The steps of a job that are not over, each with a place in the arrays of flags.
fn restored_steps(record: &JobRecord, slots: Vec<JobSlot>) -> Vec<RestoredStep> {
    let steps = record.steps.iter().flat_map(|steps| steps.live()).zip(slots);
    let steps = steps.map(|((number, step), slot)| RestoredStep {
        number,
        run: step.run,
        slot,
        ask: step.ask,
        size: step.size,
        ranks: step.ranks.clone(),
        parts_over: step.parts_over.clone(),
    });
    steps.collect()
}
