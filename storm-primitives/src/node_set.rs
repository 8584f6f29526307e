//! A set of nodes, by id.
//!
//! The text form is `n[1-64]`, see [`NodeNames`]. The Machine Manager maps other names than `n<id>`
//! to ids before they get here.

use crate::{NodeId, NodeNames, NodeRuns, NodeSetParseError};
use fixedbitset::FixedBitSet;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// No cluster has more nodes than this number; a larger id in a message is hostile.
pub const MAX_NODES: u32 = 1 << 17;

/// A set of node ids.
#[derive(Clone, Default)]
pub struct NodeSet {
    bits: FixedBitSet,
}

impl NodeSet {
    /// The empty set.
    pub fn new() -> NodeSet {
        NodeSet::default()
    }

    /// The set of one node.
    pub fn single(node: NodeId) -> NodeSet {
        [node].into_iter().collect()
    }

    /// All ids from `first` to `last`, both included; empty when `last < first`.
    pub fn range(first: NodeId, last: NodeId) -> NodeSet {
        let mut set = NodeSet::new();
        if first <= last {
            set.insert_run(first, last);
        }
        set
    }

    /// The compute nodes of a cluster of `count`: `n[1-count]`.
    pub fn compute(count: u32) -> NodeSet {
        NodeSet::range(NodeId(1), NodeId(count))
    }

    /// Adds a node. Returns false if the set already had it.
    pub fn insert(&mut self, node: NodeId) -> bool {
        self.bits.grow(node.index() + 1);
        !self.bits.put(node.index())
    }

    /// Adds the nodes from `first` to `last`, which is not before `first`.
    pub(crate) fn insert_run(&mut self, first: NodeId, last: NodeId) {
        self.bits.grow(last.index() + 1);
        self.bits.insert_range(first.index()..last.index() + 1);
    }

    /// Removes a node. Returns false if the set did not have it.
    pub fn remove(&mut self, node: NodeId) -> bool {
        let present = self.contains(node);
        if present {
            self.bits.set(node.index(), false);
        }
        present
    }

    /// Whether the node is in the set.
    pub fn contains(&self, node: NodeId) -> bool {
        self.bits.contains(node.index())
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.bits.count_ones(..)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.bits.is_clear()
    }

    /// The nodes in increasing order of id.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.bits.ones().map(|index| NodeId(index as u32))
    }

    /// The node with the smallest id.
    pub fn first(&self) -> Option<NodeId> {
        self.bits.minimum().map(|index| NodeId(index as u32))
    }

    /// The node with the largest id.
    pub fn last(&self) -> Option<NodeId> {
        self.bits.maximum().map(|index| NodeId(index as u32))
    }

    /// Nodes in either set.
    #[must_use]
    pub fn union(&self, other: &NodeSet) -> NodeSet {
        let mut bits = self.bits.clone();
        bits.union_with(&other.bits);
        NodeSet { bits }
    }

    /// Nodes in both sets.
    #[must_use]
    pub fn intersection(&self, other: &NodeSet) -> NodeSet {
        let mut bits = self.bits.clone();
        bits.intersect_with(&other.bits);
        NodeSet { bits }
    }

    /// Nodes in `self` and not in `other`.
    #[must_use]
    pub fn difference(&self, other: &NodeSet) -> NodeSet {
        let mut bits = self.bits.clone();
        bits.difference_with(&other.bits);
        NodeSet { bits }
    }

    /// Whether the two have a node in common.
    pub fn intersects(&self, other: &NodeSet) -> bool {
        !self.bits.is_disjoint(&other.bits)
    }

    /// Whether every node of `self` is in `other`.
    pub fn is_subset(&self, other: &NodeSet) -> bool {
        self.bits.is_subset(&other.bits)
    }

    /// Splits the set into two halves of nearly equal size, the smaller ids first, for a bisection.
    pub fn halves(&self) -> (NodeSet, NodeSet) {
        let low: NodeSet = self.iter().take(self.len().div_ceil(2)).collect();
        let high = self.difference(&low);
        (low, high)
    }

    /// The runs of consecutive ids, both ends included.
    pub fn ranges(&self) -> Vec<(NodeId, NodeId)> {
        let mut runs: Vec<(NodeId, NodeId)> = Vec::new();
        for node in self.iter() {
            match runs.last_mut() {
                Some((_, last)) if last.0 + 1 == node.0 => *last = node,
                _ => runs.push((node, node)),
            }
        }
        runs
    }
}

impl PartialEq for NodeSet {
    fn eq(&self, other: &NodeSet) -> bool {
        // Capacity is not part of the value.
        self.bits.is_subset(&other.bits) && other.bits.is_subset(&self.bits)
    }
}
impl Eq for NodeSet {}

impl FromIterator<NodeId> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeId>>(nodes: I) -> NodeSet {
        let mut set = NodeSet::new();
        set.extend(nodes);
        set
    }
}

impl Extend<NodeId> for NodeSet {
    fn extend<I: IntoIterator<Item = NodeId>>(&mut self, nodes: I) {
        for node in nodes {
            self.insert(node);
        }
    }
}

impl fmt::Display for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |(first, last): (NodeId, NodeId)| match last.0 - first.0 {
            0 => format!("{}", first.0),
            _ => format!("{}-{}", first.0, last.0),
        };
        match self.ranges().as_slice() {
            [] => f.write_str("no node"),
            [(first, last)] if first == last => write!(f, "{first}"),
            runs => {
                let parts: Vec<String> = runs.iter().copied().map(part).collect();
                write!(f, "n[{}]", parts.join(","))
            }
        }
    }
}

impl fmt::Debug for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for NodeSet {
    type Err = NodeSetParseError;

    fn from_str(text: &str) -> Result<NodeSet, NodeSetParseError> {
        let names = NodeNames::parse(text, MAX_NODES).map_err(|why| NodeSetParseError::Syntax {
            text: text.to_owned(),
            why: why.to_string(),
        })?;
        names.iter().map(|name| parse_id(&name)).collect()
    }
}

fn parse_id(name: &str) -> Result<NodeId, NodeSetParseError> {
    let id = name.strip_prefix('n').and_then(|digits| digits.parse::<u32>().ok());
    match id {
        Some(id) if id < MAX_NODES => Ok(NodeId(id)),
        _ => Err(NodeSetParseError::NotANodeId { name: name.to_owned() }),
    }
}

impl Serialize for NodeSet {
    /// Writes runs of consecutive ids, which are short for the sets that occur.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.ranges().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for NodeSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<NodeSet, D::Error> {
        NodeRuns::deserialize(deserializer).map(NodeSet::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn set(ids: &[u32]) -> NodeSet {
        ids.iter().copied().map(NodeId).collect()
    }

    #[test]
    fn prints_and_reads_the_notation_of_clustershell() {
        assert_eq!(set(&[1, 2, 3, 7]).to_string(), "n[1-3,7]");
        assert_eq!(set(&[5]).to_string(), "n5");
        assert_eq!("n[1-3,7]".parse::<NodeSet>(), Ok(set(&[1, 2, 3, 7])));
        assert_eq!("n[1-8/2],n12".parse::<NodeSet>(), Ok(set(&[1, 3, 5, 7, 12])));
    }

    #[test]
    fn a_malformed_node_list_is_refused_with_the_reason() {
        for text in [
            "n[1-",
            "n[3-1]",
            "n[1-4/0]",
            "4-5/00",
            "host7",
            "n99999999",
            "n[1-4000000000]",
            "8-999999999\n\0",
        ] {
            let error = text.parse::<NodeSet>().expect_err(text);
            assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn hostile_runs_are_refused() {
        let overlapping = vec![(NodeId(1), NodeId(5)), (NodeId(5), NodeId(6))];
        let huge = vec![(NodeId(0), NodeId(u32::MAX))];
        let backwards = vec![(NodeId(5), NodeId(1))];
        for runs in [overlapping, huge, backwards] {
            let bytes = postcard::to_stdvec(&runs).expect("encodes");
            assert!(postcard::from_bytes::<NodeSet>(&bytes).is_err());
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_tree_set(
            a in prop::collection::btree_set(0u32..200, 0..40),
            b in prop::collection::btree_set(0u32..200, 0..40),
        ) {
            let of = |ids: &BTreeSet<u32>| ids.iter().copied().map(NodeId).collect::<NodeSet>();
            let (x, y) = (of(&a), of(&b));
            prop_assert_eq!(x.union(&y), of(&a.union(&b).copied().collect()));
            prop_assert_eq!(x.intersection(&y), of(&a.intersection(&b).copied().collect()));
            prop_assert_eq!(x.difference(&y), of(&a.difference(&b).copied().collect()));
            prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
            prop_assert_eq!(x.intersects(&y), a.intersection(&b).next().is_some());
            prop_assert_eq!(x.len(), a.len());
            let bytes = postcard::to_stdvec(&x).expect("encodes");
            prop_assert_eq!(postcard::from_bytes::<NodeSet>(&bytes).expect("decodes"), x.clone());
            let runs = postcard::from_bytes::<NodeRuns>(&bytes).expect("decodes");
            prop_assert!((0..201).all(|id| runs.contains(NodeId(id)) == a.contains(&id)));
            if !x.is_empty() {
                prop_assert_eq!(x.to_string().parse::<NodeSet>().expect("own notation"), x.clone());
                let (low, high) = x.halves();
                prop_assert_eq!(low.union(&high), x.clone());
                prop_assert!(!low.intersects(&high));
            }
        }
    }
}
