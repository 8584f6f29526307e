//! The nodes of a live place: the nodes that it has lost, and the nodes that it waits for.

use std::collections::BTreeMap;
use storm_primitives::{Instant, NodeId, NodeSet};

/// Lost nodes, and until when they may still run ranks.
pub(in crate::manager) type Lost = BTreeMap<NodeId, Instant>;

/// The state of a node without a Node Manager.
#[derive(Clone, Copy, Debug)]
pub(in crate::manager) struct Left {
    /// Until when its next Node Manager may join.
    pub(in crate::manager) until: Instant,
    /// When its ranks have certainly ended, if no Node Manager joins.
    pub(in crate::manager) fenced: Instant,
}

/// The nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct PlaceNodes {
    /// All nodes of the place. The loss of any of them ends the job.
    nodes: NodeSet,
    /// The nodes that the place has lost.
    gone: NodeSet,
    /// The lost ones among these nodes that may still run ranks of the job, and until when.
    lost: Lost,
    /// Nodes that have not returned: a former manager placed the job on them, or their Node
    /// Managers have ended.
    unheard: NodeSet,
    /// Until when those are waited for on which a former manager placed the job.
    expected: Option<Instant>,
    /// For the nodes whose Node Managers ended under this manager: until when they may return, and
    /// when their keepers have otherwise ended the ranks.
    away: BTreeMap<NodeId, Left>,
    /// Nodes whose next Node Managers have returned under this manager.
    succeeded: NodeSet,
}

impl PlaceNodes {
    /// The nodes of a place that this manager makes.
    pub(super) fn placed(nodes: NodeSet) -> PlaceNodes {
        PlaceNodes { nodes, ..PlaceNodes::default() }
    }

    /// The nodes of a place that a former manager made. It had lost the nodes `gone`; the others
    /// are waited for until `expected`.
    pub(super) fn restored(nodes: NodeSet, gone: NodeSet, expected: Instant) -> PlaceNodes {
        let (unheard, expected) = (nodes.difference(&gone), Some(expected));
        PlaceNodes { nodes, gone, unheard, expected, ..PlaceNodes::default() }
    }

    pub(super) fn nodes(&self) -> &NodeSet {
        &self.nodes
    }

    pub(super) fn unheard(&self) -> &NodeSet {
        &self.unheard
    }

    pub(super) fn lost(&self) -> &Lost {
        &self.lost
    }

    /// Whether the node belongs to the place, and the place has not lost the node.
    pub(super) fn has(&self, node: NodeId) -> bool {
        self.nodes.contains(node) && !self.gone.contains(node)
    }

    /// Whether all nodes that have not returned may do so under their next Node Managers.
    pub(super) fn all_unheard_are_away(&self) -> bool {
        self.unheard.iter().all(|node| self.away.contains_key(&node))
    }

    /// The node is lost. `runs_until` is set if its ranks may continue until then.
    pub(super) fn lose(&mut self, node: NodeId, runs_until: Option<Instant>) {
        self.gone.insert(node);
        self.lost.extend(runs_until.map(|until| (node, until)));
    }

    /// The node is waited for.
    pub(super) fn await_return(&mut self, node: NodeId, left: Left) {
        self.unheard.insert(node);
        self.away.insert(node, left);
    }

    /// The node has returned. Returns whether it had left under this manager.
    pub(super) fn came_back(&mut self, node: NodeId) -> bool {
        self.unheard.remove(node);
        let was_away = self.away.remove(&node).is_some();
        if was_away {
            self.succeeded.insert(node);
        }
        was_away
    }

    /// The nodes whose Node Managers have ended under this manager.
    pub(super) fn left(&self) -> NodeSet {
        self.succeeded.union(&self.away())
    }

    /// The nodes that have not returned under their next Node Managers.
    pub(super) fn away(&self) -> NodeSet {
        self.away.keys().copied().collect()
    }

    /// Until when a node that has not returned is waited for.
    fn until(&self, node: NodeId) -> Option<Instant> {
        self.away.get(&node).map(|left| left.until).or(self.expected)
    }

    /// The nodes that have been waited for long enough.
    pub(super) fn late(&self, now: Instant) -> NodeSet {
        let late = |node: &NodeId| self.until(*node).is_none_or(|until| until <= now);
        self.unheard.iter().filter(late).collect()
    }

    /// When the next node has been waited for long enough.
    pub(super) fn next_late(&self) -> Option<Instant> {
        self.unheard.iter().filter_map(|node| self.until(node)).min()
    }

    /// The nodes `missing` are not waited for any longer. Their ranks have ended at the latest when
    /// their keepers ended them, or at `fenced`.
    pub(super) fn give_up(&mut self, missing: &NodeSet, fenced: Instant) {
        self.unheard = self.unheard.difference(missing);
        for node in missing.iter() {
            let until = self.away.remove(&node).map(|left| left.fenced);
            self.lose(node, Some(until.unwrap_or(fenced)));
        }
    }

    /// A lost node runs no ranks after `until`.
    pub(super) fn fenced_until(&mut self, node: NodeId, until: Instant) {
        self.lost.entry(node).and_modify(|known| *known = (*known).min(until));
    }

    /// A lost node runs no ranks any more.
    pub(super) fn fenced(&mut self, node: NodeId) {
        self.lost.remove(&node);
    }
}
