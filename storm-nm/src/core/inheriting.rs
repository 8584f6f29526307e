//! Jobs of a former node manager of this node. This module brings the jobs to the former's state.
//! The jobs then wait for the Machine Manager's consent, like jobs of a node that was cut off
//! (`docs/decisions/0130-a-node-managers-jobs-outlive-it.md`).

use super::job::LocalJob;
use super::{Action, NodeCore};
use crate::{HostEvent, Inherited, PmiStep};
use std::collections::BTreeMap;
use storm_rm::Rank;

impl NodeCore {
    /// Takes over a job. Returns the PMI answer to each rank's last request, if there was one. A
    /// rank that did not get its answer is to get it now.
    pub(crate) fn inherit(&mut self, inherited: &Inherited) -> BTreeMap<Rank, String> {
        let key = inherited.task.key();
        let mut job = LocalJob::new(inherited.task.clone());
        job.launching(inherited.stopped);
        (job.orphaned, job.withholds) = (true, true);
        self.jobs.insert(key, job);
        let mut answers = BTreeMap::new();
        for step in &inherited.pmi {
            let mut actions = Vec::new();
            match step.clone() {
                PmiStep::Line { rank, line } => {
                    answers.remove(&rank);
                    self.host_event(HostEvent::Pmi { job: key, rank, line }, &mut actions);
                }
                PmiStep::FenceDone { sequence, puts } => {
                    self.fence_done(key.step, sequence, puts, &mut actions);
                }
            }
            for action in actions {
                if let Action::PmiReply { rank, line, .. } = action {
                    answers.insert(rank, line);
                }
            }
        }
        answers
    }
}
