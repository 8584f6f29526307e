//! A node that is cut off, or whose Machine Manager is gone, keeps its jobs and joins again
//! (`docs/decisions/0006-jobs-survive-the-manager.md`).

use super::life_state::NewLife;
use super::{ExitReason, Life, Node};
use crate::Host;
use crate::core::Event;
use futures_util::future::{Either, select};
use std::convert::Infallible;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Instant, NodeId, Primitives, Runtime};
use storm_rm::message::Report;
use storm_rm::termination::Urgency;

/// Runs of jobs per report, which fit the smallest report queue with room for the ends of as many
/// ranks.
const HELD_PER_REPORT: usize = 64;

impl<P: Primitives, H: Host> Node<P, H> {
    /// Finds the next life after a life that ended for `reason`. Returns `None` if there may be
    /// none, or if `way_back` does not find it in time.
    pub(super) async fn return_after<L: Into<Life<P>>>(
        self: &Rc<Self>,
        reason: &ExitReason,
        way_back: &mut impl AsyncFnMut() -> Option<L>,
    ) -> Option<Life<P>> {
        let limit = self.config.manager_lost;
        let ends = self.life.is_asked_to_leave() || self.host.is_asked_to_end();
        if limit == Duration::ZERO || !reason.is_lost_link() || ends {
            return None;
        }
        self.end_life();
        let now = self.runtime.now();
        let since = self.life.lost(now);
        let limit = limit.saturating_sub(now - since);
        self.lease_for_fence(since);
        self.handle(Event::ManagerLost);
        self.cut_outputs();
        self.end_slices();
        tracing::warn!(node = %self.life.name(), %reason, ?limit, "keeping the jobs; joining again");
        // A new reason to end counts from now on.
        self.life.forget_exit();
        let (fence, way_back) = (pin!(self.keep_fence(since)), pin!(way_back()));
        let returning = pin!(self.runtime.timeout(limit, select(fence, way_back)));
        let leave = pin!(self.life.exit());
        match select(returning, leave).await {
            Either::Left((Some(Either::Right((life, _))), _)) => life.map(Into::into),
            Either::Left((Some(Either::Left((never, _))), _)) => match never {},
            Either::Left((None, _)) | Either::Right(_) => None,
        }
    }

    /// Completes when the Machine Manager, once seen, is no longer a member, or this node is not.
    pub(super) async fn lost_cluster(&self) {
        let membership = self.life.link().membership().clone();
        let essential = [NodeId::MM, self.life.id()];
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

    /// Begins the next life, perhaps under another id and with another plan.
    pub(super) fn begin_life(&self, life: Life<P>) {
        let NewLife { id, report_bytes } = self.life.begin(life);
        if let Some(id) = id {
            self.core.borrow_mut().renumber(id);
        }
        if let Some(bytes) = report_bytes {
            self.streams.outbox().set_item_limit(bytes);
        }
    }

    /// Ends the tasks and resources of a life in the cluster.
    pub(super) fn end_life(&self) {
        self.tasks.end_life();
        self.hear_no_bells();
        self.tasks.receive_no_more();
        self.recall_slices();
        self.slices.forget();
        self.leasing.end_life();
    }

    /// Leaves if the Machine Manager has no use for a node with fewer processing elements than
    /// `configured`. The refused node is this node, or an earlier node of its name. A node that may
    /// have jobs stays for these jobs.
    pub(super) fn refused(self: &Rc<Self>, configured: u32) {
        let offered = self.host.info(self.life.id()).pes;
        if offered >= configured {
            return;
        }
        if !self.life.is_later() {
            return self.life.give_up(ExitReason::TooFewPes { offered, configured });
        }
        if self.life.is_newly_refused(configured) {
            tracing::error!(
                node = %self.life.name(),
                offered,
                configured,
                "this node offers fewer PEs than are configured: it keeps its jobs and gets no others; \
                 start it with as many --pes when they have ended, or change `pes` in [[nodes]]"
            );
        }
    }

    /// Reports to the next Machine Manager the jobs that were kept.
    pub(super) fn say_what_is_held(self: &Rc<Self>) {
        // Drop the reports of the meantime: the next Machine Manager does not need them.
        drop(self.streams.outbox().drain());
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
