//! The nodes and partitions in the manager's configuration file. The file can be edited while the
//! machine runs; the next manager reads it.
//!
//! The configuration need not match the nodes: a node can be configured with more processing
//! elements than it has.

use storm_primitives::NodeId;

/// The nodes and partitions of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// The nodes, in the order of the file.
    pub nodes: Vec<ConfiguredNode>,
    /// The partitions, in the order of the file.
    pub partitions: Vec<ConfiguredPartition>,
}

/// A node of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfiguredNode {
    /// The node's permanent number on the machine. The number in its name is the same.
    pub node: NodeId,
    /// Processing elements that jobs may have.
    pub pes: u32,
}

/// A partition of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredPartition {
    /// The name.
    pub name: String,
    /// The nodes.
    pub nodes: Vec<NodeId>,
}

impl Configuration {
    /// The first `nodes` nodes of a machine with `pes` elements each, in partitions of about
    /// the same size. One partition is called `all`; several are called `p1`, `p2` and so on.
    pub fn even(nodes: u32, pes: u32, partitions: u32) -> Configuration {
        let count = partitions.clamp(1, nodes.max(1));
        let name = |index| match count {
            1 => "all".to_owned(),
            _ => format!("p{}", index + 1),
        };
        // Where a partition begins. The product may not fit 32 bits, so it is calculated in 64.
        let start = |index: u32| (u64::from(nodes) * u64::from(index) / u64::from(count)) as u32;
        let partition = |index| ConfiguredPartition {
            name: name(index),
            nodes: (start(index) + 1..=start(index + 1)).map(NodeId).collect(),
        };
        Configuration {
            nodes: (1..=nodes).map(|node| ConfiguredNode { node: NodeId(node), pes }).collect(),
            partitions: (0..count).map(partition).collect(),
        }
    }

    /// The configured elements of a node; `None` where it is not configured.
    pub fn pes(&self, node: NodeId) -> Option<u32> {
        self.nodes.iter().find(|entry| entry.node == node).map(|entry| entry.pes)
    }

    /// The partition of a node.
    pub fn partition_of(&self, node: NodeId) -> Option<&str> {
        let of_node = |partition: &&ConfiguredPartition| partition.nodes.contains(&node);
        self.partitions.iter().find(of_node).map(|partition| partition.name.as_str())
    }

    /// All elements of the nodes of a partition.
    pub fn elements(&self, partition: &ConfiguredPartition) -> u32 {
        partition.nodes.iter().filter_map(|node| self.pes(*node)).sum()
    }

    /// The place of a node in the order of the file.
    pub(super) fn index_of(&self, node: NodeId) -> Option<usize> {
        self.nodes.iter().position(|entry| entry.node == node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_is_in_one_partition() {
        let configuration = Configuration::even(5, 2, 2);
        let sizes: Vec<u32> =
            configuration.partitions.iter().map(|one| configuration.elements(one)).collect();
        assert_eq!(sizes, [4, 6]);
        assert_eq!(configuration.partition_of(NodeId(2)), Some("p1"));
        assert_eq!(configuration.partition_of(NodeId(5)), Some("p2"));
        assert_eq!(configuration.pes(NodeId(6)), None);
        assert_eq!(Configuration::even(3, 2, 1).partitions[0].name, "all");
    }
}
