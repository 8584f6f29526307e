//! A gang starts completely or not at all: all nodes of a run start their ranks, each once, or no
//! node does. Only some nodes may start if a node died or was hit by a fault, a node refused, or
//! the run was ended before all had begun. An end because the run did not start is no excuse.
//!
//! The check runs when the run counts as started, is found terminated, is ended or queued again,
//! and when nothing more happens. A run that counts as started or completed must be complete,
//! without any excuse.

use super::{Broken, Invariant, broken};
use crate::Fact;
use std::collections::BTreeMap;
use storm_mm::api::JobState;
use storm_mm::job::{EndCause, JobEventKind};
use storm_nm::JobKey;
use storm_nm::modelled::HostAct;
use storm_primitives::sim::NodeFault;
use storm_primitives::{NodeId, NodeSet};
use storm_rm::message::NodeRanks;
use storm_rm::{JobId, JobIncarnation};

/// See the module.
#[derive(Debug, Default)]
pub struct GangStart {
    runs: BTreeMap<JobId, Run>,
    /// By job, the latest run that the manager has ended or withdrawn.
    over: BTreeMap<JobId, JobIncarnation>,
    /// Nodes that a fault has hit since the manager began, even if the fault has ended.
    disturbed: NodeSet,
}

/// The latest run of a job.
#[derive(Debug)]
struct Run {
    incarnation: JobIncarnation,
    nodes: NodeSet,
    launched: NodeSet,
    /// The run has an excuse for starting on some nodes only.
    excused: bool,
}

impl Run {
    fn whole(&self, job: JobId, what: &str) -> Result<(), Broken> {
        let missing = self.nodes.difference(&self.launched);
        if missing.is_empty() {
            return Ok(());
        }
        broken(format!("job {job} {what} and {missing} never started its ranks"))
    }

    fn whole_or_none(&self, job: JobId, what: &str) -> Result<(), Broken> {
        if self.excused || self.launched.is_empty() { Ok(()) } else { self.whole(job, what) }
    }
}

impl GangStart {
    fn placed(&mut self, job: JobId, incarnation: JobIncarnation, ranks: &[NodeRanks]) {
        let nodes: NodeSet = ranks.iter().map(|share| share.node).collect();
        let excused = !nodes.intersection(&self.disturbed).is_empty();
        let run = Run { incarnation, nodes, launched: NodeSet::new(), excused };
        self.runs.insert(job, run);
    }

    fn launched(&mut self, node: NodeId, job: JobKey) -> Result<(), Broken> {
        // A node that was frozen or cut off still obeys earlier commands. When it finds that it is
        // cut off for good, it ends all its jobs.
        let may_be_late = self.is_over(job) && self.disturbed.contains(node);
        match self.runs.get_mut(&job.step.job) {
            Some(run) if run.incarnation == job.incarnation => {
                if !run.nodes.contains(node) {
                    return broken(format!(
                        "{node} starts ranks of {job}, which is not placed there"
                    ));
                }
                if !run.launched.insert(node) {
                    return broken(format!("{node} starts the ranks of {job} twice"));
                }
                Ok(())
            }
            // An older run: its end is on its way to the node.
            Some(run) if run.incarnation > job.incarnation => Ok(()),
            None if may_be_late => Ok(()),
            Some(_) | None => broken(format!("{node} starts ranks of {job}, which is not placed")),
        }
    }

    fn is_over(&self, job: JobKey) -> bool {
        self.over.get(&job.step.job).is_some_and(|last| job.incarnation <= *last)
    }

    /// Takes away the run of a job that has ended.
    fn end(&mut self, job: JobId) -> Option<Run> {
        let run = self.runs.remove(&job)?;
        self.over.insert(job, run.incarnation);
        Some(run)
    }

    /// Something of a job became durable.
    fn journal(&mut self, job: JobId, kind: &JobEventKind) -> Result<(), Broken> {
        match kind {
            JobEventKind::Submitted { .. } => Ok(()),
            JobEventKind::Placed { incarnation, ranks, .. } => {
                self.placed(job, *incarnation, ranks);
                Ok(())
            }
            JobEventKind::Started { .. } => match self.runs.get(&job) {
                Some(run) => run.whole(job, "has started"),
                None => broken(format!("job {job} has started and was never placed")),
            },
            JobEventKind::Ending { cause } => self.ending(job, cause),
            JobEventKind::Ended { outcome, .. } => match (self.end(job), outcome.state) {
                (Some(run), JobState::Completed) => run.whole(job, "has completed"),
                (Some(run), _) => run.whole_or_none(job, "has ended"),
                (None, JobState::Completed) => {
                    broken(format!("job {job} has completed and was never placed"))
                }
                (None, _) => Ok(()),
            },
            JobEventKind::Requeued { .. } => match self.end(job) {
                Some(run) => run.whole_or_none(job, "waits again"),
                None => Ok(()),
            },
            JobEventKind::Ran { .. }
            | JobEventKind::ArraySubmitted { .. }
            | JobEventKind::Held { .. }
            | JobEventKind::Released { .. }
            | JobEventKind::DependencyEnded { .. }
            | JobEventKind::DependencyNoted { .. }
            | JobEventKind::Moved { .. }
            | JobEventKind::Suspended { .. }
            | JobEventKind::Resumed { .. }
            | JobEventKind::OnElements { .. }
            | JobEventKind::PartOver { .. }
            | JobEventKind::FirstOver { .. }
            | JobEventKind::SignalledEarly { .. }
            | JobEventKind::StoppedBy { .. }
            | JobEventKind::ContinuedBy { .. }
            | JobEventKind::Changed { .. }
            | JobEventKind::Step { .. }
            | JobEventKind::UnderPolicy { .. }
            | JobEventKind::InReservation { .. } => Ok(()),
        }
    }

    /// An end because the run did not start does not excuse a partial start.
    fn ending(&mut self, job: JobId, cause: &EndCause) -> Result<(), Broken> {
        let Some(run) = self.runs.get_mut(&job) else { return Ok(()) };
        if matches!(cause, EndCause::LaunchFailed { .. }) {
            return run.whole_or_none(job, "is ended");
        }
        run.excused = true;
        Ok(())
    }

    /// A node may have failed to start its ranks, with an excuse.
    fn disturb(&mut self, node: NodeId) {
        self.disturbed.insert(node);
        let concerned = self.runs.values_mut().filter(|run| run.nodes.contains(node));
        concerned.for_each(|run| run.excused = true);
    }

    fn terminated(&self, incarnation: JobIncarnation) -> Result<(), Broken> {
        let ended = self.runs.iter().find(|(_, run)| run.incarnation == incarnation);
        ended.map_or(Ok(()), |(job, run)| run.whole_or_none(*job, "is over everywhere"))
    }
}

impl Invariant for GangStart {
    fn name(&self) -> &'static str {
        "a gang starts whole or not at all"
    }

    fn note(&mut self, fact: &Fact<'_>) -> Result<(), Broken> {
        match fact {
            Fact::Journal(job, kind) => return self.journal(*job, kind),
            Fact::Host(node, HostAct::Launch { job, .. }) => return self.launched(*node, *job),
            Fact::Host(_, HostAct::Refuse(key)) => {
                let run = self.runs.get_mut(&key.step.job);
                let run = run.filter(|run| run.incarnation == key.incarnation);
                if let Some(run) = run {
                    run.excused = true;
                }
            }
            Fact::Terminated(incarnation) => return self.terminated(*incarnation),
            Fact::NodeDown(node) | Fact::NodeManagerDown(node) => self.disturb(*node),
            Fact::Inflicted(node, fault) => match fault {
                NodeFault::Thaw | NodeFault::Mend | NodeFault::Slow { percent: 100 } => {}
                NodeFault::Kill
                | NodeFault::Freeze
                | NodeFault::Delay(_)
                | NodeFault::Slow { .. }
                | NodeFault::Lossy { .. }
                | NodeFault::Cut => self.disturb(*node),
            },
            Fact::ManagerDown => self.runs.values_mut().for_each(|run| run.excused = true),
            // All nodes start afresh. Faults of links and processors stay.
            Fact::ManagerUp | Fact::NodeUp(_) | Fact::Configured(_) => {}
            Fact::Over => {
                for (job, run) in &self.runs {
                    run.whole_or_none(*job, "is left over")?;
                    if !run.launched.is_empty() {
                        return broken(format!("job {job} was started and never ended"));
                    }
                }
            }
            Fact::NodeManagerLate(_)
            | Fact::Acknowledged(_)
            | Fact::NodeBack(_)
            | Fact::Host(..)
            | Fact::Compared(_) => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ended, ending, key, launch, placed};
    use super::*;

    fn after(launches: &[u32]) -> GangStart {
        let mut invariant = GangStart::default();
        invariant.note(&Fact::Journal(JobId(1), &placed(7, 0, &[1, 2]))).unwrap();
        for node in launches {
            invariant.note(&Fact::Host(NodeId(*node), &launch(1, 7))).unwrap();
        }
        invariant
    }

    fn did_not_start() -> JobEventKind {
        ending(EndCause::LaunchFailed { reason: "too late".to_owned(), exit_code: 126 })
    }

    #[test]
    fn completion_on_half_of_the_nodes_is_detected() {
        let found = after(&[1]).note(&Fact::Journal(JobId(1), &ended())).unwrap_err();
        assert_eq!(found.0, "job 1 has completed and n2 never started its ranks");
        after(&[1, 2]).note(&Fact::Journal(JobId(1), &ended())).unwrap();
    }

    #[test]
    fn ranks_on_a_wrong_node_are_detected() {
        assert!(after(&[]).note(&Fact::Host(NodeId(3), &launch(1, 7))).is_err());
        assert!(after(&[]).note(&Fact::Host(NodeId(1), &launch(2, 8))).is_err());
        assert!(after(&[1]).note(&Fact::Host(NodeId(1), &launch(1, 7))).is_err());
    }

    #[test]
    fn a_node_that_was_frozen_may_take_up_a_run_that_is_over() {
        for is_frozen in [true, false] {
            let mut invariant = after(&[]);
            if is_frozen {
                invariant.note(&Fact::Inflicted(NodeId(2), NodeFault::Freeze)).unwrap();
            }
            let cause = EndCause::NodeLost { node: "n2".to_owned() };
            invariant.note(&Fact::Journal(JobId(1), &JobEventKind::Requeued { cause })).unwrap();
            let late = invariant.note(&Fact::Host(NodeId(2), &launch(1, 7)));
            assert_eq!(late.is_ok(), is_frozen);
            // Never placed.
            assert!(invariant.note(&Fact::Host(NodeId(2), &launch(1, 8))).is_err());
        }
    }

    #[test]
    fn half_a_gang_is_detected_at_every_check() {
        let (end, terminated) = (did_not_start(), Fact::Terminated(JobIncarnation(7)));
        for fact in [Fact::Journal(JobId(1), &end), terminated, Fact::Over] {
            let found = after(&[1]).note(&fact).unwrap_err();
            assert!(found.0.ends_with("n2 never started its ranks"), "{found}");
            if !matches!(fact, Fact::Over) {
                after(&[1, 2]).note(&fact).unwrap();
            }
            after(&[]).note(&fact).unwrap();
        }
    }

    #[test]
    fn half_a_gang_with_an_excuse_is_accepted() {
        let refusal = HostAct::Refuse(key(1, 7));
        let lost = ending(EndCause::NodeLost { node: "n3".to_owned() });
        let reasons = [
            Fact::NodeDown(NodeId(2)),
            Fact::Host(NodeId(2), &refusal),
            Fact::Journal(JobId(1), &lost),
            Fact::ManagerDown,
        ];
        for reason in reasons {
            let mut invariant = after(&[1]);
            invariant.note(&reason).unwrap();
            invariant.note(&Fact::Journal(JobId(1), &did_not_start())).unwrap();
        }
        let mut elsewhere = after(&[1]);
        elsewhere.note(&Fact::NodeDown(NodeId(5))).unwrap();
        assert!(elsewhere.note(&Fact::Journal(JobId(1), &did_not_start())).is_err());
    }

    #[test]
    fn a_gang_left_over_at_the_end_is_detected() {
        assert!(after(&[1, 2]).note(&Fact::Over).is_err());
        after(&[]).note(&Fact::Over).unwrap();
    }
}
