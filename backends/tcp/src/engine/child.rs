//! One child of a node, and how far it has been served.

use super::Passed;
use crate::wire::StageId;
use std::collections::{BTreeMap, BTreeSet};
use storm_primitives::NodeSet;

/// One child, under the current view.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) below: NodeSet,
    pub(super) attached: bool,
    /// Operations that came before the child attached. The root bounds what is
    /// not acknowledged, and so this.
    pub(super) held: Vec<Passed>,
    /// How far each large transfer has been sent to it, in bytes.
    pub(super) cursors: BTreeMap<StageId, u64>,
    /// Large transfers that it and all below it hold in full. It may know of one
    /// before this node does, having had another parent.
    pub(super) holds: BTreeSet<StageId>,
}

impl Child {
    /// A large transfer needs no more attention.
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
