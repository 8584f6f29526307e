//! The PMI barrier of one job across its nodes: who has arrived, with what.

use std::collections::BTreeMap;
use storm_primitives::{NodeId, NodeSet};
use storm_rm::Rank;

/// The fence under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Fences {
    done: u64,
    arrived: BTreeMap<NodeId, Vec<(String, String)>>,
    /// A rank that will be in no fence any more.
    left: Option<Rank>,
}

impl Fences {
    /// A node is in fence `sequence`; all pairs in order of node once every one
    /// of `nodes` is. What belongs to another fence is ignored: a node cannot be
    /// ahead of the others.
    pub(super) fn arrived(
        &mut self,
        sequence: u64,
        node: NodeId,
        puts: Vec<(String, String)>,
        nodes: &NodeSet,
    ) -> Option<Vec<(String, String)>> {
        if sequence != self.done + 1 || !nodes.contains(node) {
            return None;
        }
        self.arrived.insert(node, puts);
        if self.arrived.len() < nodes.len() {
            return None;
        }
        self.done = sequence;
        Some(std::mem::take(&mut self.arrived).into_values().flatten().collect())
    }

    /// A rank has ended without having finalized.
    pub(super) fn left(&mut self, rank: Rank) {
        self.left.get_or_insert(rank);
    }

    /// The rank that nodes wait for in vain, if they do.
    pub(super) fn missing(&self) -> Option<Rank> {
        self.left.filter(|_| !self.arrived.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_opens_when_all_nodes_are_in_and_only_once() {
        let nodes = NodeSet::compute(2);
        let mut fences = Fences::default();
        let put = |key: &str| vec![(key.to_owned(), "v".to_owned())];
        assert_eq!(fences.arrived(1, NodeId(2), put("b"), &nodes), None);
        assert_eq!(fences.arrived(1, NodeId(2), put("b"), &nodes), None);
        assert_eq!(fences.arrived(2, NodeId(1), put("x"), &nodes), None);
        assert_eq!(fences.arrived(1, NodeId(3), put("x"), &nodes), None);
        let all = [put("a"), put("b")].concat();
        assert_eq!(fences.arrived(1, NodeId(1), put("a"), &nodes), Some(all));
        assert_eq!(fences.arrived(1, NodeId(1), put("a"), &nodes), None);
        assert_eq!(fences.arrived(2, NodeId(1), vec![], &nodes), None);
        assert_eq!(fences.arrived(2, NodeId(2), vec![], &nodes), Some(vec![]));
    }

    #[test]
    fn a_rank_that_left_is_missed_by_those_who_wait_and_by_nobody_else() {
        let nodes = NodeSet::compute(2);
        let mut fences = Fences::default();
        fences.left(Rank(3));
        assert_eq!(fences.missing(), None);
        assert_eq!(fences.arrived(1, NodeId(1), vec![], &nodes), None);
        assert_eq!(fences.missing(), Some(Rank(3)));
    }
}
