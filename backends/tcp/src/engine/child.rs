//! One child of a node, and how far it has been sent each transfer.

use super::Passed;
use crate::wire::StageId;
use std::collections::{BTreeMap, BTreeSet};
use storm_primitives::NodeSet;

/// One child, under the current view.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) below: NodeSet,
    pub(super) attached: bool,
    /// Operations that arrived before the child attached. The root's bound on unacknowledged
    /// operations limits their number.
    pub(super) held: Vec<Passed>,
    /// For each large transfer, how many bytes were sent to the child.
    pub(super) cursors: BTreeMap<StageId, u64>,
    /// Large transfers that the child and all nodes below it hold in full. The child may have
    /// received a transfer from an earlier parent that this node does not know yet.
    pub(super) holds: BTreeSet<StageId>,
}

impl Child {
    /// Forgets a large transfer that needs no further work.
    pub(super) fn forget(&mut self, stage: StageId) {
        self.holds.remove(&stage);
        self.cursors.remove(&stage);
    }

    pub(super) fn new(below: NodeSet) -> Child {
        Child {
            below,
            attached: false,
            held: Vec::new(),
            cursors: BTreeMap::new(),
            holds: BTreeSet::new(),
        }
    }
}
