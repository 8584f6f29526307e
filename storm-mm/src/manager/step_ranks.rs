//! The ranks of further steps at work: their output, their PMI barriers, and their classes.

use super::live::Piece;
use super::reports::too_many_pairs;
use super::steps::step_ref;
use super::{Core, Durable, Notice};
use crate::api::Reply;
use crate::job::EndCause;
use storm_primitives::{Instant, NodeId, NodeSet};
use storm_rm::message::{Command, NodeRanks};
use storm_rm::{JobId, Rank, RankClass, StepId, StepRef};

impl Core {
    /// Output of a step's rank has arrived, of which a part may have arrived before.
    pub(super) fn step_output(&mut self, (job, number): (JobId, u32), piece: Piece) {
        let Some((_, known)) = self.step_record((job, number)) else { return };
        let (ask, run) = (known.ask, known.run);
        for Piece { rank, stream, offset, data } in self.live.step_output((job, number), piece) {
            let reply = Reply::Output { job, run, rank, stream, offset, data };
            self.effects.durable.push(Durable::NotifyStep(job, ask, Notice::Output(reply)));
        }
    }

    /// A node is in a PMI barrier of a further step.
    pub(super) fn step_fence(
        &mut self,
        now: Instant,
        step: StepRef,
        node: NodeId,
        (sequence, puts): (u64, Vec<(String, String)>),
    ) {
        let StepRef { job, step: StepId::Number(number) } = step else { return };
        let Some(live) = self.live.step(job, number).filter(|live| live.has_part_on(node)) else {
            return;
        };
        if let Some(puts) = live.fence_outcome(sequence) {
            let done = Command::FenceDone { step, sequence, puts };
            return self.effects.durable.push(Durable::Command(NodeSet::single(node), done));
        }
        let nodes = live.nodes().clone();
        let complete = self.live.step_fence_arrived((job, number), sequence, (node, puts));
        let Some(complete) = complete else {
            return self.end_step_if_in_vain(now, (job, number));
        };
        if let Some(reason) = too_many_pairs(&complete, self.config.heartbeat_bytes) {
            let cause = EndCause::LaunchFailed { reason, exit_code: 1 };
            self.end_step(now, (job, number), cause);
            return self.finish_if_over(now, job);
        }
        let done = Command::FenceDone { step, sequence, puts: complete };
        self.effects.durable.push(Durable::Command(nodes, done));
    }

    /// A rank of a step has ended without having finalized.
    pub(super) fn step_rank_left(
        &mut self,
        now: Instant,
        (job, number): (JobId, u32),
        whose: (NodeId, Rank),
    ) {
        self.live.step_rank_left((job, number), whose);
        self.end_step_if_in_vain(now, (job, number));
    }

    /// Ends a step whose ranks wait in a barrier that can never open.
    pub(super) fn end_step_if_in_vain(&mut self, now: Instant, (job, number): (JobId, u32)) {
        let Some(live) = self.live.step(job, number) else { return };
        let Some((_, known)) = self.step_record((job, number)) else { return };
        let share_of = |node| known.ranks.iter().find(|share| share.node == node);
        let first_of = |node| share_of(node).map(|share: &NodeRanks| share.first);
        if let Some(rank) = live.missing(first_of) {
            let reason = format!("rank {rank} has ended and others wait for it in a PMI barrier");
            tracing::debug!(step = %step_ref(job, number), reason, "a step waits in vain");
            self.end_step(now, (job, number), EndCause::Unserviceable { reason });
        }
    }

    /// A node reports the classes of its ranks of a step.
    pub(super) fn step_classes_told(
        &mut self,
        now: Instant,
        (job, number): (JobId, u32),
        node: NodeId,
        ranks: Vec<RankClass>,
    ) {
        let Some((_, known)) = self.step_record((job, number)) else { return };
        let share = known.ranks.iter().find(|share| share.node == node).cloned();
        let own = |told: &RankClass| share.as_ref().is_some_and(|share| share.has(told.rank));
        self.live.step_classes_told(now, (job, number), ranks.into_iter().filter(own));
    }
}
