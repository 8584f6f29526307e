//! Which node has which id: by a configured table, or in the order of joining.

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
    /// Only the nodes named, the first being `n1`.
    pub fn fixed<S: Into<String>>(names: impl IntoIterator<Item = S>) -> NameTable {
        let ids: BTreeMap<String, NodeId> =
            names.into_iter().zip(1..).map(|(name, id)| (name.into(), NodeId(id))).collect();
        NameTable { max_nodes: ids.len() as u32, ids, open: false }
    }

    /// Any name: the first unknown one that joins becomes `n1`, and so on up to
    /// `max_nodes`. A name keeps its id for the life of the root.
    pub fn open(max_nodes: u32) -> NameTable {
        NameTable { ids: BTreeMap::new(), max_nodes, open: true }
    }

    /// The id of `name`.
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
