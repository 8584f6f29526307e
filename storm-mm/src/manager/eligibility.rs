//! The gate before the policies. A job that is held, or whose time is not reached, is not handed to
//! a policy. The same holds for a job whose dependencies are not met, or for which the
//! configuration lacks something (`docs/decisions/0041`, `0132`).
//!
//! The lifting of holds is in [`super::holding`], the ends of jobs in [`super::dependencies`].

use super::jobs::Unmet;
use super::{Core, Durable, JobTimer, Timer};
use crate::job::{EndCause, Hold};
use jiff::Timestamp;
use std::time::Duration;
use storm_primitives::Instant;
use storm_rm::{Condition, JobId};
use storm_sched::Event;

/// The longest time for which a timer is set; then the clock is read again.
const LONGEST_TIMER: Duration = Duration::from_secs(86_400);

/// Why a job is not handed to its policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    Held(Hold),
    Begin(Timestamp),
    /// Conditions that must become true: all of them, or any.
    Dependency {
        open: Vec<Condition>,
        any: bool,
        /// When the first delay after a begin is over, if one of those jobs has begun.
        until: Option<Timestamp>,
    },
    /// A condition that can never become true.
    NeverSatisfied(Condition),
    ArrayLimit(u32),
    /// The configuration lacks something that the job requests.
    Unmet(Unmet),
    /// Suspended jobs hold all places in the arrays of flags, or did.
    Places,
    GoingDown,
}

/// The most conditions of a dependency that a reason names.
const MAX_NAMED_CONDITIONS: usize = 8;

impl Core {
    /// Hands a job that waits to its partition's policy, unless it lacks something else.
    pub(super) fn enter(&mut self, now: Instant, job: JobId) {
        match self.obstacle(now, job) {
            None => {
                self.jobs.enter(job);
                self.hand_over(now, job);
            }
            Some(obstacle) => self.wait(now, job, obstacle),
        }
    }

    fn wait(&mut self, now: Instant, job: JobId, obstacle: Obstacle) {
        self.jobs.wait(job);
        match obstacle {
            Obstacle::Begin(begin) | Obstacle::Dependency { until: Some(begin), .. } => {
                let left = Duration::try_from(begin.duration_since(self.wall(now)));
                let at = now + left.unwrap_or_default().min(LONGEST_TIMER);
                let incarnation = self.jobs[&job].incarnation;
                self.effects.durable.push(Durable::Timer {
                    at,
                    timer: Timer::Job { job, incarnation, kind: JobTimer::Begin },
                });
            }
            Obstacle::NeverSatisfied(condition)
                if self.jobs[&job].spec.needs.kill_on_invalid_dep =>
            {
                let condition = condition.to_string();
                self.end_job(now, job, EndCause::DependencyNeverSatisfied { condition });
            }
            Obstacle::NeverSatisfied(_)
            | Obstacle::Held(_)
            | Obstacle::Dependency { .. }
            | Obstacle::ArrayLimit(_)
            | Obstacle::Unmet(_)
            | Obstacle::Places
            | Obstacle::GoingDown => {}
        }
    }

    /// Checks a job again that waits for something other than elements.
    pub(super) fn reconsider(&mut self, now: Instant, job: JobId) {
        if self.jobs.stop_waiting(job) {
            self.enter(now, job);
        }
    }

    /// Hands a job to its policy, or puts the job into the queue for the next policy.
    pub(super) fn hand_over(&mut self, now: Instant, job: JobId) {
        let Some(request) = self.request_now(now, job) else { return };
        let record = &self.jobs[&job];
        match self.partitions.id_of(&record.partition) {
            Some(partition) => {
                let (submitted, later) = (Event::Submit(request), self.jobs.needs().is_together());
                let told = self.partitions.enqueue(partition, (job, submitted), later);
                if let Some(submitted) = told {
                    self.tell_policy(now, partition, submitted);
                }
            }
            None => {
                let lack = Unmet::Partition(record.partition.clone());
                self.jobs.lack(job, lack.clone());
                self.wait(now, job, Obstacle::Unmet(lack));
            }
        }
    }

    /// Takes a job that has not started away from its policy, to wait for something else.
    pub(super) fn leave(&mut self, now: Instant, job: JobId) {
        if self.returns.is_fencing(job) || self.jobs.needs().is_waiting(job) {
            return;
        }
        let partition = self.partitions.id_of(&self.jobs[&job].partition);
        if let Some(partition) = partition {
            let withdrawn = Event::Cancel(job);
            self.withdraw(now, partition, job, withdrawn);
        }
        self.jobs.wait(job);
        if let Some(array) = self.jobs.leave(job) {
            self.fill_array(now, array);
        }
    }

    /// The obstacle between a job and its policy, if an obstacle exists.
    pub(super) fn obstacle(&self, now: Instant, job: JobId) -> Option<Obstacle> {
        let record = self.jobs.get(&job)?;
        if self.jobs.is_closed() {
            return Some(Obstacle::GoingDown);
        }
        if let Some(hold) = record.hold {
            return Some(Obstacle::Held(hold));
        }
        if let Some(begin) = record.spec.needs.begin
            && begin > self.wall(now)
        {
            return Some(Obstacle::Begin(begin));
        }
        if let Some(obstacle) = self.unmet_dependency(now, record) {
            return Some(obstacle);
        }
        if let Some(lack) = self.jobs.needs().unmet_of(job) {
            return Some(Obstacle::Unmet(lack.clone()));
        }
        if self.is_stranded(job) {
            return Some(Obstacle::Places);
        }
        let task = record.task?;
        let array = self.jobs.needs().array(task.array)?;
        let limit = array.limit()?;
        let may = array.has_entered(job) || array.has_room();
        (!may).then_some(Obstacle::ArrayLimit(limit))
    }

    /// Why a job waits that is not with its policy. If the job waits for something else first, the
    /// reason also names the lack of the configuration for that job.
    pub(super) fn need_reason(&self, now: Instant, job: JobId) -> Option<String> {
        if !self.jobs.needs().is_waiting(job) {
            return None;
        }
        let obstacle = self.obstacle(now, job)?;
        let then = match (&obstacle, self.jobs.needs().unmet_of(job)) {
            (Obstacle::Unmet(_), _) | (_, None) => String::new(),
            (_, Some(lack)) => format!("; {lack}"),
        };
        Some(self.told_obstacle(obstacle) + &then)
    }

    fn told_obstacle(&self, obstacle: Obstacle) -> String {
        match obstacle {
            Obstacle::Held(Hold::User) => "it is held by its user (JobHeldUser)".to_owned(),
            Obstacle::Held(Hold::Admin) => {
                "it is held by an administrator (JobHeldAdmin)".to_owned()
            }
            Obstacle::Begin(begin) => format!("it is not to begin before {begin} (BeginTime)"),
            Obstacle::Dependency { open, any, until } => {
                let word = if any { " or " } else { " and " };
                let named = open.iter().take(MAX_NAMED_CONDITIONS);
                let named: Vec<String> =
                    named.map(|condition| condition.text(&|job| self.jobs.name(job))).collect();
                let more = match open.len() - named.len() {
                    0 => String::new(),
                    more => format!("{word}{more} more"),
                };
                let until = match until.filter(|_| open.len() == 1) {
                    Some(until) => format!(", which is at {until}"),
                    None => String::new(),
                };
                format!("it waits for {}{more}{until} (Dependency)", named.join(word))
            }
            Obstacle::NeverSatisfied(condition) => {
                let condition = condition.text(&|job| self.jobs.name(job));
                format!(
                    "{condition} can never be satisfied, so the job never starts \
                     (DependencyNeverSatisfied)"
                )
            }
            Obstacle::ArrayLimit(limit) => {
                format!("{limit} jobs of its array may run at once (JobArrayTaskLimit)")
            }
            Obstacle::Unmet(lack) => lack.to_string(),
            Obstacle::Places => {
                let limit = self.config.job_slots;
                format!("the {limit} jobs that there may be have begun: one must end before it")
            }
            Obstacle::GoingDown => "the cluster is going down".to_owned(),
        }
    }
}
