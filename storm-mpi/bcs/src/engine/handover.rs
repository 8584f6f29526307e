//! The state of one job between two slices, which another engine of the same node can continue.

use super::{Engine, Job};
use crate::buffer_receiver::SavedReceives;
use crate::buffer_sender::SavedSends;
use crate::collective_helper::SavedCollectives;
use crate::saved::{SavedOutcome, SavedPost, SavedRequest, Unsaved};
use crate::{JobKey, Phase};
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use storm_primitives::{GlobalMemory, NodeId};

/// A job's part of an engine.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct JobState {
    placement: Vec<NodeId>,
    next_request: u64,
    posted: Vec<(SavedRequest, SavedPost)>,
    /// Outcomes that ranks have not received.
    finished: Vec<(SavedRequest, SavedOutcome)>,
    sends: SavedSends,
    receives: SavedReceives,
    collectives: SavedCollectives,
}

impl Engine {
    /// The state of a job; `None` inside a slice, and if the job's communication ends.
    pub(crate) fn save(&self, key: JobKey) -> Option<JobState> {
        let job = self.jobs.get(&key).filter(|job| job.over.is_none())?;
        if !self.is_between_slices() || self.doomed.iter().any(|(doomed, _)| *doomed == key) {
            return None;
        }
        let posted = self.posted.iter().filter(|(member, _, _)| member.job == key);
        let posted = posted.map(|(who, id, post)| (SavedRequest::of(*who, *id), post.into()));
        let finished = self.completions.iter().chain(&self.finished);
        let finished = finished.filter(|done| done.member.job == key).map(|done| {
            Some((SavedRequest::of(done.member, done.request), SavedOutcome::of(done)?))
        });
        Some(JobState {
            placement: job.placement.to_vec(),
            next_request: self.next_request,
            posted: posted.collect(),
            finished: finished.collect::<Option<_>>()?,
            sends: self.sender.save(key),
            receives: self.receiver.save(key),
            collectives: self.collectives.save(key)?,
        })
    }

    /// Continues a job with the state that another engine of this node saved, before this engine
    /// has obeyed a strobe. `memory` belongs to a new life of the node, and gets the node's part of
    /// the slots that the job's collectives hold.
    pub(crate) fn restore(
        &mut self,
        key: JobKey,
        state: JobState,
        memory: &GlobalMemory,
    ) -> Result<(), Unsaved> {
        let placement: Rc<[NodeId]> = state.placement.into();
        let is_here = placement.contains(&self.here);
        if !is_here || self.jobs.contains_key(&key) {
            return Err(Unsaved);
        }
        let mut posted = Vec::with_capacity(state.posted.len());
        for (request, post) in state.posted {
            let (member, request) = request.in_job(key);
            posted.push((member, request, post.try_into()?));
        }
        let finished = state.finished.into_iter();
        let finished: Vec<_> = finished
            .map(|(request, outcome)| outcome.of_job(key, request))
            .collect::<Result<_, _>>()?;
        let place = (self.here, &*placement);
        let collectives = state.collectives;
        let restored = self
            .receiver
            .restore(key, state.receives)
            .and_then(|()| self.collectives.restore(key, collectives, place, (&self.plan, memory)));
        if let Err(unsaved) = restored {
            self.receiver.forget(key);
            return Err(unsaved);
        }
        self.sender.restore(key, state.sends);
        self.posted.extend(posted);
        self.finished.extend(finished);
        self.next_request = self.next_request.max(state.next_request);
        self.partners = self.partners.union(&placement.iter().copied().collect());
        self.jobs.insert(key, Job { placement, over: None });
        Ok(())
    }

    /// Whether this node has done everything that a slice may have asked of it, and expects
    /// nothing.
    fn is_between_slices(&self) -> bool {
        let ends = match self.now.map(|now| now.phase) {
            None
            | Some(Phase::DescriptorExchange | Phase::BroadcastAndBarrier | Phase::SliceEnd) => {
                true
            }
            Some(Phase::MessageScheduling | Phase::PointToPoint | Phase::Reduce) => false,
        };
        let over = |one: &super::Outstanding| one.precedes.is_some();
        ends && self.outstanding.values().all(over)
            && self.asked.is_empty()
            && self.here_grants.is_empty()
            && !self.receiver.expects()
    }

    /// Whether this node is not done with a microphase, and may wait for other nodes.
    pub(crate) fn is_in_microphase(&self) -> bool {
        self.now.is_some() && self.phase_done().is_none()
    }

    /// Whether the operation is a transfer whose effects do not wait for its outcome.
    pub(crate) fn is_not_awaited(&self, action: super::ActionId) -> bool {
        self.outstanding.get(&action).is_some_and(|one| one.precedes.is_some())
    }
}
