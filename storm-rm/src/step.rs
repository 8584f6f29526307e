//! The steps that run in a job's place.
//!
//! A place is what a policy gives to a job: nodes with the processing elements of `procs` processes
//! (`docs/decisions/0150-a-job-is-a-place-with-steps.md`).

use crate::message::{LaunchJob, NodeRanks};
use crate::{JobId, Rank};
use serde::{Deserialize, Serialize};
use std::fmt;
use storm_primitives::NodeId;

/// A step among those of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepId {
    /// The job's script.
    Batch,
    /// A step that runs in all of its elements, numbered from 0. The program of a job without a
    /// script has the number 0.
    Number(u32),
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StepId::Batch => f.write_str("batch"),
            StepId::Number(number) => number.fmt(f),
        }
    }
}

/// A step of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StepRef {
    /// The job.
    pub job: JobId,
    /// Which step of it.
    pub step: StepId,
}

impl StepRef {
    /// The program of a job without a script.
    pub const fn program(job: JobId) -> StepRef {
        StepRef { job, step: StepId::Number(0) }
    }
}

impl fmt::Display for StepRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.job, self.step)
    }
}

/// The first step of a job. The job ends with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FirstStep {
    /// The program, once for each process of the place.
    #[default]
    Program,
    /// The program once, on the first node, with all elements that the place has there.
    Script,
}

impl FirstStep {
    /// Its name among the steps of its job.
    pub fn id(self) -> StepId {
        match self {
            FirstStep::Program => StepId::Number(0),
            FirstStep::Script => StepId::Batch,
        }
    }
}

impl LaunchJob {
    /// The ranks that each node starts.
    pub fn step_ranks(&self) -> impl Iterator<Item = NodeRanks> + '_ {
        self.ranks.iter().map_while(|share| share.of_step(self.step.step))
    }

    /// The ranks that a node starts, if it starts any.
    pub fn step_ranks_of(&self, node: NodeId) -> Option<NodeRanks> {
        self.ranks.of_node(node)?.of_step(self.step.step)
    }

    /// Number of ranks of the step on all nodes.
    pub fn size(&self) -> u32 {
        match self.step.step {
            StepId::Batch => 1,
            StepId::Number(_) => self.ranks.count(),
        }
    }
}

impl NodeRanks {
    /// The ranks that a step starts on a node that has room for these.
    pub fn of_step(&self, step: StepId) -> Option<NodeRanks> {
        match step {
            StepId::Number(_) => Some(self.clone()),
            StepId::Batch if self.first == Rank(0) => Some(NodeRanks { count: 1, ..self.clone() }),
            StepId::Batch => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_has_one_rank_on_the_first_node_of_its_place() {
        let share = |node, first| NodeRanks { node: NodeId(node), first: Rank(first), count: 3 };
        let place = [share(4, 0), share(1, 3)];
        let of_step = |step| place.iter().map_while(|share| share.of_step(step)).collect();
        let script: Vec<NodeRanks> = of_step(FirstStep::Script.id());
        assert_eq!(script, [NodeRanks { count: 1, ..share(4, 0) }]);
        let program: Vec<NodeRanks> = of_step(FirstStep::Program.id());
        assert_eq!(program, place);
    }

    #[test]
    fn steps_are_named_as_users_write_them() {
        let named = |step| StepRef { job: JobId(7), step }.to_string();
        assert_eq!([StepId::Batch, StepId::Number(3)].map(named), ["7.batch", "7.3"]);
    }
}
