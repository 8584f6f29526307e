//! A job on nodes that stay configured is not disturbed. Assume that the configuration is edited
//! and the manager started again, while all nodes of a run stay configured. Then the run continues,
//! even if the order of the nodes, their elements or their partitions change. It is not ended,
//! signalled, queued again, started again or suspended.
//!
//! The same holds when a node manager ends and leaves its ranks to the next one, if all ranks of
//! the run are executing. If the next node manager is late, runs that are to be queued again may
//! end. If the keeper ends its jobs, every run there may end.
//!
//! A run that loses a node is queued again if its job asked for a requeue. It does not fail in this
//! case.
//!
//! Runs on nodes that a fault has hit are not checked.

use super::{Broken, Invariant, broken};
use crate::{Configuration, Fact};
use std::collections::{BTreeMap, BTreeSet};
use storm_mm::api::JobState;
use storm_mm::job::JobEventKind;
use storm_nm::JobKey;
use storm_nm::modelled::HostAct;
use storm_primitives::NodeId;
use storm_primitives::sim::NodeFault;
use storm_rm::message::NodeRanks;
use storm_rm::{JobId, JobIncarnation, Rank};

/// See the module.
#[derive(Debug, Default)]
pub struct Untouched {
    /// Jobs that asked to be queued again.
    requeue: BTreeSet<JobId>,
    runs: BTreeMap<JobId, Run>,
    /// Nodes with a fault, while the fault lasts.
    troubled: BTreeSet<NodeId>,
    /// Nodes that have restarted and launched nothing yet. If such a node loses its manager, it
    /// does not know whether its last incarnation received the launches that are on their way to
    /// it.
    fresh: BTreeSet<NodeId>,
    /// Nodes without a node manager.
    without_manager: BTreeSet<NodeId>,
}

/// The run of a job that has not ended.
#[derive(Debug)]
struct Run {
    incarnation: JobIncarnation,
    ranks: Vec<NodeRanks>,
    /// The ranks that have ended.
    over: BTreeSet<Rank>,
    /// All its ranks execute.
    started: bool,
    edited: Edited,
}

impl Run {
    fn is_on(&self, node: NodeId) -> bool {
        self.ranks.iter().any(|share| share.node == node)
    }

    /// Whether ranks of it are left on a node.
    fn is_left_on(&self, node: NodeId) -> bool {
        let here = self.ranks.iter().filter(|share| share.node == node);
        let mut ranks = here.flat_map(|share| share.first.0..share.first.0 + share.count);
        ranks.any(|rank| !self.over.contains(&Rank(rank)))
    }
}

/// The effect of the last edit or restart on a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edited {
    /// No edit or restart since the run began.
    Not,
    /// The run must not be touched.
    Stays,
    /// One of the run's nodes is removed.
    Goes,
    /// The run may end for another reason.
    Excused,
}

impl Untouched {
    fn edited(&mut self, configuration: &Configuration) {
        // A node that an earlier edit removed may come back too late.
        let judged = |run: &Run| matches!(run.edited, Edited::Not | Edited::Stays);
        for run in self.runs.values_mut().filter(|run| judged(run)) {
            let configured = |share: &NodeRanks| configuration.pes(share.node).is_some();
            let stays = run.ranks.iter().all(configured);
            run.edited = if stays { Edited::Stays } else { Edited::Goes };
        }
    }

    /// Decides which runs of a node must continue after its node manager ended. The next node
    /// manager takes over the runs whose ranks are all executing.
    fn judge_running_on(&mut self, node: NodeId) {
        self.without_manager.insert(node);
        for run in self.runs.values_mut() {
            let here = run.is_on(node);
            if here && !run.started {
                run.edited = Edited::Excused;
            } else if here && run.edited == Edited::Not {
                run.edited = Edited::Stays;
            }
        }
    }

    /// The keeper of a node may now end the runs that are to be queued again.
    fn late(&mut self, node: NodeId) {
        let requeue = self.requeue.clone();
        self.excuse(|job, run| requeue.contains(&job) && run.is_on(node));
    }

    /// A fault may end the runs on a node.
    fn trouble(&mut self, node: NodeId) {
        self.troubled.insert(node);
        self.excuse(|_, run| run.is_on(node));
    }

    fn excuse(&mut self, which: impl Fn(JobId, &Run) -> bool) {
        let excused = self.runs.iter_mut().filter(|(job, run)| which(**job, run));
        excused.for_each(|(_, run)| run.edited = Edited::Excused);
    }

    fn inflicted(&mut self, node: NodeId, fault: NodeFault) {
        match fault {
            NodeFault::Thaw | NodeFault::Mend | NodeFault::Slow { percent: 100 } => {
                self.troubled.remove(&node);
            }
            NodeFault::Kill
            | NodeFault::Freeze
            | NodeFault::Delay(_)
            | NodeFault::Slow { .. }
            | NodeFault::Lossy { .. }
            | NodeFault::Cut => self.trouble(node),
        }
    }

    fn journal(&mut self, job: JobId, kind: &JobEventKind) -> Result<(), Broken> {
        match kind {
            JobEventKind::Submitted { spec, .. } if spec.requeue => {
                self.requeue.insert(job);
            }
            JobEventKind::Placed { incarnation, ranks, .. } => {
                self.touched(job, "is placed anew")?;
                let without =
                    |node| self.troubled.contains(node) || self.without_manager.contains(node);
                let troubled = ranks.iter().any(|share| without(&share.node));
                let edited = if troubled { Edited::Excused } else { Edited::Not };
                let (incarnation, ranks) = (*incarnation, ranks.clone());
                let (over, started) = (BTreeSet::new(), false);
                self.runs.insert(job, Run { incarnation, ranks, over, started, edited });
            }
            JobEventKind::Started { .. } => {
                if let Some(run) = self.runs.get_mut(&job) {
                    run.started = true;
                }
            }
            JobEventKind::Ending { cause } => {
                self.touched(job, &format!("is ended: {cause}"))?;
                self.excuse(|other, run| other == job && run.edited == Edited::Not);
            }
            JobEventKind::Suspended { by, .. } => {
                self.touched(job, &format!("is suspended for job {by}"))?;
            }
            JobEventKind::Requeued { cause } => {
                self.touched(job, &format!("is queued again: {cause}"))?;
                self.runs.remove(&job);
            }
            JobEventKind::Ended { outcome, .. } => {
                let why = outcome.reason.as_deref().unwrap_or("no reason is given");
                let how = format!("ended {}: {why}", outcome.state);
                if outcome.state != JobState::Completed {
                    self.touched(job, &how)?;
                }
                self.failed_for_an_edit(job, outcome.state, &how)?;
                self.runs.remove(&job);
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks whether the manager or a node may act on the run of a job.
    fn touched(&self, job: JobId, how: &str) -> Result<(), Broken> {
        match self.runs.get(&job) {
            Some(run) if run.edited == Edited::Stays => {
                broken(format!("job {job} has all its nodes, and it {how}"))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn failed_for_an_edit(&self, job: JobId, state: JobState, how: &str) -> Result<(), Broken> {
        let goes = self.runs.get(&job).is_some_and(|run| run.edited == Edited::Goes);
        let requeue = self.requeue.contains(&job);
        if goes && requeue && matches!(state, JobState::Failed | JobState::NodeFail) {
            return broken(format!(
                "an edit removed a node of job {job}, which was to be queued \
                again, and it {how}"
            ));
        }
        Ok(())
    }

    fn act(&mut self, node: NodeId, act: &HostAct) -> Result<(), Broken> {
        match act {
            HostAct::Signal { job, .. } | HostAct::Destroy(job) | HostAct::LeaseOver(job) => {
                self.touched_on(node, job, act)
            }
            HostAct::Launch { .. } => {
                self.fresh.remove(&node);
                Ok(())
            }
            HostAct::Exit { job, rank } => {
                let run = self.runs.get_mut(&job.step.job);
                let run = run.filter(|run| run.incarnation == job.incarnation);
                run.into_iter().for_each(|run| {
                    run.over.insert(*rank);
                });
                Ok(())
            }
            HostAct::KeeperEnded => {
                self.excuse(|_, run| run.is_on(node));
                Ok(())
            }
            HostAct::Left => {
                let ended = self.runs.iter().filter(|(_, run)| run.is_left_on(node));
                let how = format!("is lost as the node manager of {node} leaves");
                ended.map(|(job, _)| *job).try_for_each(|job| self.touched(job, &how))
            }
            _ => Ok(()),
        }
    }

    fn touched_on(&self, node: NodeId, key: &JobKey, act: &HostAct) -> Result<(), Broken> {
        let present =
            self.runs.get(&key.step.job).is_some_and(|run| run.incarnation == key.incarnation);
        if !present {
            return Ok(());
        }
        self.touched(key.step.job, &format!("is touched on {node}: {act}"))
    }
}

impl Invariant for Untouched {
    fn name(&self) -> &'static str {
        "a job on nodes that stay is not touched"
    }

    fn note(&mut self, fact: &Fact<'_>) -> Result<(), Broken> {
        match fact {
            Fact::Configured(configuration) => self.edited(configuration),
            Fact::Journal(job, kind) => return self.journal(*job, kind),
            Fact::Host(node, act) => return self.act(*node, act),
            Fact::NodeDown(node) => self.trouble(*node),
            Fact::NodeManagerLate(node) => self.late(*node),
            Fact::NodeManagerDown(node) => self.judge_running_on(*node),
            Fact::Inflicted(node, fault) => self.inflicted(*node, *fault),
            Fact::NodeUp(node) => {
                self.troubled.remove(node);
                self.without_manager.remove(node);
                self.fresh.insert(*node);
            }
            Fact::ManagerDown => {
                let fresh = std::mem::take(&mut self.fresh);
                let on_fresh = |run: &Run| run.ranks.iter().any(|one| fresh.contains(&one.node));
                self.excuse(|_, run| !run.started && on_fresh(run));
            }
            Fact::NodeBack(node) => {
                // The new node manager may not know which runs were launched here.
                if self.without_manager.remove(node) {
                    self.fresh.insert(*node);
                }
            }
            Fact::Acknowledged(_)
            | Fact::Terminated(_)
            | Fact::Compared(_)
            | Fact::ManagerUp
            | Fact::Over => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ended, ending, key, placed, submitted};
    use super::*;
    use storm_mm::job::EndCause;

    const PES: u32 = 4;

    /// Job 1 with two ranks on each of the first two nodes; `requeue` is true if it may be queued
    /// again.
    fn running(requeue: bool) -> Untouched {
        let mut invariant = Untouched::default();
        let first = submitted("all", requeue);
        invariant.note(&Fact::Journal(JobId(1), &first)).unwrap();
        invariant.note(&Fact::Journal(JobId(1), &placed(1, 0, &[1, 2]))).unwrap();
        invariant
    }

    fn lost() -> JobEventKind {
        ending(EndCause::NodeLost { node: "n1".to_owned() })
    }

    /// The verdict when job 1 is lost after an edit.
    fn lost_after(edit: impl FnOnce(&mut Configuration)) -> Result<(), Broken> {
        let mut invariant = running(false);
        let mut configuration = Configuration::even(3, PES, 1);
        edit(&mut configuration);
        invariant.note(&Fact::Configured(&configuration)).unwrap();
        invariant.note(&Fact::Journal(JobId(1), &lost()))
    }

    #[test]
    fn the_end_of_a_job_on_nodes_that_stay_is_detected() {
        let found = lost_after(|edited| edited.nodes.reverse()).unwrap_err();
        assert!(found.0.contains("job 1 has all its nodes, and it is ended: node n1"), "{found}");
        lost_after(|edited| edited.nodes.truncate(2)).unwrap_err();
        lost_after(|edited| edited.nodes[0].pes = 1).unwrap_err();
        lost_after(|edited| edited.partitions[0].name = "other".to_owned()).unwrap_err();
    }

    #[test]
    fn a_job_that_loses_a_node_may_end() {
        lost_after(|edited| edited.nodes.truncate(1)).unwrap();
        let mut invariant = running(false);
        let mut edited = Configuration::even(3, PES, 1);
        edited.nodes.remove(0);
        invariant.note(&Fact::Configured(&edited)).unwrap();
        // The node's return has no information about its ranks.
        invariant.note(&Fact::Configured(&Configuration::even(3, PES, 1))).unwrap();
        invariant.note(&Fact::Journal(JobId(1), &lost())).unwrap();
    }

    #[test]
    fn acts_of_nodes_on_such_a_job_are_found() {
        let configuration = Configuration::even(3, PES, 1);
        for act in [HostAct::Destroy(key(1, 1)), HostAct::LeaseOver(key(1, 1)), HostAct::Left] {
            let mut invariant = running(false);
            invariant.note(&Fact::Host(NodeId(1), &act)).unwrap();
            invariant.note(&Fact::Configured(&configuration)).unwrap();
            invariant.note(&Fact::Host(NodeId(3), &HostAct::Left)).unwrap();
            invariant.note(&Fact::Host(NodeId(1), &act)).unwrap_err();
        }
    }

    #[test]
    fn faults_excuse_and_ends_do_not() {
        let mut invariant = running(false);
        invariant.note(&Fact::Configured(&Configuration::even(3, PES, 1))).unwrap();
        invariant.note(&Fact::NodeDown(NodeId(2))).unwrap();
        invariant.note(&Fact::Journal(JobId(1), &lost())).unwrap();
        let mut invariant = running(false);
        invariant.note(&Fact::Configured(&Configuration::even(3, PES, 1))).unwrap();
        invariant.note(&Fact::Journal(JobId(1), &ended())).unwrap();
    }

    #[test]
    fn the_end_of_a_node_manager_is_no_reason_once_all_ranks_execute() {
        let breakdown = storm_mm::api::LaunchBreakdown::default();
        for started in [false, true] {
            let mut invariant = running(false);
            if started {
                let kind = JobEventKind::Started { breakdown };
                invariant.note(&Fact::Journal(JobId(1), &kind)).unwrap();
            }
            invariant.note(&Fact::NodeManagerDown(NodeId(2))).unwrap();
            assert_eq!(invariant.note(&Fact::Journal(JobId(1), &lost())).is_err(), started);
        }
    }

    #[test]
    fn a_late_node_manager_excuses_jobs_to_be_queued_again_and_the_end_of_its_keeper_all() {
        let breakdown = storm_mm::api::LaunchBreakdown::default();
        for (requeue, ended, excused) in
            [(false, false, false), (true, false, true), (false, true, true), (true, true, true)]
        {
            let mut invariant = running(requeue);
            let started = JobEventKind::Started { breakdown };
            invariant.note(&Fact::Journal(JobId(1), &started)).unwrap();
            invariant.note(&Fact::NodeManagerDown(NodeId(2))).unwrap();
            let reason = match ended {
                true => Fact::Host(NodeId(2), &HostAct::KeeperEnded),
                false => Fact::NodeManagerLate(NodeId(2)),
            };
            invariant.note(&reason).unwrap();
            let lost = invariant.note(&Fact::Journal(JobId(1), &lost()));
            assert_eq!(lost.is_ok(), excused, "{requeue} {ended}");
        }
    }

    #[test]
    fn a_failure_instead_of_a_requeue_after_an_edit_is_detected() {
        for requeue in [false, true] {
            let mut invariant = running(requeue);
            invariant.note(&Fact::Configured(&Configuration::even(1, PES, 1))).unwrap();
            let mut failed = ended();
            if let JobEventKind::Ended { outcome, .. } = &mut failed {
                outcome.state = JobState::Failed;
            }
            let found = invariant.note(&Fact::Journal(JobId(1), &failed));
            assert_eq!(found.is_err(), requeue);
        }
    }
}
