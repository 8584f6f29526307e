//! The end of a history: all that waits is met, until every job is over.

use super::world::{ADMIN, NODES, World};
use crate::job::Phase;
use crate::manager::eligibility::Obstacle;
use crate::manager::{JobTimer, StageOutcome};
use storm_primitives::NodeId;
use storm_rm::JobId;
use storm_rm::message::ExitStatus;

/// A job that has not ended after this many rounds never ends.
const ROUNDS_MAX: usize = 500;

impl World {
    /// Lets everything happen that must, until nothing is left.
    ///
    /// # Panics
    /// A job does not end.
    pub(super) fn finish(&mut self) {
        for node in (1..=NODES).map(NodeId) {
            if !self.joined.contains(&node) {
                self.node_up(node);
            }
        }
        for _ in 0..ROUNDS_MAX {
            while !self.stages.is_empty() {
                self.staged(0, Ok(StageOutcome::default()));
            }
            while !self.step_stages.is_empty() {
                self.step_staged(0, Ok(StageOutcome::default()));
            }
            while !self.starts.is_empty() {
                self.started(0);
            }
            if let Some(part) = self.parts.keys().next().copied() {
                self.part_over(part, ExitStatus::Code(0));
            }
            self.edge();
            self.let_go();
            if self.unfinished().is_empty() {
                return;
            }
        }
        let why = |job: &JobId| self.core.explain(self.now, *job).map(|told| told.reason);
        let unfinished = self.unfinished();
        panic!("jobs do not end: {:?}", unfinished.iter().map(|j| (j, why(j))).collect::<Vec<_>>());
    }

    /// Meets all other needs of jobs: releases them, lets their time begin, and cancels the jobs
    /// that can never start.
    fn let_go(&mut self) {
        for job in self.unfinished() {
            if self.core.jobs[&job].hold.is_some() {
                let _ = self.act(|core, now| core.release_hold(now, ADMIN, job));
            }
            if self.core.jobs[&job].stopped_by.is_some() {
                self.act(|core, now| core.continue_all(now, ADMIN, &[job]));
            }
            let obstacle = self.core.obstacle(self.now, job);
            if matches!(obstacle, Some(Obstacle::NeverSatisfied(_))) {
                self.cancel(job);
            }
        }
        while let Some(index) = self.timers_of_jobs(JobTimer::Begin).first().copied() {
            self.fire(index);
        }
    }

    pub(super) fn unfinished(&self) -> Vec<JobId> {
        let records = self.core.jobs.values();
        records.filter(|r| !matches!(r.phase, Phase::Ended(_))).map(|r| r.id).collect()
    }
}
