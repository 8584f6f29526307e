//! The microphases of one node's engine.

use super::{Begun, Engine};
use crate::block::{self, Grant, HEAD_BYTES, Notice, Unreadable};
use crate::microphase::Microphase;
use crate::{BcsError, Completion, Member, Post, RequestId, dma_helper, reduce_helper};
use storm_mpi::Rank;
use storm_primitives::NodeId;

impl Engine {
    /// DEM: the descriptor exchange.
    pub(super) fn exchange_descriptors(&mut self, now: &mut Microphase<'_>) {
        self.carry_out_dooms();
        self.edge();
        for (member, request, post) in std::mem::take(&mut self.posted) {
            self.take_post(member, request, post, now);
        }
        for (to, notice) in self.collectives.tell_ready(now.here) {
            self.sender.say(notice, to);
        }
        self.begun = Begun::default();
        for (to, block) in self.sender.blocks(now.slice, self.plan.config().descriptor_bytes) {
            self.begun.told = true;
            now.put_block(to, now.plan.descriptors(now.here), block);
        }
    }

    pub(super) fn take_post(
        &mut self,
        member: Member,
        request: RequestId,
        post: Post,
        now: &mut Microphase<'_>,
    ) {
        // The post was checked; the job may have ended since then.
        let Some(job) = self.jobs.get(&member.job) else { return };
        if let Some(error) = &job.over {
            now.step.done.push(Completion { member, request, outcome: Err(error.clone()) });
            return;
        }
        match post {
            Post::Send { address, data } => match job.placement.get(address.to.index()) {
                Some(to) => self.sender.add(member, request, address, data, *to),
                None => {
                    let error = BcsError::NoSuchRank { job: member.job, rank: address.to };
                    now.step.done.push(Completion { member, request, outcome: Err(error) });
                }
            },
            Post::Recv { pattern, bytes } => {
                self.receiver.post((now.slice, now.here), member, request, pattern, bytes);
            }
            Post::Collective { group, call } => {
                let place = (now.here, &*job.placement);
                let (who, config) = ((member, request), now.plan.config());
                if let Err(error) = self.collectives.post(who, &group, call, place, config) {
                    if error == BcsError::CollectiveMismatch {
                        // Members here disagree on the list of members. No rank will call the
                        // collective for which the others wait.
                        now.step.failed.push((member.job, error.clone()));
                    }
                    now.step.done.push(Completion { member, request, outcome: Err(error) });
                }
            }
        }
    }

    /// MSM: message scheduling.
    pub(super) fn schedule_messages(&mut self, now: &mut Microphase<'_>) -> Result<(), Unreadable> {
        let most = self.plan.config().descriptor_bytes;
        let partners = self.partners.clone();
        for from in partners.iter() {
            let addr = self.plan.descriptors(from);
            let Some(body) = block::body(now.memory, addr, most, now.slice)? else { continue };
            self.count_received(from, &body);
            for notice in block::unpack(&body)? {
                self.notice(now.slice, from, notice);
            }
        }
        for (to, grants) in self.receiver.grant(self.here, self.plan.config().link_bytes) {
            self.begun.granted = true;
            if to == self.here {
                self.here_grants = grants;
                continue;
            }
            let (block, packed) = block::pack(now.slice, most, &grants);
            self.receiver.expect(&grants[..packed]);
            now.put_block(to, now.plan.grants(now.here), block);
        }
        self.collectives.ask(&now.plan, now.memory, now.here, &mut now.step);
        self.begun.asked = !now.step.asks.is_empty();
        Ok(())
    }

    pub(super) fn notice(&mut self, slice: u64, from: NodeId, notice: Notice) {
        match notice {
            Notice::JobOver(job) => self.fail(job, &BcsError::RankGone),
            Notice::Ready { job, group, next } => {
                let known = self.jobs.get(&job);
                if known.is_some_and(|job| job.over.is_none() && job.placement.contains(&from)) {
                    self.collectives.is_ready(job, group, from, next);
                }
            }
            Notice::Send(descriptor) => {
                let Some(job) = self.jobs.get(&descriptor.job) else { return };
                let is_at = |rank: u32, node| {
                    job.placement.get(Rank(rank).index()).is_some_and(|at| *at == node)
                };
                let ours = is_at(descriptor.to, self.here) && is_at(descriptor.from, from);
                if ours && job.over.is_none() {
                    self.receiver.announce((slice, self.here), from, descriptor);
                }
            }
        }
    }

    /// P2P: point-to-point transfers.
    pub(super) fn move_messages(&mut self, now: &mut Microphase<'_>) -> Result<(), Unreadable> {
        let mine = std::mem::take(&mut self.here_grants);
        let mut grants: Vec<(NodeId, Grant)> =
            mine.into_iter().map(|grant| (self.here, grant)).collect();
        let most = self.plan.config().descriptor_bytes;
        let partners = self.partners.clone();
        for from in partners.iter() {
            let Some(body) = block::body(now.memory, self.plan.grants(from), most, now.slice)?
            else {
                continue;
            };
            self.count_received(from, &body);
            grants.extend(block::unpack(&body)?.into_iter().map(|grant| (from, grant)));
        }
        let moved =
            dma_helper::carry_out(now.slice, self.here, grants, &self.plan, &mut self.sender);
        self.traffic.payload_bytes += moved.payload_bytes;
        now.step.puts.extend(moved.transfers);
        now.step.done.extend(moved.done);
        for (order, data) in moved.here {
            now.step.done.extend(self.receiver.take_in(order, &data));
        }
        Ok(())
    }

    /// BBM: broadcasts and barriers.
    pub(super) fn begin_collectives(&mut self, now: &mut Microphase<'_>) -> Result<(), Unreadable> {
        self.drain_messages(now)?;
        self.collectives.broadcast_and_barrier(now);
        Ok(())
    }

    /// RM: reductions.
    pub(super) fn begin_reductions(&mut self, now: &mut Microphase<'_>) -> Result<(), Unreadable> {
        let drained = self.collectives.drain(now);
        // Reductions begin even after an error here, because other nodes wait for this node's part.
        reduce_helper::begin(&mut self.collectives.open, now);
        let ending = self.doomed_jobs();
        reduce_helper::advance(&mut self.collectives.open, now, &ending);
        drained
    }

    pub(super) fn end_slice(&mut self, now: &mut Microphase<'_>) -> Result<(), Unreadable> {
        self.drain_messages(now)?;
        reduce_helper::end(&mut self.collectives.open, now)
    }

    /// Takes landed bytes, once in a slice, in the microphase that follows P2P.
    fn drain_messages(&mut self, now: &mut Microphase<'_>) -> Result<(), Unreadable> {
        let (slice, plan, memory) = (now.slice, &now.plan, now.memory);
        now.step.received_bytes += self.receiver.drain(slice, plan, memory, &mut now.step.done)?;
        Ok(())
    }

    pub(super) fn count_received(&mut self, from: NodeId, body: &[u8]) {
        if from != self.here {
            self.traffic.received_bytes += HEAD_BYTES + body.len() as u64;
        }
    }
}
