//! A set of nodes as messages carry it: runs of consecutive ids.
//!
//! A receiver mostly checks whether its own id is in the set. [`NodeRuns`] answers without building
//! a [`NodeSet`]; a set of one run needs no allocation.

use crate::{MAX_NODES, NodeId, NodeSet};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;

/// The first and the last node, both included.
type Run = (NodeId, NodeId);

/// Runs of consecutive ids, in order and disjoint.
#[derive(Clone, Debug, Default)]
pub struct NodeRuns {
    first: Option<Run>,
    others: Vec<Run>,
}

impl NodeRuns {
    /// Whether the node is in one of the runs.
    pub fn contains(&self, node: NodeId) -> bool {
        self.runs().any(|(first, last)| (first..=last).contains(&node))
    }

    fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        self.first.iter().chain(&self.others).copied()
    }
}

impl From<NodeRuns> for NodeSet {
    fn from(runs: NodeRuns) -> NodeSet {
        let mut set = NodeSet::new();
        for (first, last) in runs.runs() {
            set.insert_run(first, last);
        }
        set
    }
}

impl<'de> Deserialize<'de> for NodeRuns {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<NodeRuns, D::Error> {
        deserializer.deserialize_seq(RunsVisitor)
    }
}

struct RunsVisitor;

impl<'de> Visitor<'de> for RunsVisitor {
    type Value = NodeRuns;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("runs of node ids")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<NodeRuns, A::Error> {
        let mut runs = NodeRuns::default();
        let mut next_free = 0;
        while let Some((first, last)) = seq.next_element::<Run>()? {
            // Sorted and disjoint runs bound the work by MAX_NODES, also for hostile bytes.
            if first.0 < next_free || last < first || last.0 >= MAX_NODES {
                return Err(A::Error::custom("node runs out of order or out of range"));
            }
            next_free = last.0 + 1;
            match runs.first {
                None => runs.first = Some((first, last)),
                Some(_) => runs.others.push((first, last)),
            }
        }
        Ok(runs)
    }
}
