//! Renews the leases of jobs that requested requeueing (`docs/decisions/0007-no-run-twice.md`). The
//! renewals continue while this node manager runs and belongs to the cluster.

use super::Node;
use crate::{Host, JobTask};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Instant, Primitives, Runtime};

/// Number of renewals of a lease in its term. At any time most of the term is left, and renewing
/// takes little processor time.
const RENEWALS: u32 = 8;

/// The renewal of leases.
#[derive(Debug, Default)]
pub(super) struct Leasing {
    /// Whether leases are being renewed, in this life in the cluster.
    is_renewing: Cell<bool>,
    /// The latest end of leases while there is no manager.
    end: Cell<Option<Instant>>,
}

impl Leasing {
    /// Renews nothing until the next life: the tasks of this life have ended.
    pub(super) fn end_life(&self) {
        self.is_renewing.set(false);
    }
}

impl<P: Primitives, H: Host> Node<P, H> {
    /// Gives a job a lease before its ranks are started.
    pub(super) fn lease(self: &Rc<Self>, task: &JobTask) {
        if !task.spec().requeue || self.config.lease.is_zero() {
            return;
        }
        match self.leasing.end.get() {
            // The launch was on its way when the manager was lost.
            Some(end) => {
                let term = end.saturating_since(self.runtime.now());
                self.host.renew_leases(&[task.key()], term);
            }
            None => {
                self.host.renew_leases(&[task.key()], self.config.lease);
                self.keep_leases();
            }
        }
    }

    /// Limits leases to the fence, as there is no manager since an instant.
    pub(super) fn lease_for_fence(&self, since: Instant) {
        let end = since + self.config.lease.max(self.config.requeue_fence);
        self.leasing.end.set(Some(end));
        self.renew_leases(end.saturating_since(self.runtime.now()));
    }

    /// Renews leases again in a new life in the cluster.
    pub(super) fn lease_again(self: &Rc<Self>) {
        self.leasing.end.set(None);
        if self.renew_leases(self.config.lease) {
            self.keep_leases();
        }
    }

    /// Renews all leases in this life in the cluster, for as long as there are any.
    fn keep_leases(self: &Rc<Self>) {
        if self.leasing.is_renewing.replace(true) {
            return;
        }
        self.spawn_in_life(|node| async move {
            loop {
                node.runtime.sleep(node.config.lease / RENEWALS).await;
                if !node.renew_leases(node.config.lease) {
                    break node.leasing.is_renewing.set(false);
                }
            }
        });
    }

    /// Renews all leases once, for `term`. Returns whether there are any.
    fn renew_leases(&self, term: Duration) -> bool {
        let jobs = self.core.borrow().requeued();
        let any = !jobs.is_empty() && !self.config.lease.is_zero();
        if any {
            self.host.renew_leases(&jobs, term);
        }
        any
    }
}
