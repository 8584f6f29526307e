//! The nodes: their configuration, and their reports of themselves.

use crate::api::{ApiError, ErrorCode};
use crate::{NodeBook, NodeConfig};
use std::collections::BTreeMap;
use storm_primitives::{
    Instant, MAX_NODES, NodeId, NodeNames, NodeNamesError, NodeSet, fold_names,
};
use storm_rm::message::{NodeInfo, NodeStatus};
use storm_sched::{PendingReason, Shortage};

/// All compute nodes.
#[derive(Debug)]
pub(super) struct NodeTable {
    /// In the order of the configuration.
    entries: Vec<NodeEntry>,
    by_id: BTreeMap<NodeId, usize>,
    /// Names of nodes that are not configured any more.
    former: BTreeMap<NodeId, String>,
    up: NodeSet,
    /// The ends of absences of nodes that are expected back. Plans count these nodes as up.
    expected: BTreeMap<NodeId, Instant>,
}

/// One compute node.
#[derive(Debug)]
pub(super) struct NodeEntry {
    id: NodeId,
    pub(super) name: String,
    pub(super) pes: u32,
    /// Memory that jobs may have, in bytes, where memory is counted.
    pub(super) memory_bytes: Option<u64>,
    pub(super) features: Vec<String>,
    /// Why the node takes no further jobs, if an administrator has drained the node.
    pub(super) drained: Option<String>,
    /// Whether it was up at some time since this manager started.
    pub(super) seen: bool,
    /// How it was lost the last time. Without meaning if it was never up.
    pub(super) going: Going,
    /// Why it was refused, if it was.
    pub(super) refused: Option<String>,
    pub(super) info: Option<NodeInfo>,
    pub(super) status: Option<NodeStatus>,
}

/// How a node was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Going {
    /// The node is silent, or has reported that nothing is left there: a wait for the node might
    /// never end.
    Lost,
    /// The node's host has closed its link.
    LinkClosed,
    /// The host has closed the link because the process of the Node Manager ended.
    ProcessEnded,
}

impl NodeTable {
    /// The table of `nodes`; each has the id in the same place of `ids`.
    pub(super) fn new(nodes: &[NodeConfig], ids: &[NodeId], book: &NodeBook) -> NodeTable {
        let entry = |(node, id): (&NodeConfig, &NodeId)| NodeEntry {
            id: *id,
            name: node.name.clone(),
            pes: node.pes,
            memory_bytes: node.memory_bytes,
            features: node.features.clone(),
            drained: None,
            seen: false,
            going: Going::Lost,
            refused: None,
            info: None,
            status: None,
        };
        let by_id: BTreeMap<NodeId, usize> = ids.iter().copied().zip(0..).collect();
        let former = book.iter().filter(|(_, id)| !by_id.contains_key(id));
        NodeTable {
            former: former.map(|(name, id)| (id, name.to_owned())).collect(),
            entries: nodes.iter().zip(ids).map(entry).collect(),
            by_id,
            up: NodeSet::new(),
            expected: BTreeMap::new(),
        }
    }

    pub(super) fn up(&self) -> &NodeSet {
        &self.up
    }

    /// A node is up. Returns whether it was not before.
    pub(super) fn came(&mut self, node: NodeId) -> bool {
        if let Some(entry) = self.get_mut(node) {
            entry.seen = true;
        }
        self.expected.remove(&node);
        self.up.insert(node)
    }

    /// A node is not up any more, or more is known of its loss. Returns whether it was up before.
    pub(super) fn went(&mut self, node: NodeId, going: Going) -> bool {
        if let Some(entry) = self.get_mut(node) {
            entry.going = going;
        }
        self.up.remove(node)
    }

    /// A node that is not up is expected back until this time.
    pub(super) fn expect(&mut self, node: NodeId, until: Instant) {
        self.expected.insert(node, until);
    }

    pub(super) fn is_expected(&self, node: NodeId) -> bool {
        self.expected.contains_key(&node)
    }

    /// A node is not expected back any longer. Returns whether it was.
    pub(super) fn expect_no_more(&mut self, node: NodeId) -> bool {
        self.expected.remove(&node).is_some()
    }

    /// When the next node is not expected back any longer.
    pub(super) fn next_late(&self) -> Option<Instant> {
        self.expected.values().min().copied()
    }

    /// The nodes that are not expected back any longer from now on.
    pub(super) fn take_late(&mut self, now: Instant) -> Vec<NodeId> {
        let late = self.expected.iter().filter(|(_, until)| **until <= now);
        let late: Vec<NodeId> = late.map(|(node, _)| *node).collect();
        self.expected.retain(|_, until| *until > now);
        late
    }

    /// Sets which nodes, by name and with a reason, take no further jobs. All other nodes do.
    pub(super) fn set_drained(&mut self, drained: &BTreeMap<String, String>) {
        for entry in &mut self.entries {
            entry.drained = drained.get(&entry.name).cloned();
        }
    }

    /// The drained nodes by name, each with its reason.
    pub(super) fn drained(&self) -> BTreeMap<String, String> {
        let drained = |entry: &NodeEntry| Some((entry.name.clone(), entry.drained.clone()?));
        self.entries.iter().filter_map(drained).collect()
    }

    /// The nodes of a folded list.
    pub(super) fn of_list(&self, names: &str) -> Result<Vec<NodeId>, ApiError> {
        let unfolded = NodeNames::parse_of_client(names, MAX_NODES).map_err(|why| {
            let code = match why {
                NodeNamesError::TooMany { .. } => ErrorCode::NoSuchNode,
                _ => ErrorCode::BadRequest,
            };
            ApiError::new(code, format!("{names:?} is not a list of nodes"))
                .why(why.to_string())
                .hint("storm nodes lists the nodes")
        })?;
        let known: BTreeMap<&str, NodeId> =
            self.iter().map(|(id, entry)| (entry.name.as_str(), id)).collect();
        let find = |name: String| {
            known.get(name.as_str()).copied().ok_or_else(|| {
                ApiError::new(ErrorCode::NoSuchNode, format!("there is no node {name}"))
                    .hint("storm nodes lists them")
            })
        };
        // If one more node is named than exist, one of these is unknown.
        let most = known.len() + 1;
        let found: Vec<NodeId> = unfolded.iter().take(most).map(find).collect::<Result<_, _>>()?;
        match found.is_empty() {
            true => Err(ApiError::new(ErrorCode::BadRequest, "no node is named")),
            false => Ok(found),
        }
    }

    pub(super) fn get(&self, node: NodeId) -> Option<&NodeEntry> {
        self.entries.get(*self.by_id.get(&node)?)
    }

    /// A node describes itself, and is refused for this reason, if any.
    pub(super) fn describe(&mut self, node: NodeId, info: NodeInfo, refused: Option<String>) {
        if let Some(entry) = self.get_mut(node) {
            (entry.info, entry.refused) = (Some(info), refused);
        }
    }

    /// A node reports its status.
    pub(super) fn set_status(&mut self, node: NodeId, status: NodeStatus) {
        if let Some(entry) = self.get_mut(node) {
            entry.status = Some(status);
        }
    }

    fn get_mut(&mut self, node: NodeId) -> Option<&mut NodeEntry> {
        self.entries.get_mut(*self.by_id.get(&node)?)
    }

    pub(super) fn name(&self, node: NodeId) -> String {
        let former = || self.former.get(&node).cloned().unwrap_or_else(|| node.to_string());
        self.get(node).map_or_else(former, |entry| entry.name.clone())
    }

    /// Whether the node of this name offers less than is configured.
    pub(super) fn is_refused(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.name == name && entry.refused.is_some())
    }

    /// Why the first refused node among those that a job waits for was refused, as the end of its
    /// reason.
    pub(super) fn why_refused(&self, reason: &PendingReason) -> String {
        let Some(Shortage::Unavailable { absent, .. }) = reason.shortage() else {
            return String::new();
        };
        let refused = |entry: &&NodeEntry| {
            entry.refused.is_some() && absent.iter().any(|node| node.name == entry.name)
        };
        let first = self.entries.iter().find(refused);
        let why = first.and_then(|entry| Some((&entry.name, entry.refused.as_ref()?)));
        why.map_or_else(String::new, |(name, why)| format!(" ({name} was refused: {why})"))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (NodeId, &NodeEntry)> {
        self.entries.iter().map(|entry| (entry.id, entry))
    }

    /// The nodes of `set` that are no longer configured.
    pub(super) fn not_configured(&self, set: &NodeSet) -> NodeSet {
        set.iter().filter(|node| !self.by_id.contains_key(node)).collect()
    }

    /// Names of the nodes of a set, folded as ClusterShell does: `n[1-4]`.
    pub(super) fn fold(&self, set: &NodeSet) -> String {
        let names: Vec<String> = set.iter().map(|node| self.name(node)).collect();
        fold_names(&names)
    }
}
