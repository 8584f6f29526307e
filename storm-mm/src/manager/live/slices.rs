//! How a job communicates in slices, and which of its Node Managers have handed over their part
//! (`docs/decisions/0153-slices-stand-while-a-node-manager-is-replaced.md`).

use storm_primitives::{NodeId, NodeSet};

/// The slices of a live job.
#[derive(Clone, Debug, Default)]
pub(super) struct JobSlices {
    /// Whether a rank communicates in slices.
    pub(super) joined: bool,
    /// Nodes that were told to hand over, and whose next Node Managers have not said that they
    /// continue.
    handed: NodeSet,
    /// Nodes whose next Node Managers have said so.
    continued: NodeSet,
}

impl JobSlices {
    /// The node was told to hand over its part.
    pub(super) fn hand_over(&mut self, node: NodeId) {
        self.handed.insert(node);
        self.continued.remove(node);
    }

    /// The node's next Node Manager continues the slices. Returns false if the node was not told to
    /// hand over under this manager.
    pub(super) fn are_back(&mut self, node: NodeId) -> bool {
        let was_handed = self.handed.contains(node);
        self.handed.remove(node);
        if was_handed {
            self.continued.insert(node);
        }
        was_handed
    }

    /// Whether the node was told to hand over, and is not back.
    pub(super) fn is_handed(&self, node: NodeId) -> bool {
        self.handed.contains(node)
    }

    /// The nodes that were told to hand over and are not back.
    pub(super) fn handed(&self) -> &NodeSet {
        &self.handed
    }

    /// The nodes of `left` that did not hand over their part.
    pub(super) fn lost_of(&self, left: &NodeSet) -> NodeSet {
        left.difference(&self.handed).difference(&self.continued)
    }
}
