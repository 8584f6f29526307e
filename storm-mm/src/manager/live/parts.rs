//! The nodes of a live job, and the state of the part of each.

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

/// The parts.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    /// The nodes of the job's place. The loss of any of them ends the job.
    place: NodeSet,
    /// The nodes that have a part.
    nodes: NodeSet,
    /// Nodes whose part of the job is over: they reported its end, or died.
    over: NodeSet,
    /// The nodes among these that reported its end.
    reported: NodeSet,
    /// The nodes among these that were lost afterwards. Their flags in global memory are lost.
    forgot: NodeSet,
    /// The lost ones among these nodes that may still run ranks of the job, and until when.
    lost: Lost,
    /// Nodes that have not returned: a former manager placed the job on them, or their Node
    /// Managers have ended.
    unheard: NodeSet,
    /// For the nodes whose Node Managers ended under this manager: until when they may return, and
    /// when their keepers have otherwise ended the ranks.
    away: BTreeMap<NodeId, Left>,
    /// Nodes that returned and had never received the launch.
    lacking: NodeSet,
    /// Whether a former manager placed the job.
    restored: bool,
    /// Nodes that returned with their parts.
    inherited: NodeSet,
    /// Nodes whose next Node Managers have returned under this manager.
    succeeded: NodeSet,
}

impl Parts {
    /// The parts of a job that this manager places.
    pub(super) fn placed((place, nodes): (NodeSet, NodeSet)) -> Parts {
        Parts { place, nodes, ..Parts::default() }
    }

    /// The parts of a job that a former manager placed. The parts of the nodes `over` had ended
    /// before their nodes were lost.
    pub(super) fn restored((place, nodes): (NodeSet, NodeSet), over: NodeSet) -> Parts {
        let unheard = place.difference(&over);
        let (reported, forgot) = (over.clone(), over.clone());
        Parts { place, nodes, over, reported, forgot, unheard, restored: true, ..Parts::default() }
    }

    pub(super) fn place(&self) -> &NodeSet {
        &self.place
    }

    pub(super) fn nodes(&self) -> &NodeSet {
        &self.nodes
    }

    pub(super) fn over(&self) -> &NodeSet {
        &self.over
    }

    /// The nodes whose flags show how far the job is.
    pub(super) fn with_flags(&self) -> NodeSet {
        self.nodes.difference(&self.forgot)
    }

    pub(super) fn unheard(&self) -> &NodeSet {
        &self.unheard
    }

    pub(super) fn lost(&self) -> &Lost {
        &self.lost
    }

    pub(super) fn take_lost(&mut self) -> Lost {
        std::mem::take(&mut self.lost)
    }

    /// Whether every node's part is over.
    pub(super) fn are_over(&self) -> bool {
        self.nodes.is_subset(&self.over)
    }

    /// Whether the node belongs to the place, and its part is not over.
    pub(super) fn is_placed_on(&self, node: NodeId) -> bool {
        self.place.contains(node) && !self.over.contains(node)
    }

    /// Whether the node has a part that is not over.
    pub(super) fn has(&self, node: NodeId) -> bool {
        self.nodes.contains(node) && !self.over.contains(node)
    }

    /// The nodes that hold their parts and can receive commands.
    pub(super) fn holders(&self) -> NodeSet {
        self.nodes.difference(&self.over).difference(&self.unheard)
    }

    /// For a job that a former manager placed: the nodes that returned with their parts, and report
    /// how much input their ranks have taken.
    pub(super) fn inherited(&self) -> Option<&NodeSet> {
        self.restored.then_some(&self.inherited)
    }

    /// Whether all nodes that have not returned may do so under their next Node Managers.
    pub(super) fn all_unheard_are_away(&self) -> bool {
        self.unheard.iter().all(|node| self.away.contains_key(&node))
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

    /// The part of a node is lost. `runs_until` is set if its ranks may continue until then.
    pub(super) fn lose(&mut self, node: NodeId, runs_until: Option<Instant>) {
        self.over.insert(node);
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
        self.inherited.insert(node);
        let was_away = self.away.remove(&node).is_some();
        if was_away {
            self.succeeded.insert(node);
        }
        was_away
    }

    /// The nodes whose Node Managers have ended under this manager.
    pub(super) fn left(&self) -> NodeSet {
        self.succeeded.union(&self.away.keys().copied().collect())
    }

    /// The nodes that have not returned under their next Node Managers.
    pub(super) fn away(&self) -> NodeSet {
        self.away.keys().copied().collect()
    }

    /// The node has returned and had never received the launch.
    pub(super) fn lack(&mut self, node: NodeId) {
        self.inherited.remove(node);
        self.lacking.insert(node);
    }

    pub(super) fn take_lacking(&mut self) -> NodeSet {
        std::mem::take(&mut self.lacking)
    }

    /// The parts of these nodes are over without having begun.
    pub(super) fn never_began(&mut self, nodes: &NodeSet) {
        self.over = self.over.union(nodes);
    }

    /// The nodes that have been waited for long enough. Nodes that left under this manager have
    /// their own, later times.
    pub(super) fn late(&self, now: Instant) -> NodeSet {
        let late = |node: &NodeId| self.away.get(node).is_none_or(|left| left.until <= now);
        self.unheard.iter().filter(late).collect()
    }

    /// The nodes `missing` are not waited for any longer. Their ranks have ended at the latest when
    /// their keepers ended them, or at `fenced`.
    pub(super) fn give_up(&mut self, missing: &NodeSet, fenced: Instant) {
        self.unheard = self.unheard.difference(missing);
        self.over = self.over.union(missing);
        for node in missing.iter() {
            let until = self.away.remove(&node).map(|left| left.fenced);
            self.lost.insert(node, until.unwrap_or(fenced));
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
