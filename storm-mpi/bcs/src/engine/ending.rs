//! The end of a job's communication, because a rank or a node died, or because the job is over.

use super::Engine;
use crate::block::{HEAD_BYTES, Notice};
use crate::{BcsError, Completion, JobKey, Post};
use std::collections::BTreeSet;
use storm_primitives::NodeSet;

/// A job that ends when the next slice begins. Its other nodes learn of it in that slice, all in
/// the same microphase. Until then, no rank here waits in its reductions any more, because the
/// awaited ranks may have left.
#[derive(Debug)]
pub(super) enum Doom {
    Over(BcsError),
    Closed,
}

impl Engine {
    /// Ends jobs here and notifies their other nodes, which learn of it in this slice. The room in
    /// a block limits the number of jobs.
    pub(super) fn carry_out_dooms(&mut self) {
        let most = (self.plan.config().descriptor_bytes - HEAD_BYTES) / Notice::JOB_OVER_BYTES;
        for _ in 0..most {
            let Some((key, doom)) = self.doomed.pop_front() else { return };
            let Some(job) = self.jobs.get(&key) else { continue };
            let is_new = job.over.is_none();
            match doom {
                Doom::Closed => {
                    // A rank may have ended in the middle of a collective with others.
                    if is_new && self.is_in_collective(key) {
                        self.say_over(key);
                    }
                    self.fail(key, &BcsError::RankGone);
                    self.jobs.remove(&key);
                }
                Doom::Over(error) if is_new => {
                    self.say_over(key);
                    self.fail(key, &error);
                }
                Doom::Over(_) => {}
            }
        }
    }

    /// Notifies the other nodes of a job that it is over.
    fn say_over(&mut self, key: JobKey) {
        let Some(job) = self.jobs.get(&key) else { return };
        let nodes: NodeSet = job.placement.iter().copied().collect();
        for node in nodes.iter().filter(|node| *node != self.here) {
            self.sender.say_over(key, node);
        }
    }

    /// Whether a rank of a job here is in a collective, or will be.
    fn is_in_collective(&self, job: JobKey) -> bool {
        let calls = |post: &Post| matches!(post, Post::Collective { .. });
        self.collectives.is_busy(job)
            || self.posted.iter().any(|(member, _, post)| member.job == job && calls(post))
    }

    /// The jobs that end when the next slice begins.
    pub(super) fn doomed_jobs(&self) -> BTreeSet<JobKey> {
        self.doomed.iter().map(|(job, _)| *job).collect()
    }

    pub(super) fn doom(&mut self, job: JobKey, error: &BcsError) {
        self.doomed.push_back((job, Doom::Over(error.clone())));
    }

    pub(super) fn doom_all(&mut self, error: &BcsError) {
        for job in self.jobs.keys().copied().collect::<Vec<_>>() {
            self.doom(job, error);
        }
    }

    /// Ends the communication of a job here. All waiting ranks get the error.
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
