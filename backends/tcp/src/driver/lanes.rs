//! The two lanes from each child of this node.

use super::link::Link;
use crate::wire::{Lane, TreeHello};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use storm_primitives::{Epoch, NodeId};

/// The bound on children. A child may connect before this node knows that it is its child. No tree
/// has this many children per node.
const MAX_CHILDREN: usize = 4096;

/// The lanes by child.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    children: RefCell<BTreeMap<NodeId, ChildLanes>>,
}

#[derive(Debug, Default)]
struct ChildLanes {
    epoch: Epoch,
    /// Whether the child is on this host and takes references to its memory.
    is_here: bool,
    express: Option<Rc<Link>>,
    bulk: Option<Rc<Link>>,
}

impl Lanes {
    /// The express lane of `child`, and whether it takes references to memory of this host.
    pub(crate) fn express(&self, child: NodeId) -> Option<(Rc<Link>, bool)> {
        let children = self.children.borrow();
        let lanes = children.get(&child)?;
        Some((lanes.express.clone()?, lanes.is_here))
    }

    /// Wakes the bulk lane of `child`, which has something to send.
    pub(crate) fn poke_bulk(&self, child: NodeId) {
        if let Some(lanes) = self.children.borrow().get(&child)
            && let Some(bulk) = &lanes.bulk
        {
            bulk.poke();
        }
    }

    /// Closes the lanes of nodes that are not children under the view of `epoch`.
    pub(crate) fn keep_only(&self, epoch: Epoch, is_child: impl Fn(NodeId) -> bool) {
        self.children.borrow_mut().retain(|node, lanes| {
            let keep = is_child(*node) || lanes.epoch > epoch;
            if !keep {
                lanes.close();
            }
            keep
        });
    }

    pub(crate) fn close_all(&self) {
        std::mem::take(&mut *self.children.borrow_mut()).values().for_each(ChildLanes::close);
    }

    /// Adds a lane and closes the lane that it replaces. Returns false if there are too many lanes.
    pub(crate) fn add(&self, hello: &TreeHello, link: &Rc<Link>, is_here: bool) -> bool {
        let mut children = self.children.borrow_mut();
        if children.len() >= MAX_CHILDREN && !children.contains_key(&hello.node) {
            return false;
        }
        let lanes = children.entry(hello.node).or_default();
        lanes.epoch = hello.epoch;
        lanes.is_here = is_here;
        let slot = match hello.lane {
            Lane::Express => &mut lanes.express,
            Lane::Bulk => &mut lanes.bulk,
        };
        if let Some(old) = slot.replace(link.clone()) {
            old.close();
        }
        true
    }
}

impl ChildLanes {
    fn close(&self) {
        self.express.iter().chain(&self.bulk).for_each(|link| link.close());
    }
}
