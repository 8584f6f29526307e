//! The requests that nodes had issued when they compared. The replies carry them to the root. The
//! root holds its answer until these requests have their places in the order.

use crate::wire::RequestId;
use std::collections::BTreeMap;
use storm_primitives::{NodeId, NodeSet};

/// The requests of this node and of the nodes below, since the last frame of replies.
#[derive(Debug, Default)]
pub(super) struct Issued {
    below: BTreeMap<NodeId, RequestId>,
    /// This node has compared something.
    compared: bool,
    /// The last prompt request of this node that the root may not have yet.
    own: Option<RequestId>,
}

impl Issued {
    pub(super) fn set_own(&mut self, request: Option<RequestId>) {
        self.own = request;
    }

    pub(super) fn has_compared(&mut self) {
        self.compared = true;
    }

    /// Takes a child's report about nodes in `below`. A child cannot speak for other nodes.
    pub(super) fn add(&mut self, below: &NodeSet, issued: Vec<(NodeId, RequestId)>) {
        for (node, request) in issued.into_iter().filter(|(node, _)| below.contains(*node)) {
            let last = self.below.entry(node).or_insert(request);
            *last = (*last).max(request);
        }
    }

    /// Takes everything for the next frame of `node`.
    pub(super) fn take(&mut self, node: NodeId) -> Vec<(NodeId, RequestId)> {
        if let (true, Some(own)) = (std::mem::take(&mut self.compared), self.own) {
            self.below.insert(node, own);
        }
        std::mem::take(&mut self.below).into_iter().collect()
    }

    /// The root asks everything again.
    pub(super) fn clear(&mut self) {
        self.below.clear();
    }
}
