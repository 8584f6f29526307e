//! Says that jobs may go on that asked to be queued again, for as long as this node manager runs and
//! belongs to the cluster (`docs/decisions/0007-no-run-twice.md`).

use super::Node;
use crate::{Host, JobTask};
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Instant, Primitives, Runtime};

/// So often in its term a lease is renewed: it has most of its term left at any time, and the
/// processor is wanted seldom.
const RENEWALS: u32 = 8;

impl<P: Primitives, H: Host> Node<P, H> {
    /// Before the ranks of a job are started.
    pub(super) fn lease(self: &Rc<Self>, task: &JobTask) {
        if !task.spec().requeue || self.config.lease.is_zero() {
            return;
        }
        match self.leases_end.get() {
            // It was on its way when the manager was lost.
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

    /// Without a manager since an instant: for the fence, and no longer.
    pub(super) fn lease_for_fence(&self, since: Instant) {
        let end = since + self.config.lease.max(self.config.requeue_fence);
        self.leases_end.set(Some(end));
        self.renew_leases(end.saturating_since(self.runtime.now()));
    }

    /// With a new life in the cluster.
    pub(super) fn lease_again(self: &Rc<Self>) {
        self.leases_end.set(None);
        if self.renew_leases(self.config.lease) {
            self.keep_leases();
        }
    }

    /// Renews all leases in this life in the cluster, for as long as there are any.
    fn keep_leases(self: &Rc<Self>) {
        if self.leasing.replace(true) {
            return;
        }
        self.spawn_in_life(|node| async move {
            loop {
                node.runtime.sleep(node.config.lease / RENEWALS).await;
                if !node.renew_leases(node.config.lease) {
                    break node.leasing.set(false);
                }
            }
        });
    }

    /// Renews all leases once, for so long; whether there are any.
    fn renew_leases(&self, term: Duration) -> bool {
        let jobs = self.core.borrow().requeued();
        let any = !jobs.is_empty() && !self.config.lease.is_zero();
        if any {
            self.host.renew_leases(&jobs, term);
        }
        any
    }
}
