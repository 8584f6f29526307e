//! Who is in the cluster, as this node knows it.
//!
//! Section 2.4.3 of the paper isolates failed nodes with the primitives; where
//! the network itself notices that a node is gone, it says so here. Knowledge
//! is local and may lag; the order of operations does not depend on it.

use crate::{Epoch, Incarnation, NodeId, NodeSet};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// The nodes that are alive and joined. Clones share the view.
#[derive(Clone, Default)]
pub struct Membership {
    inner: Rc<RefCell<Inner>>,
}

#[derive(Default)]
struct Inner {
    epoch: Epoch,
    alive: BTreeMap<NodeId, Incarnation>,
    waiters: Vec<Waker>,
}

impl Membership {
    /// A view with nobody in it.
    pub fn new() -> Membership {
        Membership::default()
    }

    /// The nodes alive now.
    pub fn alive(&self) -> NodeSet {
        self.inner.borrow().alive.keys().copied().collect()
    }

    /// Which life of `node` is alive now, if any.
    pub fn incarnation(&self, node: NodeId) -> Option<Incarnation> {
        self.inner.borrow().alive.get(&node).copied()
    }

    /// All living nodes with their incarnations.
    pub fn incarnations(&self) -> BTreeMap<NodeId, Incarnation> {
        self.inner.borrow().alive.clone()
    }

    /// The version of this view.
    pub fn epoch(&self) -> Epoch {
        self.inner.borrow().epoch
    }

    /// Waits until the view is not that of `seen` any more; the new version.
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
        self.update(|alive| alive.insert(node, incarnation) != Some(incarnation));
    }

    /// Records that `node` is gone. For backends.
    pub fn lost(&self, node: NodeId) {
        self.update(|alive| alive.remove(&node).is_some());
    }

    fn update(&self, change: impl FnOnce(&mut BTreeMap<NodeId, Incarnation>) -> bool) {
        let waiters = {
            let mut inner = self.inner.borrow_mut();
            if !change(&mut inner.alive) {
                return;
            }
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
