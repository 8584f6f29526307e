//! Nodes on which nobody renews leases, since their manager or their own node manager is gone.

use std::cell::RefCell;
use std::collections::BTreeMap;
use storm_primitives::{Instant, NodeId};

/// The nodes that have not joined since they lost the manager, or their node manager.
#[derive(Debug, Default)]
pub(super) struct Absences(RefCell<BTreeMap<NodeId, Absence>>);

#[derive(Clone, Copy, Debug)]
struct Absence {
    /// Since when leases are renewed for a last time at most.
    since: Instant,
    /// Whether the node manager has ended.
    is_left: bool,
}

impl Absences {
    /// The manager is gone. Leases of the nodes that had joined are for their fence from now on
    /// (`docs/decisions/0007-no-run-twice.md`).
    pub(super) fn manager_ends(&self, nodes: impl Iterator<Item = NodeId>, now: Instant) {
        let mut absences = self.0.borrow_mut();
        for node in nodes {
            absences.entry(node).or_insert(Absence { since: now, is_left: false });
        }
    }

    /// The node manager of a node has ended. Returns since when nobody renews its leases; `None`
    /// if an earlier end of a node manager counts already.
    pub(super) fn node_manager_ends(&self, node: NodeId, now: Instant) -> Option<Instant> {
        let mut absences = self.0.borrow_mut();
        let absence = absences.entry(node).or_insert(Absence { since: now, is_left: false });
        let is_first = !std::mem::replace(&mut absence.is_left, true);
        is_first.then_some(absence.since)
    }

    /// The node has joined, or begins a new life.
    pub(super) fn joined(&self, node: NodeId) {
        self.0.borrow_mut().remove(&node);
    }

    /// Whether the node has not joined since its node manager ended.
    pub(super) fn is_left(&self, node: NodeId) -> bool {
        self.0.borrow().get(&node).is_some_and(|absence| absence.is_left)
    }

    /// Whether the node has not joined since its node manager ended, in this absence.
    pub(super) fn is_left_since(&self, node: NodeId, since: Instant) -> bool {
        let absences = self.0.borrow();
        absences.get(&node).is_some_and(|absence| absence.is_left && absence.since == since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(ms)
    }

    /// A regression: a lease that ran for the fence of a lost manager was expected to last from
    /// the later end of the node manager.
    #[test]
    fn a_node_manager_that_ends_without_a_manager_leaves_leases_from_the_loss_of_the_manager() {
        let (absences, node) = (Absences::default(), NodeId(1));
        absences.manager_ends([node].into_iter(), at(10));
        assert!(!absences.is_left(node));
        assert_eq!(absences.node_manager_ends(node, at(40)), Some(at(10)));
        assert!(absences.is_left_since(node, at(10)));
        assert_eq!(absences.node_manager_ends(node, at(50)), None);
        absences.joined(node);
        assert!(!absences.is_left(node));
        assert_eq!(absences.node_manager_ends(node, at(60)), Some(at(60)));
        assert!(!absences.is_left_since(node, at(10)));
    }
}
