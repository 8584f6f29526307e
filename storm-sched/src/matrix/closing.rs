//! Nodes that the job under consideration must not use. While the job is considered, they are
//! closed, as if they took no work. Jobs keep their holdings on them.

use crate::shape::{NodeRoom, Shape};
use crate::{Matrix, NodeIndex, NodeState, Row, Shortfall};

/// The nodes that are closed at present.
#[derive(Debug, Clone, Default)]
pub(super) struct Closing {
    /// The nodes that were to be closed.
    asked: Vec<NodeIndex>,
    /// The nodes among them that took work.
    closed: Vec<NodeIndex>,
}

impl Matrix {
    /// Closes exactly these nodes, which ascend. Costs nothing if they are already closed. Nodes
    /// may change their states only while none is closed.
    pub(crate) fn close_only(&mut self, nodes: &[NodeIndex]) {
        if self.closing.asked == nodes {
            return;
        }
        let before = std::mem::take(&mut self.closing.closed);
        let mut closed = Vec::with_capacity(nodes.len());
        for &node in nodes {
            let is_up = self.machine.node(node).is_some_and(|node| node.state() == NodeState::Up);
            if is_up {
                self.set_node_state(node, NodeState::Drained);
            }
            if is_up || before.binary_search(&node).is_ok() {
                closed.push(node);
            }
        }
        for node in before.into_iter().filter(|node| closed.binary_search(node).is_err()) {
            self.set_node_state(node, NodeState::Up);
        }
        self.closing.asked.clear();
        self.closing.asked.extend_from_slice(nodes);
        self.closing.closed = closed;
    }

    /// The columns that a job could get in a row, live or not, if exactly these nodes were closed.
    /// The nodes ascend.
    pub(crate) fn free_pes_beside(&self, number: Row, closed: &[NodeIndex]) -> u32 {
        let Some(row) = self.row_or_vacant(number) else { return self.idle_pes_beside(closed) };
        let free_of = |node: &crate::Node| {
            let columns = node.columns();
            let taken = row.taken().count_ones(columns.start as usize..columns.end as usize);
            node.pes() - taken as u32
        };
        self.open_beside(closed).map(free_of).sum()
    }

    /// The columns that jobs could get in an empty row if exactly these nodes were closed. The
    /// nodes ascend.
    pub(crate) fn idle_pes_beside(&self, closed: &[NodeIndex]) -> u32 {
        self.open_beside(closed).map(crate::Node::pes).sum()
    }

    fn open_beside(&self, closed: &[NodeIndex]) -> impl Iterator<Item = &crate::Node> {
        let nodes = (0..).map(NodeIndex).zip(self.machine.nodes());
        let is_open = |index: NodeIndex, node: &crate::Node| {
            let takes_work = node.state() == NodeState::Up || self.is_closed(index);
            takes_work && closed.binary_search(&index).is_err()
        };
        nodes.filter(move |(index, node)| is_open(*index, node)).map(|(_, node)| node)
    }

    fn is_closed(&self, node: NodeIndex) -> bool {
        self.closing.closed.binary_search(&node).is_ok()
    }

    /// The shortfall of an empty row for a job of this shape, on the nodes that take work, closed
    /// or not, and those that are expected back. If `among` is given, only its nodes count. It must
    /// ascend.
    pub(crate) fn open_shortfall(
        &self,
        shape: Shape<'_>,
        among: Option<&[NodeIndex]>,
    ) -> Option<Shortfall> {
        let nodes = (0..).map(NodeIndex).zip(self.machine.nodes());
        let takes_work =
            |index: &NodeIndex, node: &crate::Node| node.is_expected() || self.is_closed(*index);
        let open = nodes.filter(|(index, node)| {
            takes_work(index, node) && among.is_none_or(|among| among.binary_search(index).is_ok())
        });
        shape.shortfall(open.map(|(_, node)| NodeRoom::whole(node)))
    }
}
