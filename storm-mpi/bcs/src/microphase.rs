//! One step of a node's engine: the slice it is in, what it works on, and what it comes to.

use crate::collective_helper::Question;
use crate::{BcsError, Completion, JobKey, Plan};
use bytes::Bytes;
use storm_primitives::{GlobalAddr, GlobalMemory, NodeId, NodeSet, Xfer};

/// What the helpers of one node have in common in a microphase.
#[derive(Debug)]
pub(crate) struct Microphase<'a> {
    pub(crate) slice: u64,
    pub(crate) here: NodeId,
    pub(crate) plan: Plan,
    pub(crate) memory: &'a GlobalMemory,
    pub(crate) step: Step,
}

/// What a step comes to.
#[derive(Debug, Default)]
pub(crate) struct Step {
    pub(crate) puts: Vec<Xfer>,
    pub(crate) asks: Vec<Question>,
    pub(crate) done: Vec<Completion>,
    pub(crate) failed: Vec<(JobKey, BcsError)>,
    pub(crate) received_bytes: u64,
}

impl Microphase<'_> {
    /// Puts a block into another node's memory, or into this node's own.
    pub(crate) fn put_block(&mut self, to: NodeId, addr: GlobalAddr, block: Bytes) {
        if to != self.here {
            self.step.puts.push(Xfer::new(NodeSet::single(to), addr, block));
        } else if self.memory.write(addr, &block).is_err() {
            // The plan's own region: only a memory of another layout has no room for it.
            tracing::error!(node = %to, %addr, "global memory is not as planned");
        }
    }
}
