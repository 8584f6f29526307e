//! Groups of equal nodes.

use super::written;
use std::collections::BTreeMap;
use storm_mm::api::{NodeState, NodeView};
use storm_primitives::fold_names;

/// Nodes that share all that a listing shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoldedNodes {
    /// Their names, folded.
    pub(super) names: String,
    /// Number of nodes.
    pub(super) count: usize,
    /// Their common properties.
    pub(super) alike: Alike,
}

/// The properties of a node that a listing shows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Alike {
    pub(super) partitions: String,
    pub(super) state: NodeState,
    pub(super) pes: u32,
    pub(super) pes_used: u32,
    pub(super) memory: String,
    pub(super) features: String,
    pub(super) reason: String,
}

impl Alike {
    pub(super) fn of(node: &NodeView) -> Alike {
        Alike {
            partitions: node.partitions.join(","),
            state: node.state,
            pes: node.pes,
            pes_used: node.pes_used,
            memory: written::node_memory(node),
            features: written::features(node),
            reason: node.reason.clone().unwrap_or_default(),
        }
    }
}

/// Groups the nodes, in order of partition and state.
pub(super) fn fold(nodes: &[NodeView]) -> Vec<FoldedNodes> {
    let mut groups: BTreeMap<Alike, Vec<&str>> = BTreeMap::new();
    for node in nodes {
        groups.entry(Alike::of(node)).or_default().push(&node.name);
    }
    groups
        .into_iter()
        .map(|(alike, names)| FoldedNodes { count: names.len(), names: fold_names(&names), alike })
        .collect()
}
