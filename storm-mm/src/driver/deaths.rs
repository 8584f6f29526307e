//! The deaths of nodes that the heartbeats must take into account. A heartbeat is meant for the
//! present incarnations of its nodes, so it leaves only after all deaths before it were handled
//! here.

use std::cell::{Cell, RefCell};
use storm_primitives::{Bell, Epoch, NodeSet};

/// Deaths of nodes.
#[derive(Default)]
pub(super) struct Deaths {
    /// Nodes whose deaths the queue of heartbeats has not received yet.
    died: RefCell<NodeSet>,
    news: Bell,
    /// The epoch of the membership up to which deaths were handled.
    handled: Cell<Epoch>,
    handled_news: Bell,
}

impl Deaths {
    /// Nodes died.
    pub(super) fn note(&self, dead: &NodeSet) {
        let mut died = self.died.borrow_mut();
        *died = died.union(dead);
        self.news.ring();
    }

    /// The deaths since the last call.
    pub(super) fn take(&self) -> NodeSet {
        self.died.take()
    }

    /// Waits for a death; returns at once if there was one since the last return.
    pub(super) async fn news(&self) {
        self.news.heard().await;
    }

    /// All deaths up to this epoch were handled.
    pub(super) fn are_handled(&self, epoch: Epoch) {
        self.handled.set(epoch);
        self.handled_news.ring();
    }

    /// The epoch up to which deaths were handled.
    pub(super) fn handled(&self) -> Epoch {
        self.handled.get()
    }

    /// Waits until further deaths were handled; returns at once if any were since the last return.
    pub(super) async fn handled_news(&self) {
        self.handled_news.heard().await;
    }
}
