//! One child of a node, and the progress of its frames.

use super::Passed;
use crate::wire::StageId;
use std::collections::{BTreeMap, BTreeSet};
use storm_primitives::NodeSet;

/// One child, under the current view.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) below: NodeSet,
    pub(super) attached: bool,
    /// Operations that came before the child attached. The root's bound on unacknowledged
    /// operations bounds them.
    pub(super) held: Vec<Passed>,
    /// The bytes of each large transfer that were sent to it.
    pub(super) cursors: BTreeMap<StageId, u64>,
    /// Large transfers that the child and all nodes below it hold in full. The child may hold a
    /// transfer that this node does not know yet, from an earlier parent.
    pub(super) holds: BTreeSet<StageId>,
}

impl Child {
    /// Forgets a large transfer that needs no more work.
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
