//! The clients attached to jobs, and the jobs whose nodes hold output until a client has caught up.

use super::subscriber::Subscriber;
use crate::api::{Reply, ReplySink};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use storm_rm::JobId;

/// The clients attached to each job.
#[derive(Default)]
pub(super) struct Subscribers {
    of_jobs: RefCell<BTreeMap<JobId, Vec<Rc<Subscriber>>>>,
    /// Jobs whose nodes were ordered to hold their output.
    held: RefCell<BTreeSet<JobId>>,
}

impl Subscribers {
    /// Attaches a client to a job.
    pub(super) fn add(&self, job: JobId, sink: ReplySink) -> Rc<Subscriber> {
        let subscriber = Rc::new(Subscriber::new(sink));
        self.of_jobs.borrow_mut().entry(job).or_default().push(subscriber.clone());
        subscriber
    }

    /// Detaches a client; false if nobody was attached to the job.
    pub(super) fn remove(&self, job: JobId, gone: &Rc<Subscriber>) -> bool {
        let mut all = self.of_jobs.borrow_mut();
        let Some(list) = all.get_mut(&job) else { return false };
        list.retain(|subscriber| !Rc::ptr_eq(subscriber, gone));
        if list.is_empty() {
            all.remove(&job);
        }
        true
    }

    /// Passes an event of a job to the clients attached to it.
    pub(super) fn push(&self, job: JobId, reply: &Reply) {
        let subscribers = self.of_jobs.borrow().get(&job).cloned().unwrap_or_default();
        for subscriber in subscribers {
            subscriber.push(reply.clone());
        }
    }

    /// Whether the nodes of a job are to hold its output now; `None` if they have received this
    /// order before.
    pub(super) fn hold(&self, job: JobId) -> Option<bool> {
        let behind = |all: &Vec<Rc<Subscriber>>| all.iter().any(|one| one.is_behind());
        let hold = self.of_jobs.borrow().get(&job).is_some_and(behind);
        let mut held = self.held.borrow_mut();
        let changed = if hold { held.insert(job) } else { held.remove(&job) };
        changed.then_some(hold)
    }

    /// The run of a job is over: its nodes hold no output any more.
    pub(super) fn run_is_over(&self, job: JobId) {
        self.held.borrow_mut().remove(&job);
    }

    /// The jobs whose nodes hold their output.
    pub(super) fn held(&self) -> Vec<JobId> {
        self.held.borrow().iter().copied().collect()
    }
}
