//! One step of a node's engine: its slice, the state it works on, and its results.

use crate::question::Question;
use crate::{BcsError, Completion, JobKey, Plan};
use bytes::Bytes;
use storm_primitives::{GlobalAddr, GlobalMemory, NodeId, NodeSet, Xfer};

/// The common state of a node's helpers in a microphase.
#[derive(Debug)]
pub(crate) struct Microphase<'a> {
    pub(crate) slice: u64,
    pub(crate) here: NodeId,
    pub(crate) plan: Plan,
    pub(crate) memory: &'a GlobalMemory,
    pub(crate) step: Step,
}

/// The results of a step.
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
            // The region is the plan's own: only a memory of another layout has no room for it.
            tracing::error!(node = %to, %addr, "global memory is not as planned");
        }
    }
}
