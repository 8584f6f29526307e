//! The numbers that the present manager has assigned to the nodes of a machine. The network knows a
//! node by this number. All other code here uses the node's own number, which is in its name.

use super::Configuration;
use super::config::name_of;
use std::collections::BTreeSet;
use storm_mm::journal::Entry;
use storm_mm::{NodeBook, PartitionError};
use storm_primitives::NodeId;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Numbers {
    /// The manager's number of each node, in the order of the nodes' own numbers.
    given: Vec<NodeId>,
}

impl Numbers {
    /// The numbers that a manager with this configuration gives, on a journal of a machine of
    /// `nodes` nodes. Nodes that the manager does not know get the remaining numbers: they are in
    /// no cluster.
    ///
    /// # Errors
    /// [`PartitionError`] if there are more names than numbers.
    pub(super) fn under(
        configuration: &Configuration,
        journal: &[Entry],
        nodes: u32,
    ) -> Result<Numbers, PartitionError> {
        let names: Vec<String> =
            configuration.nodes.iter().map(|entry| name_of(entry.node)).collect();
        let book = NodeBook::of(journal, names.iter().map(String::as_str))?;
        let all = || (1..=nodes).map(NodeId);
        let taken: BTreeSet<NodeId> = all().filter_map(|node| book.id(&name_of(node))).collect();
        let mut left = all().filter(|number| !taken.contains(number));
        let given = all().map(|node| book.id(&name_of(node)).or_else(|| left.next()));
        Ok(Numbers { given: given.map(Option::unwrap_or_default).collect() })
    }

    /// The manager's number for a node.
    pub(super) fn number(&self, node: NodeId) -> NodeId {
        let index = node.index().checked_sub(1);
        index.and_then(|index| self.given.get(index)).copied().unwrap_or(node)
    }

    /// The node that has this number with the manager.
    pub(super) fn node(&self, number: NodeId) -> NodeId {
        let index = self.given.iter().position(|given| *given == number);
        index.map_or(number, |index| NodeId(index as u32 + 1))
    }

    /// For each number under `former`, the number that the same node has under `self`.
    pub(super) fn after(&self, former: &Numbers) -> Vec<NodeId> {
        let numbers = (1..=self.given.len() as u32).map(NodeId);
        numbers.map(|number| self.number(former.node(number))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::ConfiguredNode;
    use super::*;

    fn under(nodes: &[u32]) -> Numbers {
        let entry = |node: &u32| ConfiguredNode { node: NodeId(*node), pes: 1 };
        let nodes = nodes.iter().map(entry).collect();
        let configuration = Configuration { nodes, partitions: Vec::new() };
        Numbers::under(&configuration, &[], 4).expect("there are numbers")
    }

    #[test]
    fn each_node_has_a_number_and_each_number_a_node() {
        let numbers = under(&[4, 1, 2]);
        let given = [1, 2, 3, 4].map(|node| numbers.number(NodeId(node)).0);
        assert_eq!(given, [2, 3, 4, 1]);
        assert!((1..=4).all(|node| numbers.node(numbers.number(NodeId(node))) == NodeId(node)));
        assert_eq!(numbers.number(NodeId::MM), NodeId::MM);
    }

    #[test]
    fn a_node_keeps_its_identity_when_it_is_numbered_anew() {
        let (former, next) = (under(&[1, 2, 3]), under(&[4, 1, 2]));
        assert_eq!(next.after(&former), [2, 3, 4, 1].map(NodeId));
    }
}
