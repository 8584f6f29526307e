//! A gang starts whole or not at all: a job counts as started, or as completed,
//! only when every one of its nodes was told to start its ranks; and when nothing
//! more happens, no run was started on some of its living nodes only unless it
//! was ended for it.

use super::{Broken, Invariant, broken};
use crate::Fact;
use std::collections::BTreeMap;
use storm_mm::api::JobState;
use storm_mm::job::JobEventKind;
use storm_nm::modelled::HostAct;
use storm_primitives::{NodeId, NodeSet};
use storm_rm::JobId;

/// See the module.
#[derive(Debug, Default)]
pub struct GangStart {
    runs: BTreeMap<JobId, Run>,
}

/// The latest run of a job.
#[derive(Debug)]
struct Run {
    incarnation: storm_rm::JobIncarnation,
    nodes: NodeSet,
    launched: NodeSet,
}

impl GangStart {
    fn launched(&mut self, node: NodeId, job: storm_nm::JobKey) -> Result<(), Broken> {
        match self.runs.get_mut(&job.job) {
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
            Some(_) | None => broken(format!("{node} starts ranks of {job}, which is not placed")),
        }
    }

    fn whole(&self, job: JobId, what: &str) -> Result<(), Broken> {
        let Some(run) = self.runs.get(&job) else {
            return broken(format!("job {job} {what} and was never placed"));
        };
        let missing = run.nodes.difference(&run.launched);
        if missing.is_empty() {
            return Ok(());
        }
        broken(format!("job {job} {what} and {missing} never started its ranks"))
    }
}

impl Invariant for GangStart {
    fn name(&self) -> &'static str {
        "a gang starts whole or not at all"
    }

    fn note(&mut self, fact: &Fact<'_>) -> Result<(), Broken> {
        match fact {
            Fact::Journal(job, JobEventKind::Placed { incarnation, ranks, .. }) => {
                let nodes = ranks.iter().map(|share| share.node).collect();
                let run = Run { incarnation: *incarnation, nodes, launched: NodeSet::new() };
                self.runs.insert(*job, run);
                Ok(())
            }
            Fact::Host(node, HostAct::Launch { job, .. }) => self.launched(*node, *job),
            Fact::Journal(job, JobEventKind::Started { .. }) => self.whole(*job, "has started"),
            Fact::Journal(job, JobEventKind::Ended { outcome, .. }) => {
                let whole = match outcome.state {
                    JobState::Completed => self.whole(*job, "has completed"),
                    _ => Ok(()),
                };
                self.runs.remove(job);
                whole
            }
            Fact::Over => match self.runs.iter().find(|(_, run)| !run.launched.is_empty()) {
                Some((job, _)) => broken(format!("job {job} was started and never ended")),
                None => Ok(()),
            },
            Fact::Journal(..)
            | Fact::Acknowledged(_)
            | Fact::Host(..)
            | Fact::Terminated(_)
            | Fact::Compared(_)
            | Fact::NodeDown(_)
            | Fact::NodeUp(_)
            | Fact::ManagerDown
            | Fact::ManagerUp => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ended, launch, placed};
    use super::*;

    fn after(launches: &[u32]) -> GangStart {
        let mut invariant = GangStart::default();
        invariant.note(&Fact::Journal(JobId(1), &placed(7, 0, &[1, 2]))).unwrap();
        for node in launches {
            invariant.note(&Fact::Host(NodeId(*node), &launch(1, 7))).unwrap();
        }
        invariant
    }

    #[test]
    fn a_job_that_completes_on_half_of_its_nodes_is_found() {
        let found = after(&[1]).note(&Fact::Journal(JobId(1), &ended())).unwrap_err();
        assert_eq!(found.0, "job 1 has completed and n2 never started its ranks");
        after(&[1, 2]).note(&Fact::Journal(JobId(1), &ended())).unwrap();
    }

    #[test]
    fn ranks_where_they_do_not_belong_are_found() {
        assert!(after(&[]).note(&Fact::Host(NodeId(3), &launch(1, 7))).is_err());
        assert!(after(&[]).note(&Fact::Host(NodeId(1), &launch(2, 8))).is_err());
        assert!(after(&[1]).note(&Fact::Host(NodeId(1), &launch(1, 7))).is_err());
    }

    #[test]
    fn a_gang_that_is_left_over_is_found() {
        assert!(after(&[1]).note(&Fact::Over).is_err());
        after(&[]).note(&Fact::Over).unwrap();
    }
}
