//! The memory of the nodes that jobs hold, over all rows. Stopped jobs keep their memory.
//!
//! The account never refuses a job. The caller checks for room before it places a job. A job that
//! already runs is counted even if there is no room.

use crate::{JobRequest, Machine, Node, NodeIndex, NodeShare};

/// The memory that one job holds on one node, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeldMemory {
    pub(crate) node: NodeIndex,
    pub(crate) bytes: u64,
}

/// The memory that jobs hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryAccount {
    held_bytes: Vec<u64>,
}

impl MemoryAccount {
    /// Returns the account of a machine without jobs.
    #[must_use]
    pub fn new(machine: &Machine) -> Self {
        Self { held_bytes: vec![0; machine.nodes().len()] }
    }

    /// The memory of a node that jobs hold, in bytes.
    #[must_use]
    pub fn held_bytes(&self, node: NodeIndex) -> u64 {
        self.held_bytes.get(node.0 as usize).copied().unwrap_or(0)
    }

    /// The free memory of a node in bytes; `None` if its memory is not counted.
    #[must_use]
    pub fn free_bytes(&self, index: NodeIndex, node: &Node) -> Option<u64> {
        node.memory_bytes().map(|all| all.saturating_sub(self.held_bytes(index)))
    }

    /// Counts a job. Returns the memory that it holds now, for [`MemoryAccount::give_back`].
    pub(crate) fn take(
        &mut self,
        machine: &Machine,
        request: &JobRequest,
        shares: &[NodeShare],
    ) -> Vec<HeldMemory> {
        if !request.asks_for_memory() {
            return Vec::new();
        }
        let held = shares.iter().filter_map(|share| {
            let node = machine.node(share.node)?;
            let bytes = request.memory_on_bytes(node, share.ranks);
            Some(HeldMemory { node: share.node, bytes })
        });
        let held: Vec<HeldMemory> = held.collect();
        for HeldMemory { node, bytes } in &held {
            if let Some(all) = self.held_bytes.get_mut(node.0 as usize) {
                *all = all.saturating_add(*bytes);
            }
        }
        held
    }

    /// Gives back the memory of a job that is gone.
    pub(crate) fn give_back(&mut self, held: &[HeldMemory]) {
        for HeldMemory { node, bytes } in held {
            if let Some(all) = self.held_bytes.get_mut(node.0 as usize) {
                *all = all.saturating_sub(*bytes);
            }
        }
    }
}
