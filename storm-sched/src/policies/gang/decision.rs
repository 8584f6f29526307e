//! One decision for all events of an instant. A request can submit or end many jobs, and then costs
//! a single pass over the queue and the matrix.

use std::time::Duration;

use super::{Gang, Pace};
use crate::partition::Change;
use crate::{Action, Event, JobId, SchedTime};

/// The work to do after the events, in this order.
#[derive(Debug, Default)]
struct Decision {
    /// Whether jobs have left the matrix.
    tidy: bool,
    /// Whether a job may start.
    schedule: bool,
    /// Whether jobs were taken over: a row must then run.
    run: bool,
    /// Whether a slice has ended.
    rotate: bool,
}

impl Gang {
    /// Takes the events of an instant and decides.
    pub(super) fn take(
        &mut self,
        now: SchedTime,
        events: impl Iterator<Item = Event>,
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        self.run_time.advance(now, self.partition.matrix.active());
        let mut decision = Decision::default();
        for event in events {
            self.note(now, event, &mut decision, &mut actions);
        }
        if decision.tidy {
            self.tidy(&mut actions);
        }
        if decision.schedule {
            self.schedule(now, &mut actions);
        }
        if decision.run {
            self.run_somebody(&mut actions);
        }
        if decision.rotate {
            self.rotate(&mut actions);
        }
        actions
    }

    /// Applies an event, and notes the work that it causes.
    fn note(
        &mut self,
        now: SchedTime,
        event: Event,
        decision: &mut Decision,
        actions: &mut Vec<Action>,
    ) {
        let (of_job, already) = subject(&event);
        let taken = self.book.take(now, self.partition.matrix.machine(), &event);
        if self.book.has_turned() {
            self.partition.queue.part(self.book.windows().map(|window| window.id));
        }
        if let Err(refused) = taken {
            return actions.push(Action::Refused(refused));
        }
        let mut recompute = false;
        match self.partition.apply(event) {
            Err(refused) => actions.push(Action::Refused(refused)),
            Ok(Change::Queued { first } | Change::Withdrawn { first }) => {
                let all = self.backfills || !self.book.is_empty() || self.is_urgent();
                decision.schedule |= first || all;
            }
            Ok(Change::Released) => {
                of_job.iter().for_each(|job| self.run_time.forget(*job));
                (decision.tidy, decision.schedule) = (true, true);
            }
            Ok(Change::ColumnsGained | Change::Reordered) => decision.schedule = true,
            Ok(Change::Restored) => {
                let restored = of_job.and_then(|job| Some((job, self.partition.matrix.home(job)?)));
                if let Some((job, home)) = restored {
                    self.run_time.set_row(job, home);
                    self.run_time.add(job, already);
                }
                decision.run = true;
            }
            Ok(Change::SliceEdge) => decision.rotate = self.pace != Pace::AtOnce,
            Ok(Change::Quantum(quantum)) => {
                if let Pace::InTurn(slices) = &mut self.pace {
                    *slices = quantum;
                    recompute = true;
                }
            }
            // A first job that no longer fits anywhere holds back no other job.
            Ok(Change::ColumnsLost) => recompute = true,
            Ok(Change::Nothing) => {}
        }
        let turned = self.book.take_turned();
        decision.schedule |= turned || (recompute && (!self.book.is_empty() || self.is_urgent()));
    }
}

/// The job with PEs that an event concerns, and how long the job has already run.
fn subject(event: &Event) -> (Option<JobId>, Duration) {
    match event {
        Event::Finished(job) => (Some(*job), Duration::ZERO),
        Event::Restore { request, ran, .. } => (Some(request.id), *ran),
        Event::Submit(_)
        | Event::Cancel(_)
        | Event::Suspended(_)
        | Event::Prioritise { .. }
        | Event::NodeDown(_)
        | Event::NodeAway(_)
        | Event::NodeDrained(_)
        | Event::NodeUp(_)
        | Event::SliceEdge
        | Event::SetQuantum(_)
        | Event::Reserve(_)
        | Event::Unreserve(_)
        | Event::Wake => (None, Duration::ZERO),
    }
}
