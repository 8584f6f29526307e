//! Nodes that a job which is being looked at may not have: closed for the
//! moment, as if they took no work, while what jobs hold of them stays theirs.

use crate::shape::{NodeRoom, Shape};
use crate::{Matrix, NodeIndex, NodeState, Shortfall};

/// What is closed for the moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Closing {
    /// What was asked for.
    asked: Vec<NodeIndex>,
    /// Those of it that took work.
    closed: Vec<NodeIndex>,
}

impl Matrix {
    /// Closes these nodes, ascending, and no others. Costs nothing where they
    /// are closed already. Nodes may change their states only while none is
    /// closed.
    pub(crate) fn close_only(&mut self, nodes: &[NodeIndex]) {
        if self.closing.asked == nodes {
            return;
        }
        for node in std::mem::take(&mut self.closing.closed) {
            self.set_node_state(node, NodeState::Up);
        }
        let is_up = |node: &NodeIndex| {
            self.machine.node(*node).is_some_and(|node| node.state() == NodeState::Up)
        };
        let closed: Vec<NodeIndex> = nodes.iter().copied().filter(is_up).collect();
        for node in &closed {
            self.set_node_state(*node, NodeState::Drained);
        }
        self.closing = Closing { asked: nodes.to_vec(), closed };
    }

    /// What an empty row lacks for a job of that shape, given the nodes that take
    /// work, closed or not; of these only `among`, if it says which.
    pub(crate) fn open_shortfall(
        &self,
        shape: Shape<'_>,
        among: Option<&[NodeIndex]>,
    ) -> Option<Shortfall> {
        let nodes = (0..).map(NodeIndex).zip(self.machine.nodes());
        let takes_work = |index: &NodeIndex, node: &crate::Node| {
            node.state() == NodeState::Up || self.closing.closed.contains(index)
        };
        let open = nodes.filter(|(index, node)| {
            takes_work(index, node) && among.is_none_or(|among| among.contains(index))
        });
        shape.shortfall(open.map(|(_, node)| NodeRoom::whole(node)))
    }
}
