//! The nodes of a step, and the state of the part of each.

use storm_primitives::{NodeId, NodeSet};

/// The parts.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    /// The nodes that have a part.
    nodes: NodeSet,
    /// Nodes whose part is over: they reported its end, or died.
    over: NodeSet,
    /// The nodes among these that reported its end.
    reported: NodeSet,
    /// The nodes among these that were lost afterwards. Their flags in global memory are lost.
    forgot: NodeSet,
    /// Nodes that returned and had never received the launch.
    lacking: NodeSet,
    /// Whether a former manager placed the step.
    restored: bool,
    /// Nodes that returned with their parts.
    inherited: NodeSet,
}

impl Parts {
    /// The parts of a step that this manager places.
    pub(super) fn placed(nodes: NodeSet) -> Parts {
        Parts { nodes, ..Parts::default() }
    }

    /// The parts of a step that a former manager placed. The parts of the nodes `over` had ended
    /// before their nodes were lost.
    pub(super) fn restored(nodes: NodeSet, over: NodeSet) -> Parts {
        let (reported, forgot) = (over.clone(), over.clone());
        Parts { nodes, over, reported, forgot, restored: true, ..Parts::default() }
    }

    pub(super) fn nodes(&self) -> &NodeSet {
        &self.nodes
    }

    pub(super) fn over(&self) -> &NodeSet {
        &self.over
    }

    /// The nodes whose flags show how far the step is.
    pub(super) fn with_flags(&self) -> NodeSet {
        self.nodes.difference(&self.forgot)
    }

    /// Whether every node's part is over.
    pub(super) fn are_over(&self) -> bool {
        self.nodes.is_subset(&self.over)
    }

    /// Whether the node has a part that is not over.
    pub(super) fn has(&self, node: NodeId) -> bool {
        self.nodes.contains(node) && !self.over.contains(node)
    }

    /// For a step that a former manager placed: the nodes that returned with their parts, and
    /// report how much input their ranks have taken.
    pub(super) fn inherited(&self) -> Option<&NodeSet> {
        self.restored.then_some(&self.inherited)
    }

    /// The part of a node is over. Returns whether it is the first.
    pub(super) fn end(&mut self, node: NodeId) -> bool {
        let first = self.over.is_empty();
        self.over.insert(node);
        self.reported.insert(node);
        first
    }

    /// The node is lost. Returns whether it had reported the end of its part, and was not lost
    /// since.
    pub(super) fn forgets(&mut self, node: NodeId) -> bool {
        self.reported.contains(node) && self.forgot.insert(node)
    }

    /// The parts of these nodes are lost, or are over without having begun.
    pub(super) fn lose(&mut self, nodes: &NodeSet) {
        self.over = self.over.union(nodes);
    }

    /// The node has returned.
    pub(super) fn came_back(&mut self, node: NodeId) {
        self.inherited.insert(node);
    }

    /// The node has returned and had never received the launch.
    pub(super) fn lack(&mut self, node: NodeId) {
        self.inherited.remove(node);
        self.lacking.insert(node);
    }

    pub(super) fn take_lacking(&mut self) -> NodeSet {
        std::mem::take(&mut self.lacking)
    }
}
