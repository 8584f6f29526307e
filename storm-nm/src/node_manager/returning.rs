//! A node that is cut off, or whose Machine Manager is gone, keeps its jobs and joins again
//! (`docs/decisions/0006-jobs-survive-the-manager.md`).

use super::{ExitReason, Life, Node};
use crate::Host;
use crate::core::Event;
use futures_util::future::{Either, select};
use std::convert::Infallible;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Instant, NodeId, Primitives, Runtime};
use storm_rm::heartbeat::ReceiveHeartbeatError;
use storm_rm::message::Report;
use storm_rm::remote_queue::{DequeueError, EnqueueError};
use storm_rm::termination::Urgency;

/// Runs of jobs per report, which fit the smallest report queue with room for the ends of as many
/// ranks.
const HELD_PER_REPORT: usize = 64;

impl<P: Primitives, H: Host> Node<P, H> {
    /// Finds the next life after one that ended for `reason`. Returns `None` if there may be none,
    /// or if `way_back` does not find it in time.
    pub(super) async fn return_after<L: Into<Life<P>>>(
        self: &Rc<Self>,
        reason: &ExitReason,
        way_back: &mut impl AsyncFnMut() -> Option<L>,
    ) -> Option<Life<P>> {
        let limit = self.config.manager_lost;
        let ends = self.asked_to_leave.get() || self.host.is_asked_to_end();
        if limit == Duration::ZERO || !is_lost_link(reason) || ends {
            return None;
        }
        self.end_life();
        let now = self.runtime.now();
        // A life that no manager accepted does not restart the time limit.
        let since = self.lost_since.get().unwrap_or(now);
        self.lost_since.set(Some(since));
        let limit = limit.saturating_sub(now - since);
        self.lease_for_fence(since);
        self.cut_outputs();
        self.end_slices();
        self.handle(Event::ManagerLost);
        tracing::warn!(node = %self.name, %reason, ?limit, "keeping the jobs; joining again");
        // A new reason to end counts from now on.
        self.exit.take();
        let (fence, way_back) = (pin!(self.keep_fence(since)), pin!(way_back()));
        let returning = pin!(self.runtime.timeout(limit, select(fence, way_back)));
        let leave = pin!(self.changed.until(|| self.exit.borrow().clone()));
        match select(returning, leave).await {
            Either::Left((Some(Either::Right((life, _))), _)) => life.map(Into::into),
            Either::Left((Some(Either::Left((never, _))), _)) => match never {},
            Either::Left((None, _)) | Either::Right(_) => None,
        }
    }

    /// Completes when the Machine Manager, once seen, is no longer a member, or this node is not.
    pub(super) async fn lost_cluster(&self) {
        let membership = self.primitives().membership().clone();
        let essential = [NodeId::MM, self.id.get()];
        let mut seen = [false; 2];
        loop {
            let epoch = membership.epoch();
            for (node, seen) in essential.iter().zip(&mut seen) {
                match (membership.incarnation(*node).is_some(), *seen) {
                    (true, _) => *seen = true,
                    (false, true) => return,
                    (false, false) => {}
                }
            }
            membership.changed(epoch).await;
        }
    }

    /// Ends in time the jobs that may be run elsewhere.
    async fn keep_fence(self: &Rc<Self>, since: Instant) -> Infallible {
        let passed = self.runtime.now() - since;
        self.runtime.sleep(self.config.requeue_fence.saturating_sub(passed)).await;
        self.handle(Event::GivenUp);
        std::future::pending().await
    }

    /// Ends the tasks and resources of a life in the cluster.
    pub(super) fn end_life(&self) {
        self.life_tasks.cancel();
        self.hear_no_bells();
        let receptions = self.receptions.take();
        drop(receptions);
        self.recall_slices();
        self.slices.forget();
        self.leasing.set(false);
    }

    /// Reports to the next Machine Manager the jobs that were kept.
    pub(super) fn say_what_is_held(self: &Rc<Self>) {
        // Drop the reports of the meantime: the next Machine Manager does not need them.
        drop(self.outbox.drain());
        let (held, first_run) = {
            let core = self.core.borrow();
            (core.held(), core.first_run())
        };
        let pieces = held.chunks(HELD_PER_REPORT).map(<[_]>::to_vec);
        let none = held.is_empty().then(Vec::new);
        for jobs in pieces.chain(none) {
            self.post(Report::Holds { jobs, first_run }, Urgency::AtOnce);
        }
    }
}

/// Whether only the link to the Machine Manager was lost.
pub(super) fn is_lost_link(reason: &ExitReason) -> bool {
    match reason {
        ExitReason::Disconnected
        | ExitReason::Unreachable(EnqueueError::Network(_))
        | ExitReason::Heartbeat(ReceiveHeartbeatError::Dequeue(DequeueError::Network(_))) => true,
        ExitReason::Shutdown
        | ExitReason::Unreachable(EnqueueError::TooLarge { .. })
        | ExitReason::Heartbeat(_)
        | ExitReason::HostLost
        | ExitReason::NoPlace { .. }
        | ExitReason::TooFewPes { .. }
        | ExitReason::AskedToEnd => false,
    }
}
