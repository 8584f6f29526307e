//! Facts that follow from a job's record.

use super::{EndCause, JobRecord, Phase};
use crate::api::JobState;
use storm_primitives::NodeSet;
use storm_rm::message::NodeRanks;
use storm_rm::{FirstStep, JobId, StepRef};

impl JobRecord {
    /// The step that the job ends with.
    pub fn first_step(&self) -> StepRef {
        StepRef { job: self.id, step: self.spec.first.id() }
    }

    /// Whether the job ends with a script.
    pub fn is_script(&self) -> bool {
        self.spec.first == FirstStep::Script
    }

    /// The ranks that each node starts, once placed.
    pub fn step_ranks(&self) -> impl Iterator<Item = NodeRanks> + '_ {
        self.ranks.iter().map_while(|share| share.of_step(self.spec.first.id()))
    }

    /// The nodes that start ranks, once placed.
    pub fn step_nodes(&self) -> NodeSet {
        self.step_ranks().map(|share| share.node).collect()
    }

    /// All nodes of its place, once placed.
    pub fn nodes(&self) -> NodeSet {
        self.ranks.iter().map(|share| share.node).collect()
    }

    /// Whether its processes are stopped, for another job or by an administrator.
    pub fn is_stopped(&self) -> bool {
        self.suspended_for.is_some() || self.stopped_by.is_some()
    }

    /// The job's name for users: `7`, or `7_3` for a job of an array.
    pub fn name(&self) -> String {
        self.task.map_or_else(|| self.id.to_string(), |task| task.to_string())
    }

    /// The number by which dependencies name the job: its array's number, or its own.
    pub fn unit(&self) -> JobId {
        self.task.map_or(self.id, |task| task.array)
    }

    /// The state for users.
    pub fn state(&self) -> JobState {
        match &self.phase {
            Phase::Pending | Phase::Starting => JobState::Pending,
            Phase::Running if self.is_stopped() => JobState::Suspended,
            // The run counts as not begun.
            Phase::Ending(EndCause::LaunchCut { .. }) if self.started.is_none() => {
                JobState::Pending
            }
            Phase::Running | Phase::Ending(_) => JobState::Running,
            Phase::Ended(outcome) => outcome.state,
        }
    }
}
