//! What nodes had issued when they compared, on its way to the root with their replies: the answer waits
//! there until that has its place.

use crate::wire::RequestId;
use std::collections::BTreeMap;
use storm_primitives::{NodeId, NodeSet};

/// Of this node and of those below, since the last frame of replies.
#[derive(Debug, Default)]
pub(super) struct Issued {
    below: BTreeMap<NodeId, RequestId>,
    /// This node has compared something.
    compared: bool,
    /// The last request of this node that the root may not have, and that waits there for nothing.
    own: Option<RequestId>,
}

impl Issued {
    pub(super) fn set_own(&mut self, request: Option<RequestId>) {
        self.own = request;
    }

    pub(super) fn has_compared(&mut self) {
        self.compared = true;
    }

    /// Takes what a child says of `below`: of others it cannot say anything.
    pub(super) fn add(&mut self, below: &NodeSet, issued: Vec<(NodeId, RequestId)>) {
        for (node, request) in issued.into_iter().filter(|(node, _)| below.contains(*node)) {
            let last = self.below.entry(node).or_insert(request);
            *last = (*last).max(request);
        }
    }

    /// For the next frame of `node`.
    pub(super) fn take(&mut self, node: NodeId) -> Vec<(NodeId, RequestId)> {
        if let (true, Some(own)) = (std::mem::take(&mut self.compared), self.own) {
            self.below.insert(node, own);
        }
        std::mem::take(&mut self.below).into_iter().collect()
    }

    /// All is asked again.
    pub(super) fn clear(&mut self) {
        self.below.clear();
    }
}
