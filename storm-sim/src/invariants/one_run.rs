//! A job runs once at a time. No node starts ranks of a run while ranks of another run of the job
//! exist anywhere, and no node starts its ranks of a run twice. A frozen node is no exception,
//! because its keeper ends the ranks.

use super::{Broken, Invariant, broken};
use crate::Fact;
use std::collections::{BTreeMap, BTreeSet};
use storm_nm::JobKey;
use storm_nm::modelled::HostAct;
use storm_primitives::NodeId;
use storm_rm::{JobId, JobIncarnation};

/// See the module.
#[derive(Debug, Default)]
pub struct OneRun {
    /// Ranks that have not ended.
    left: BTreeMap<JobId, BTreeMap<(JobIncarnation, NodeId), u32>>,
    /// The runs that each node has started.
    began: BTreeSet<(JobKey, NodeId)>,
}

impl OneRun {
    fn launched(&mut self, node: NodeId, job: JobKey, ranks: u32) -> Result<(), Broken> {
        if !self.began.insert((job, node)) {
            return broken(format!("{job} starts on {node}, where it started before"));
        }
        let runs = self.left.entry(job.step.job).or_default();
        let beside = runs.keys().find(|(run, _)| *run != job.incarnation);
        if let Some((run, other)) = beside {
            let run = run.0;
            return broken(format!("{job} starts on {node} while run {run} is left on {other}"));
        }
        runs.insert((job.incarnation, node), ranks);
        Ok(())
    }

    fn exited(&mut self, node: NodeId, job: JobKey) {
        let Some(runs) = self.left.get_mut(&job.step.job) else { return };
        if let Some(left) = runs.get_mut(&(job.incarnation, node)) {
            *left = left.saturating_sub(1);
        }
        runs.retain(|_, left| *left > 0);
    }

    fn gone(&mut self, node: NodeId) {
        for runs in self.left.values_mut() {
            runs.retain(|(_, other), _| *other != node);
        }
    }
}

impl Invariant for OneRun {
    fn name(&self) -> &'static str {
        "a job runs once at a time"
    }

    fn note(&mut self, fact: &Fact<'_>) -> Result<(), Broken> {
        match fact {
            Fact::Host(node, HostAct::Launch { job, ranks, .. }) => {
                return self.launched(*node, *job, *ranks);
            }
            Fact::Host(node, HostAct::Exit { job, .. }) => self.exited(*node, *job),
            Fact::Host(node, HostAct::LeaseOver(job)) => {
                if let Some(runs) = self.left.get_mut(&job.step.job) {
                    runs.remove(&(job.incarnation, *node));
                }
            }
            Fact::Host(node, HostAct::Left | HostAct::KeeperEnded)
            | Fact::NodeDown(node)
            | Fact::NodeUp(node) => {
                self.gone(*node);
            }
            Fact::Host(..)
            | Fact::Inflicted(..)
            | Fact::NodeManagerDown(_)
            | Fact::NodeManagerLate(_)
            | Fact::Configured(_)
            | Fact::Journal(..)
            | Fact::Acknowledged(_)
            | Fact::NodeBack(_)
            | Fact::Terminated(_)
            | Fact::Compared(_)
            | Fact::ManagerDown
            | Fact::ManagerUp
            | Fact::Over => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{key, launch};
    use super::*;
    use storm_primitives::sim::NodeFault;
    use storm_rm::Rank;

    fn start(invariant: &mut OneRun, run: u64, node: u32) -> Result<(), Broken> {
        invariant.note(&Fact::Host(NodeId(node), &launch(1, run)))
    }

    #[test]
    fn two_runs_at_once_are_detected() {
        let mut invariant = OneRun::default();
        start(&mut invariant, 1, 1).unwrap();
        start(&mut invariant, 1, 2).unwrap();
        let found = start(&mut invariant, 2, 3).unwrap_err();
        assert!(found.0.contains("on n3 while run 1 is left on n1"), "{found}");
    }

    #[test]
    fn a_run_that_starts_twice_on_a_node_is_detected() {
        let mut invariant = OneRun::default();
        start(&mut invariant, 1, 1).unwrap();
        for rank in [0, 1].map(Rank) {
            let exit = HostAct::Exit { job: key(1, 1), rank };
            invariant.note(&Fact::Host(NodeId(1), &exit)).unwrap();
        }
        start(&mut invariant, 1, 2).unwrap();
        let found = start(&mut invariant, 1, 1).unwrap_err();
        assert!(found.0.contains("on n1, where it started before"), "{found}");
    }

    #[test]
    fn a_run_after_another_is_accepted() {
        let mut invariant = OneRun::default();
        start(&mut invariant, 1, 1).unwrap();
        for rank in [0, 1].map(Rank) {
            let exit = HostAct::Exit { job: key(1, 1), rank };
            invariant.note(&Fact::Host(NodeId(1), &exit)).unwrap();
        }
        start(&mut invariant, 2, 2).unwrap();
        invariant.note(&Fact::NodeDown(NodeId(2))).unwrap();
        start(&mut invariant, 3, 1).unwrap();
        invariant.note(&Fact::Host(NodeId(1), &HostAct::LeaseOver(key(1, 3)))).unwrap();
        start(&mut invariant, 4, 2).unwrap();
        invariant.note(&Fact::Host(NodeId(2), &HostAct::KeeperEnded)).unwrap();
        start(&mut invariant, 5, 1).unwrap();
    }

    #[test]
    fn ranks_of_a_frozen_node_count_as_left() {
        let mut invariant = OneRun::default();
        start(&mut invariant, 1, 1).unwrap();
        invariant.note(&Fact::Inflicted(NodeId(1), NodeFault::Freeze)).unwrap();
        start(&mut invariant, 2, 2).unwrap_err();
    }
}
