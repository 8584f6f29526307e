//! Time limits of steps. As a job's, a step's limit bounds the time for which its place runs.

use super::{Core, StepTimer};
use crate::job::EndCause;
use std::time::Duration;
use storm_primitives::Instant;
use storm_rm::JobId;

impl Core {
    /// The ranks of a step execute: its limit counts from its start. The time under a former
    /// manager counts as time for which the place ran.
    pub(super) fn limit_step(&mut self, now: Instant, (job, number): (JobId, u32)) {
        let Some((_, step)) = self.step_record((job, number)) else { return };
        let Some(limit) = step.size.time_limit else { return };
        let since = step.started.map(|started| self.wall(now).duration_since(started));
        let ran = since.and_then(|since| Duration::try_from(since).ok()).unwrap_or_default();
        self.live.set_step_limit(now, (job, number), limit.saturating_sub(ran));
        self.arm_step_limit(now, (job, number));
    }

    fn arm_step_limit(&mut self, now: Instant, (job, number): (JobId, u32)) {
        let Some(live) = self.live.get(job) else { return };
        let Some(step) = live.step(number) else { return };
        let Some(limit) = step.limit() else { return };
        let (at, run) = (live.earliest(now, limit), step.run());
        self.arm_step(at, (job, number), run, StepTimer::Limit);
    }

    /// A step may have reached its limit.
    pub(super) fn step_limit_timer(&mut self, now: Instant, (job, number): (JobId, u32)) {
        let Some(live) = self.live.get(job) else { return };
        let Some(step) = live.step(number) else { return };
        if step.limit().is_some_and(|limit| live.run_time(now) < limit) {
            return self.arm_step_limit(now, (job, number));
        }
        self.end_step(now, (job, number), EndCause::TimeLimit);
        self.finish_if_over(now, job);
    }
}
