//! A space-sharing policy: a machine in one row, and a discipline that decides.

use std::time::Duration;

use crate::reservation::Pool;
use crate::space::discipline::nameable;
use crate::space::{Discipline, News, Order, ROW, Space};
use crate::{
    Action, Event, InvariantViolation, JobId, Machine, PendingReason, Policy, PolicyParams,
    PriorityUse, Row, RowView, SchedTime,
};

/// Space sharing under a discipline.
#[derive(Debug, Clone)]
pub struct SpaceSharing<D> {
    space: Space,
    discipline: D,
    /// A buffer: the news of one call of the driver.
    news: Vec<News>,
}

impl<D: Discipline> SpaceSharing<D> {
    /// Returns the policy on an idle machine.
    #[must_use]
    pub fn under(discipline: D, machine: Machine, params: &PolicyParams) -> Self {
        let space = Space::new(machine, params, discipline.keeps_estimates());
        Self { space, discipline, news: Vec::new() }
    }

    fn take(&mut self, now: SchedTime, events: impl Iterator<Item = Event>) -> Vec<Action> {
        let (mut refused, mut accepted) = (Vec::new(), false);
        self.news.clear();
        for event in events {
            match self.space.apply(now, event, &mut self.news) {
                Ok(()) => accepted = true,
                Err(error) => refused.push(Action::Refused(error)),
            }
        }
        if !self.news.is_empty() || (accepted && self.space.is_preempting()) {
            self.space.preempt(&mut self.news);
        } else if self.space.is_preempting() {
            self.space.keep_columns();
        }
        if !self.news.is_empty() {
            self.discipline.decide(&mut self.space, &self.news);
            self.decide_apart();
        }
        let mut actions = self.space.take_actions();
        actions.append(&mut refused);
        actions
    }
}

impl<D: Discipline> SpaceSharing<D> {
    /// Decides on the jobs of reservations that are under way.
    fn decide_apart(&mut self) {
        if !self.space.has_reservations() {
            return;
        }
        let pools: Vec<Pool> = self.space.book().under_way().collect();
        for pool in pools {
            self.space.enter(pool);
            self.discipline.decide_apart(&mut self.space, &self.news);
        }
        self.space.enter(Pool::Common);
    }

    /// When the first job of a reservation is to start.
    fn start_apart(&self, pool: Pool, job: JobId) -> Option<SchedTime> {
        let first = self.space.first_of(pool, self.discipline.order());
        let first = first.filter(|first| first.job() == job)?;
        if first.fits() { Some(self.space.now()) } else { first.shadow().map(|shadow| shadow.at()) }
    }
}

impl<D: Discipline> Policy for SpaceSharing<D> {
    fn name(&self) -> &'static str {
        self.discipline.name()
    }

    fn preempts(&self) -> bool {
        true
    }

    fn priority_use(&self) -> PriorityUse {
        match (self.discipline.order(), self.discipline.keeps_estimates()) {
            (Order::ShortestFirst, _) => PriorityUse::AmongEqualLimits,
            (Order::Queue, true) => PriorityUse::First,
            (Order::Queue, false) => PriorityUse::Always,
        }
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
        let pool = self.space.book().pool_of(self.space.queue().get(job)?);
        let start = match pool {
            Pool::Common => self.discipline.start_of(&self.space, job),
            Pool::Of(_) | Pool::Before(_) => self.start_apart(pool, job),
        };
        nameable(now, start?)
    }

    fn estimate_all(&self, now: SchedTime) -> Vec<(JobId, SchedTime)> {
        if self.space.is_preempting() {
            return Vec::new();
        }
        if self.space.has_reservations() {
            // Each reservation has a first job of its own.
            let estimate = |job| Some((job, self.estimate(now, job)?));
            return self.pending().into_iter().filter_map(estimate).collect();
        }
        let due = self.space.due().map(|job| (job, now));
        let starts = self.discipline.starts(&self.space).into_iter();
        let waits = starts.filter(|(job, _)| !self.space.is_due(*job));
        let named = waits.filter_map(|(job, start)| Some((job, nameable(now, start)?)));
        due.chain(named).collect()
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

    fn explain_suspended(&self, _now: SchedTime, job: JobId) -> Option<PendingReason> {
        self.space.explain_suspended(job)
    }

    fn explain_all(&self, _now: SchedTime) -> Vec<(JobId, PendingReason)> {
        self.space.explain_all(self.discipline.passing())
    }

    fn active_row(&self) -> Option<Row> {
        self.space.partition().matrix.active()
    }

    fn rows(&self) -> Vec<RowView> {
        // The row of suspended jobs never runs.
        let mut rows = self.space.partition().matrix.view();
        rows.retain(|row| row.number == ROW);
        rows
    }

    fn next_edge_needed(&self) -> bool {
        false
    }

    fn wake_at(&self) -> Option<SchedTime> {
        self.space.book().next_turn()
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
