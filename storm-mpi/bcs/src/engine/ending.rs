//! How a job's communication ends: by the death of a rank or a node, or because it is over.

use super::Engine;
use crate::block::{HEAD_BYTES, Notice};
use crate::{BcsError, Completion, JobKey};
use storm_primitives::NodeSet;

/// What becomes of a job when the next slice begins. Not in the middle of one: others may wait for this
/// node's part of a reduction, and they hear of it in that slice, all in the same microphase.
#[derive(Debug)]
pub(super) enum Doom {
    Over(BcsError),
    Closed,
}

impl Engine {
    /// Ends jobs here and tells their other nodes, which hear of it in this slice: no more of them than
    /// one block has room for.
    pub(super) fn carry_out_dooms(&mut self) {
        let most = (self.plan.config.descriptor_bytes - HEAD_BYTES) / Notice::JOB_OVER_BYTES;
        for _ in 0..most {
            let Some((key, doom)) = self.doomed.pop_front() else { return };
            let Some(job) = self.jobs.get(&key) else { continue };
            match doom {
                Doom::Closed => {
                    self.fail(key, &BcsError::RankGone);
                    self.jobs.remove(&key);
                }
                Doom::Over(error) if job.over.is_none() => {
                    let nodes: NodeSet = job.placement.iter().copied().collect();
                    for node in nodes.iter().filter(|node| *node != self.here) {
                        self.sender.say_over(key, node);
                    }
                    self.fail(key, &error);
                }
                Doom::Over(_) => {}
            }
        }
    }

    pub(super) fn doom(&mut self, job: JobKey, error: &BcsError) {
        self.doomed.push_back((job, Doom::Over(error.clone())));
    }

    pub(super) fn doom_all(&mut self, error: &BcsError) {
        for job in self.jobs.keys().copied().collect::<Vec<_>>() {
            self.doom(job, error);
        }
    }

    /// Ends the communication of a job here: whoever waits hears why.
    pub(super) fn fail(&mut self, job: JobKey, error: &BcsError) {
        let Some(known) = self.jobs.get_mut(&job) else { return };
        if known.over.is_some() {
            return;
        }
        known.over = Some(error.clone());
        let mut waiting = self.sender.forget(job);
        waiting.extend(self.receiver.forget(job));
        waiting.extend(self.collectives.forget(job));
        let failed =
            |(member, request)| Completion { member, request, outcome: Err(error.clone()) };
        self.finished.extend(waiting.into_iter().map(failed));
        let posted = self.posted.extract_if(.., |(member, _, _)| member.job == job);
        self.finished.extend(posted.map(|(member, request, _)| failed((member, request))));
    }
}
