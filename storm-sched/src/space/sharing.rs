//! A space-sharing policy: a machine in one row, and a discipline that decides.

use std::time::Duration;

use crate::space::discipline::nameable;
use crate::space::{Discipline, News, ROW, Space};
use crate::{
    Action, Event, InvariantViolation, JobId, Machine, PendingReason, Policy, PolicyParams,
    RowView, SchedTime, Slot,
};

/// Space sharing under a discipline.
#[derive(Debug, Clone)]
pub struct SpaceSharing<D> {
    space: Space,
    discipline: D,
    /// Scratch: what one call of the driver brought.
    news: Vec<News>,
}

impl<D: Discipline> SpaceSharing<D> {
    /// The policy on an idle machine.
    #[must_use]
    pub fn under(discipline: D, machine: Machine, params: &PolicyParams) -> Self {
        let space = Space::new(machine, params, discipline.keeps_estimates());
        Self { space, discipline, news: Vec::new() }
    }

    fn take(&mut self, now: SchedTime, events: impl Iterator<Item = Event>) -> Vec<Action> {
        let mut refused = Vec::new();
        self.news.clear();
        for event in events {
            if let Err(error) = self.space.apply(now, event, &mut self.news) {
                refused.push(Action::Refused(error));
            }
        }
        if !self.news.is_empty() || self.space.is_preempting() {
            self.space.preempt(&mut self.news);
        }
        if !self.news.is_empty() {
            self.discipline.decide(&mut self.space, &self.news);
        }
        let mut actions = self.space.take_actions();
        actions.append(&mut refused);
        actions
    }
}

impl<D: Discipline> Policy for SpaceSharing<D> {
    fn name(&self) -> &'static str {
        self.discipline.name()
    }

    fn handle(&mut self, now: SchedTime, event: Event) -> Vec<Action> {
        self.take(now, std::iter::once(event))
    }

    fn handle_together(&mut self, now: SchedTime, events: Vec<Event>) -> Vec<Action> {
        self.take(now, events.into_iter())
    }

    fn estimate(&self, now: SchedTime, job: JobId) -> Option<SchedTime> {
        if self.space.is_preempting() {
            return None;
        }
        if self.space.is_due(job) {
            return Some(now);
        }
        nameable(now, self.discipline.start_of(&self.space, job)?)
    }

    fn pending(&self) -> Vec<JobId> {
        self.space.partition().pending()
    }

    fn pending_count(&self) -> usize {
        self.space.partition().queue.len()
    }

    fn running(&self) -> Vec<JobId> {
        self.space.partition().matrix.jobs().collect()
    }

    fn explain(&self, _now: SchedTime, job: JobId) -> Option<PendingReason> {
        self.space.explain(self.discipline.passing(), job)
    }

    fn explain_all(&self, _now: SchedTime) -> Vec<(JobId, PendingReason)> {
        self.space.explain_all(self.discipline.passing())
    }

    fn active_slot(&self) -> Option<Slot> {
        self.space.partition().matrix.active()
    }

    fn rows(&self) -> Vec<RowView> {
        // Those of jobs that are suspended never run.
        let mut rows = self.space.partition().matrix.view();
        rows.retain(|row| row.slot == ROW);
        rows
    }

    fn next_edge_needed(&self) -> bool {
        false
    }

    fn quantum(&self) -> Option<Duration> {
        None
    }

    fn machine(&self) -> &Machine {
        self.space.machine()
    }

    fn check(&self) -> Result<(), InvariantViolation> {
        self.space.partition().matrix.check()?;
        self.space.check()?;
        self.discipline.check(&self.space)
    }
}
