//! Nodes whose Node Managers have ended while their hosts run. The keepers there keep the jobs for
//! the next Node Managers (`docs/decisions/0130-a-node-managers-jobs-outlive-it.md`).
//!
//! The manager does not wait for a silent node, since its host may be down.

use super::live::Left;
use super::node_table::Going;
use super::returns::KEEPER_TIME;
use super::{Core, Durable, JobTimer, Timer};
use crate::job::Phase;
use std::time::Duration;
use storm_primitives::{Instant, NodeId, NodeSet};
use storm_rm::JobId;
use storm_rm::message::NodeReturn;

impl Core {
    /// A node's host has closed the link. Either the Node Manager continues without the link, or
    /// its keeper continues without the Node Manager.
    pub fn node_left(&mut self, now: Instant, node: NodeId) {
        self.node_goes(now, node, Going::LinkClosed);
    }

    /// Whether, and until when, a job waits for the return of a node that was lost as `going`
    /// states.
    pub(super) fn awaits_return(
        &self,
        now: Instant,
        job: JobId,
        node: NodeId,
        going: Going,
    ) -> Option<Left> {
        if going == Going::Lost || self.jobs.is_closed() {
            return None;
        }
        let returns = self.nodes.get(node)?.info.as_ref()?.returns?;
        let (record, live) = (self.jobs.get(&job)?, self.live.get(job)?);
        // Nodes that carry the messages of ranks cannot continue where their former Node Managers
        // ended.
        let waits = live.is_on_nodes()
            && matches!(record.phase, Phase::Starting | Phase::Running | Phase::Ending(_))
            && !live.is_in_slices();
        waits.then(|| left(now, returns, record.spec.requeue, (going, self.config.requeue_fence)))
    }

    /// The job continues elsewhere, and waits for the node.
    pub(super) fn await_return(&mut self, job: JobId, node: NodeId, left: Left) {
        self.live.await_return(job, node, left);
        let Some(live) = self.live.get(job) else { return };
        let incarnation = live.incarnation();
        tracing::info!(%job, node = %self.node_name(node), "waits for its next Node Manager");
        let timer = Timer::Job { job, incarnation, kind: JobTimer::Recovery };
        self.effects.durable.push(Durable::Timer { at: left.until, timer });
        self.tell_away(job, self.recovery_reason(job));
    }

    /// Notifies the clients that follow a job why output of its ranks does not arrive.
    fn tell_away(&mut self, job: JobId, why: String) {
        if let Some(record) = self.jobs.get(&job) {
            let state = record.state();
            self.notify_state(job, state, Some(why));
        }
    }

    /// Notifies the clients that follow a job that these nodes did not return in time. Later output
    /// of their ranks is with their keepers alone, and the keepers end.
    pub(super) fn tell_given_up(&mut self, job: JobId, missing: &NodeSet) {
        let nodes = self.nodes.fold(missing);
        let lost = "output of its ranks there since then is lost";
        self.tell_away(job, format!("{nodes} did not come back in time, and {lost}"));
    }

    /// Notifies the clients that follow a job that none of its nodes is away any more. If a node
    /// did not return, the clients already have another notice.
    pub(super) fn tell_back(&mut self, job: JobId) {
        let (Some(record), Some(live)) = (self.jobs.get(&job), self.live.get(job)) else { return };
        if live.lost().is_empty() && matches!(record.phase, Phase::Running | Phase::Ending(_)) {
            let state = record.state();
            self.notify_state(job, state, None);
        }
    }
}

fn left(
    now: Instant,
    returns: NodeReturn,
    requeue: bool,
    (going, fence): (Going, Duration),
) -> Left {
    let NodeReturn { within_ms, leased_within_ms } = returns;
    let within = Duration::from_millis(if requeue { leased_within_ms } else { within_ms });
    // The ranks have ended once the keeper has also had its time to kill them.
    let until = now + within + KEEPER_TIME;
    let fenced = match going {
        Going::ProcessEnded => until,
        // A running Node Manager holds its leases for the fence.
        Going::LinkClosed | Going::Lost => until.max(now + fence),
    };
    Left { until, fenced }
}
