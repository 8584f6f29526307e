//! One node's view of the live nodes of the cluster.
//!
//! Section 2.4.3 of the paper isolates failed nodes with the primitives. A network that
//! notices a dead node itself reports it here. The knowledge is local and may lag; the order
//! of operations does not depend on it.
//!
//! A view is a roster, which many views may share, plus the changes since. The views of many
//! thousand nodes in one process take no more room than one roster and the changes.

use crate::{Epoch, Incarnation, NodeId, NodeSet};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// A view keeps at least this many changes before it folds them into its roster.
const MIN_CHANGES_TO_FOLD: usize = 64;

/// The nodes that are alive and joined. Clones share the view.
#[derive(Clone, Default)]
pub struct Membership {
    inner: Rc<RefCell<Inner>>,
}

#[derive(Default)]
struct Inner {
    epoch: Epoch,
    roster: Rc<Roster>,
    /// The differences from the roster: an incarnation, or none for a dead node.
    changes: BTreeMap<NodeId, Option<Incarnation>>,
    /// The last incarnation of each node that is known to have ended with its process.
    ended: BTreeMap<NodeId, Incarnation>,
    /// Incarnations that ended with their links, closed by their hosts.
    closed: BTreeMap<NodeId, Incarnation>,
    waiters: Vec<Waker>,
}

/// The live nodes at one moment.
#[derive(Default)]
pub(crate) struct Roster {
    alive: NodeSet,
    /// By node. The entry of a dead node means nothing.
    lives: Vec<Incarnation>,
}

impl FromIterator<(NodeId, Incarnation)> for Roster {
    fn from_iter<I: IntoIterator<Item = (NodeId, Incarnation)>>(lives: I) -> Roster {
        let mut roster = Roster::default();
        for (node, life) in lives {
            roster.alive.insert(node);
            if roster.lives.len() <= node.index() {
                roster.lives.resize(node.index() + 1, Incarnation::default());
            }
            roster.lives[node.index()] = life;
        }
        roster
    }
}

impl Inner {
    fn incarnation(&self, node: NodeId) -> Option<Incarnation> {
        match self.changes.get(&node) {
            Some(change) => *change,
            None if self.roster.alive.contains(node) => {
                self.roster.lives.get(node.index()).copied()
            }
            None => None,
        }
    }

    fn alive(&self) -> NodeSet {
        let mut alive = self.roster.alive.clone();
        for (node, life) in &self.changes {
            match life {
                Some(_) => alive.insert(*node),
                None => alive.remove(*node),
            };
        }
        alive
    }

    fn incarnations(&self) -> impl Iterator<Item = (NodeId, Incarnation)> + '_ {
        let alive: Vec<NodeId> = self.alive().iter().collect();
        alive.into_iter().filter_map(|node| Some((node, self.incarnation(node)?)))
    }

    /// Makes the changes part of an own roster when there are more changes than entries in the
    /// roster. Each change is thus copied a constant number of times.
    fn fold(&mut self) {
        if self.changes.len() > MIN_CHANGES_TO_FOLD.max(self.roster.lives.len()) {
            self.roster = Rc::new(self.incarnations().collect());
            self.changes.clear();
        }
    }
}

impl Membership {
    /// An empty view.
    pub fn new() -> Membership {
        Membership::default()
    }

    /// The nodes alive now.
    pub fn alive(&self) -> NodeSet {
        self.inner.borrow().alive()
    }

    /// The living incarnation of `node`, if any.
    pub fn incarnation(&self, node: NodeId) -> Option<Incarnation> {
        self.inner.borrow().incarnation(node)
    }

    /// All living nodes with their incarnations.
    pub fn incarnations(&self) -> BTreeMap<NodeId, Incarnation> {
        self.inner.borrow().incarnations().collect()
    }

    /// The version of this view.
    pub fn epoch(&self) -> Epoch {
        self.inner.borrow().epoch
    }

    /// Waits until the view is newer than `seen`. Returns the new version.
    pub async fn changed(&self, seen: Epoch) -> Epoch {
        std::future::poll_fn(|cx| {
            let mut inner = self.inner.borrow_mut();
            if inner.epoch != seen {
                return Poll::Ready(inner.epoch);
            }
            if !inner.waiters.iter().any(|waker| waker.will_wake(cx.waker())) {
                inner.waiters.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    /// Records that `node` is alive. For backends.
    pub fn joined(&self, node: NodeId, incarnation: Incarnation) {
        self.change(node, Some(incarnation));
    }

    /// Records that `node` is no longer in the cluster. For backends.
    pub fn lost(&self, node: NodeId) {
        self.change(node, None);
    }

    /// Records that a node's process, the Node Manager, has ended, and with it this incarnation of
    /// the node. The node's keeper ends the jobs that the Node Manager had started, at once or when
    /// the time to keep them is over.
    ///
    /// For backends that can distinguish an ended process from an unreachable node. Call it before
    /// [`lost`](Self::lost).
    pub fn process_ended(&self, node: NodeId, incarnation: Incarnation) {
        self.inner.borrow_mut().ended.insert(node, incarnation);
    }

    /// Whether this incarnation of a node is known to have ended with its process. False means
    /// unknown.
    pub fn has_process_ended(&self, node: NodeId, incarnation: Incarnation) -> bool {
        self.inner.borrow().ended.get(&node) == Some(&incarnation)
    }

    /// Records that a node's host has closed its link, which ends this incarnation of the node. The
    /// host is running. Either the Node Manager continues without the link, or its keeper continues
    /// without the Node Manager. For backends. Call it before [`lost`](Self::lost).
    pub fn link_closed(&self, node: NodeId, incarnation: Incarnation) {
        self.inner.borrow_mut().closed.insert(node, incarnation);
    }

    /// Whether this incarnation of a node is known to have ended with its link. False means
    /// unknown.
    pub fn has_link_closed(&self, node: NodeId, incarnation: Incarnation) -> bool {
        let inner = self.inner.borrow();
        [&inner.closed, &inner.ended].iter().any(|all| all.get(&node) == Some(&incarnation))
    }

    /// Records that no node is in the cluster any more. For backends.
    pub fn lost_everyone(&self) {
        if !self.inner.borrow().alive().is_empty() {
            self.adopt(&Rc::default());
        }
    }

    /// Sets the view to a roster that others may share.
    pub(crate) fn adopt(&self, roster: &Rc<Roster>) {
        self.update(|inner| {
            inner.roster = roster.clone();
            inner.changes.clear();
        });
    }

    fn change(&self, node: NodeId, life: Option<Incarnation>) {
        if self.incarnation(node) == life {
            return;
        }
        self.update(|inner| {
            inner.changes.insert(node, life);
            inner.fold();
        });
    }

    fn update(&self, change: impl FnOnce(&mut Inner)) {
        let waiters = {
            let mut inner = self.inner.borrow_mut();
            change(&mut inner);
            inner.epoch.0 += 1;
            std::mem::take(&mut inner.waiters)
        };
        waiters.into_iter().for_each(Waker::wake);
    }
}

impl std::fmt::Debug for Membership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Membership({:?}, {})", self.epoch(), self.alive())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_tree_map(
            start in prop::collection::btree_map(0u32..300, 1u64..4, 0..100),
            changes in prop::collection::vec((0u32..300, prop::option::of(1u64..4)), 0..400),
        ) {
            let mut model: BTreeMap<NodeId, Incarnation> =
                start.into_iter().map(|(node, life)| (NodeId(node), Incarnation(life))).collect();
            let view = Membership::new();
            view.adopt(&Rc::new(model.iter().map(|(node, life)| (*node, *life)).collect()));
            for (node, life) in changes {
                let (node, life, before) = (NodeId(node), life.map(Incarnation), view.epoch());
                let old = match life {
                    Some(life) => { view.joined(node, life); model.insert(node, life) }
                    None => { view.lost(node); model.remove(&node) }
                };
                prop_assert_eq!(view.epoch() != before, old != life);
                prop_assert_eq!(view.incarnation(node), life);
            }
            prop_assert_eq!(view.alive(), model.keys().copied().collect::<NodeSet>());
            prop_assert_eq!(view.incarnations(), model);
            view.lost_everyone();
            prop_assert!(view.alive().is_empty());
        }
    }
}
