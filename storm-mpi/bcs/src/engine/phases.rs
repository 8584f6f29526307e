//! The microphases of one node's engine.

use super::{Engine, Step};
use crate::block::{self, Grant, HEAD_BYTES, Notice, Unreadable};
use crate::{BcsError, Completion, Member, Post, RequestId, dma_helper, reduce_helper};
use bytes::Bytes;
use storm_mpi::Rank;
use storm_primitives::{GlobalAddr, GlobalMemory, NodeId, NodeSet, Xfer};

impl Engine {
    /// DEM.
    pub(super) fn exchange_descriptors(
        &mut self,
        slice: u64,
        memory: &GlobalMemory,
        step: &mut Step,
    ) {
        self.carry_out_dooms();
        self.completions.append(&mut self.finished);
        for (member, request, post) in std::mem::take(&mut self.posted) {
            self.take_post(slice, member, request, post, step);
        }
        self.collectives.publish(&self.plan, memory);
        for (to, block) in self.sender.blocks(slice, self.plan.config.descriptor_bytes) {
            self.put_block(to, self.plan.descriptors(self.here), block, memory, step);
        }
    }

    pub(super) fn take_post(
        &mut self,
        slice: u64,
        member: Member,
        request: RequestId,
        post: Post,
        step: &mut Step,
    ) {
        // Checked when it was posted; since then the job may have ended.
        let Some(job) = self.jobs.get(&member.job) else { return };
        if let Some(error) = &job.over {
            step.done.push(Completion { member, request, outcome: Err(error.clone()) });
            return;
        }
        match post {
            Post::Send { address, data } => match job.placement.get(address.to.index()) {
                Some(to) => self.sender.add(member, request, address, data, *to),
                None => {
                    let error = BcsError::NoSuchRank { job: member.job, rank: address.to };
                    step.done.push(Completion { member, request, outcome: Err(error) });
                }
            },
            Post::Recv { pattern, bytes } => {
                self.receiver.post((slice, self.here), member, request, pattern, bytes);
            }
            Post::Collective { slot, call } => {
                if let Err(error) = self.collectives.post(slot, member, request, call) {
                    step.done.push(Completion { member, request, outcome: Err(error) });
                }
            }
        }
    }

    /// MSM.
    pub(super) fn schedule_messages(
        &mut self,
        slice: u64,
        memory: &GlobalMemory,
        step: &mut Step,
    ) -> Result<(), Unreadable> {
        let most = self.plan.config.descriptor_bytes;
        for from in self.plan.nodes() {
            let addr = self.plan.descriptors(from);
            let Some(body) = block::body(memory, addr, most, slice)? else { continue };
            self.count_received(from, &body);
            for notice in block::unpack(&body)? {
                self.notice(slice, from, notice);
            }
        }
        for (to, grants) in self.receiver.grant(self.here, self.plan.config.link_bytes) {
            if to == self.here {
                self.here_grants = grants;
                continue;
            }
            let (block, packed) = block::pack(slice, most, &grants);
            self.receiver.expect(&grants[..packed]);
            self.put_block(to, self.plan.grants(self.here), block, memory, step);
        }
        step.asks = self.collectives.questions(&self.plan, self.here);
        Ok(())
    }

    pub(super) fn notice(&mut self, slice: u64, from: NodeId, notice: Notice) {
        match notice {
            Notice::JobOver(job) => self.fail(job, &BcsError::RankGone),
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

    /// P2P.
    pub(super) fn move_messages(
        &mut self,
        slice: u64,
        memory: &GlobalMemory,
        step: &mut Step,
    ) -> Result<(), Unreadable> {
        let mine = std::mem::take(&mut self.here_grants);
        let mut grants: Vec<(NodeId, Grant)> =
            mine.into_iter().map(|grant| (self.here, grant)).collect();
        let most = self.plan.config.descriptor_bytes;
        for from in self.plan.nodes() {
            let Some(body) = block::body(memory, self.plan.grants(from), most, slice)? else {
                continue;
            };
            self.count_received(from, &body);
            grants.extend(block::unpack(&body)?.into_iter().map(|grant| (from, grant)));
        }
        let moved = dma_helper::carry_out(slice, self.here, grants, &self.plan, &mut self.sender);
        self.traffic.payload_bytes += moved.payload_bytes;
        step.puts.extend(moved.transfers);
        step.done.extend(moved.done);
        for (order, data) in moved.here {
            step.done.extend(self.receiver.take_in(order, &data));
        }
        Ok(())
    }

    /// BBM.
    pub(super) fn begin_collectives(
        &mut self,
        slice: u64,
        memory: &GlobalMemory,
        step: &mut Step,
    ) -> Result<(), Unreadable> {
        step.received_bytes += self.receiver.drain(slice, &self.plan, memory, &mut step.done)?;
        self.collectives.broadcast_and_barrier(slice, self.here, &self.plan, memory, step);
        Ok(())
    }

    /// RM.
    pub(super) fn begin_reductions(
        &mut self,
        slice: u64,
        memory: &GlobalMemory,
        step: &mut Step,
    ) -> Result<(), Unreadable> {
        let (here, plan) = (self.here, self.plan);
        let drained = self.collectives.drain(slice, here, &plan, memory, step);
        // Whatever is wrong here, other nodes wait for this one's part.
        reduce_helper::begin(&mut self.collectives, here, step);
        reduce_helper::advance(&mut self.collectives, slice, here, &plan, memory, step);
        drained
    }

    pub(super) fn end_slice(
        &mut self,
        slice: u64,
        memory: &GlobalMemory,
        step: &mut Step,
    ) -> Result<(), Unreadable> {
        let (here, plan) = (self.here, self.plan);
        reduce_helper::end(&mut self.collectives, slice, here, &plan, memory, step)?;
        memory.store(plan.in_flight, self.in_flight_bytes());
        Ok(())
    }

    /// Puts a block into another node's memory, or into this node's own.
    pub(super) fn put_block(
        &self,
        to: NodeId,
        addr: GlobalAddr,
        block: Bytes,
        memory: &GlobalMemory,
        step: &mut Step,
    ) {
        if to != self.here {
            step.puts.push(Xfer::new(NodeSet::single(to), addr, block));
        } else if memory.write(addr, &block).is_err() {
            // The plan's own region: only a memory of another layout has no room for it.
            tracing::error!(node = %to, %addr, "global memory is not as planned");
        }
    }

    pub(super) fn count_received(&mut self, from: NodeId, body: &[u8]) {
        if from != self.here {
            self.traffic.received_bytes += HEAD_BYTES + body.len() as u64;
        }
    }
}
