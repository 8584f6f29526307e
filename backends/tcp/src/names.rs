//! The ids of nodes: from a table, or in the order of joining.

use crate::wire::Refusal;
use std::collections::BTreeMap;
use storm_primitives::NodeId;

/// The ids of the nodes' names.
#[derive(Clone, Debug)]
pub struct NameTable {
    ids: BTreeMap<String, NodeId>,
    max_nodes: u32,
    open: bool,
}

impl NameTable {
    /// Only the given names. The first is `n1`.
    pub fn fixed<S: Into<String>>(names: impl IntoIterator<Item = S>) -> NameTable {
        let ids: BTreeMap<String, NodeId> =
            names.into_iter().zip(1..).map(|(name, id)| (name.into(), NodeId(id))).collect();
        NameTable { max_nodes: ids.len() as u32, ids, open: false }
    }

    /// Only the given names, with these ids. Each id belongs to one name.
    pub fn numbered<S: Into<String>>(ids: impl IntoIterator<Item = (S, NodeId)>) -> NameTable {
        let ids: BTreeMap<String, NodeId> =
            ids.into_iter().map(|(name, id)| (name.into(), id)).collect();
        NameTable { max_nodes: ids.len() as u32, ids, open: false }
    }

    /// Accepts any name: the first unknown one that joins becomes `n1`, and so on up to
    /// `max_nodes`. A name keeps its id as long as the root runs.
    pub fn open(max_nodes: u32) -> NameTable {
        NameTable { ids: BTreeMap::new(), max_nodes, open: true }
    }

    /// The name of a node, for messages to users.
    pub(crate) fn name(&self, node: NodeId) -> String {
        let named = self.ids.iter().find(|(_, id)| **id == node);
        let unnamed =
            || if node == NodeId::MM { "the manager".to_owned() } else { node.to_string() };
        named.map_or_else(unnamed, |(name, _)| name.clone())
    }

    pub(crate) fn resolve(&mut self, name: &str) -> Result<NodeId, Refusal> {
        if let Some(id) = self.ids.get(name) {
            return Ok(*id);
        }
        if !self.open {
            return Err(Refusal::UnknownName { name: name.to_owned() });
        }
        let next = self.ids.len() as u32 + 1;
        if next > self.max_nodes {
            return Err(Refusal::Full { max_nodes: self.max_nodes });
        }
        self.ids.insert(name.to_owned(), NodeId(next));
        Ok(NodeId(next))
    }
}
