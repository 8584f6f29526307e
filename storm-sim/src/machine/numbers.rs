//! The numbers that the present manager has given to the nodes of a machine. The network
//! knows a node by that number; everything else here knows it by its own, which is the
//! number in its name.

use super::Configuration;
use storm_primitives::NodeId;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Numbers {
    /// The number of each node, in the order of their own.
    given: Vec<NodeId>,
}

impl Numbers {
    /// Those under a configuration, on a machine of so many nodes. Nodes that are not
    /// configured have the numbers behind: they are in no cluster.
    pub(super) fn under(configuration: &Configuration, nodes: u32) -> Numbers {
        let configured = configuration.nodes.len() as u32;
        let mut behind = configured;
        let given = (1..=nodes).map(|node| match configuration.index_of(NodeId(node)) {
            Some(index) => NodeId(index as u32 + 1),
            None => {
                behind += 1;
                NodeId(behind)
            }
        });
        Numbers { given: given.collect() }
    }

    /// What the manager calls a node.
    pub(super) fn number(&self, node: NodeId) -> NodeId {
        let index = node.index().checked_sub(1);
        index.and_then(|index| self.given.get(index)).copied().unwrap_or(node)
    }

    /// The node that the manager calls so.
    pub(super) fn node(&self, number: NodeId) -> NodeId {
        let index = self.given.iter().position(|given| *given == number);
        index.map_or(number, |index| NodeId(index as u32 + 1))
    }

    /// For each number under `former`, the one that its node has here.
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
        Numbers::under(&Configuration { nodes, partitions: Vec::new() }, 4)
    }

    #[test]
    fn the_order_of_the_file_gives_the_numbers() {
        let numbers = under(&[4, 1, 2]);
        let given = [1, 2, 3, 4].map(|node| numbers.number(NodeId(node)).0);
        assert_eq!(given, [2, 3, 4, 1]);
        assert!((1..=4).all(|node| numbers.node(numbers.number(NodeId(node))) == NodeId(node)));
        assert_eq!(numbers.number(NodeId::MM), NodeId::MM);
    }

    #[test]
    fn a_node_keeps_its_identity_over_an_edit() {
        let (former, next) = (under(&[1, 2, 3]), under(&[4, 1, 2]));
        let moved = next.after(&former);
        assert_eq!(moved, [2, 3, 4, 1].map(NodeId));
    }
}
