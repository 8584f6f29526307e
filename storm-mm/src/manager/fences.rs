//! The PMI barrier of one job across its nodes: who has arrived, with what.

use std::collections::BTreeMap;
use storm_primitives::{NodeId, NodeSet};

/// The fence under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Fences {
    done: u64,
    arrived: BTreeMap<NodeId, Vec<(String, String)>>,
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
}
