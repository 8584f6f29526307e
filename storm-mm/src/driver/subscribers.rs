//! The clients attached to jobs and steps, and those of which nodes hold the output until a client
//! has caught up.

use super::followed::Followed;
use super::subscriber::Subscriber;
use crate::api::{Reply, ReplySink};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The clients attached to each job or step.
#[derive(Default)]
pub(super) struct Subscribers {
    of_each: RefCell<BTreeMap<Followed, Vec<Rc<Subscriber>>>>,
    /// Jobs and steps whose nodes were ordered to hold their output.
    held: RefCell<BTreeSet<Followed>>,
    /// Steps whose clients' connections broke. Their output waits for the clients.
    abandoned: RefCell<BTreeSet<Followed>>,
}

impl Subscribers {
    /// Attaches a client.
    pub(super) fn add(&self, followed: Followed, sink: ReplySink) -> Rc<Subscriber> {
        let subscriber = Rc::new(Subscriber::new(sink));
        self.abandoned.borrow_mut().remove(&followed);
        self.of_each.borrow_mut().entry(followed).or_default().push(subscriber.clone());
        subscriber
    }

    /// Detaches a client; false if nobody was attached.
    pub(super) fn remove(&self, followed: Followed, gone: &Rc<Subscriber>) -> bool {
        let mut all = self.of_each.borrow_mut();
        let Some(list) = all.get_mut(&followed) else { return false };
        list.retain(|subscriber| !Rc::ptr_eq(subscriber, gone));
        if list.is_empty() {
            all.remove(&followed);
        }
        true
    }

    /// The connection of a step's last client broke: its output waits for the client.
    pub(super) fn abandon(&self, followed: Followed) {
        self.abandoned.borrow_mut().insert(followed);
    }

    /// Passes an event to the clients attached to a job or step.
    pub(super) fn push(&self, followed: Followed, reply: &Reply) {
        let subscribers = self.of_each.borrow().get(&followed).cloned().unwrap_or_default();
        for subscriber in subscribers {
            subscriber.push(reply.clone());
        }
    }

    /// Whether the nodes of a job are to hold its output now; `None` if they have received this
    /// order before.
    pub(super) fn hold(&self, followed: Followed) -> Option<bool> {
        let behind = |all: &Vec<Rc<Subscriber>>| all.iter().any(|one| one.is_behind());
        let hold = self.of_each.borrow().get(&followed).is_some_and(behind)
            || self.abandoned.borrow().contains(&followed);
        let mut held = self.held.borrow_mut();
        let changed = if hold { held.insert(followed) } else { held.remove(&followed) };
        changed.then_some(hold)
    }

    /// The run of a job is over: its nodes hold no output any more.
    pub(super) fn run_is_over(&self, followed: Followed) {
        self.abandoned.borrow_mut().remove(&followed);
        self.held.borrow_mut().remove(&followed);
    }

    /// The jobs whose nodes hold their output.
    pub(super) fn held(&self) -> Vec<Followed> {
        self.held.borrow().iter().copied().collect()
    }
}
