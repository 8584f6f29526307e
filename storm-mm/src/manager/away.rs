//! Nodes whose Node Managers have ended while their hosts run. The keepers there keep the jobs for
//! the next Node Managers (`docs/decisions/0130-a-node-managers-jobs-outlive-it.md`). Until then,
//! policies plan with these nodes (`docs/decisions/0154-a-node-that-is-away-keeps-its-place.md`).
//!
//! The manager does not wait for a silent node, since its host may be down.

use super::live::Left;
use super::node_table::Going;
use super::returns::KEEPER_TIME;
use super::{ClusterTimer, Core, Durable, Immediate, JobTimer, Timer};
use crate::job::Phase;
use std::time::Duration;
use storm_primitives::{Instant, NodeId, NodeSet};
use storm_rm::JobId;
use storm_rm::message::NodeReturn;
use storm_sched::Event;

impl Core {
    /// A node's host has closed the link. Either the Node Manager continues without the link, or
    /// its keeper continues without the Node Manager.
    pub fn node_left(&mut self, now: Instant, node: NodeId) {
        self.node_goes(now, node, Going::LinkClosed);
    }

    /// All nodes are expected back: this manager has begun on the journal of a former manager.
    pub(super) fn expect_all(&mut self, now: Instant) {
        let until = now + self.config.recovery_timeout;
        let nodes: Vec<NodeId> = self.nodes.iter().map(|(node, _)| node).collect();
        for node in nodes {
            if self.why_closed(node).is_none() {
                self.nodes.expect(node, until);
                self.tell_of_absence(now, node);
            }
        }
        self.arm_absence();
    }

    /// Until when a node that was lost as `going` states is expected back, if it is.
    pub(super) fn expected_until(
        &self,
        now: Instant,
        node: NodeId,
        going: Going,
    ) -> Option<Instant> {
        if going == Going::Lost || self.jobs.is_closed() || self.why_closed(node).is_some() {
            return None;
        }
        let returns = self.nodes.get(node)?.info.as_ref()?.returns?;
        Some(now + Duration::from_millis(returns.within_ms) + KEEPER_TIME)
    }

    /// Notifies the policies that a node is not up, and whether they are to plan with it.
    pub(super) fn tell_of_absence(&mut self, now: Instant, node: NodeId) {
        let expected = self.nodes.is_expected(node);
        for id in self.partitions.ids() {
            let Some(index) = self.partitions[id].index_of(node) else { continue };
            let event = if expected { Event::NodeAway(index) } else { Event::NodeDown(index) };
            self.handle_event(now, id, event);
        }
    }

    /// Sets the timer for the next node that is not expected back any longer.
    pub(super) fn arm_absence(&mut self) {
        if let Some(at) = self.nodes.next_late() {
            let timer = Timer::Cluster(ClusterTimer::Absence);
            self.effects.durable.push(Durable::Timer { at, timer });
        }
    }

    /// Nodes may have been away for too long: jobs may pass those that wait for them.
    pub(super) fn absence_timer(&mut self, now: Instant) {
        for node in self.nodes.take_late(now) {
            tracing::warn!(node = %self.node_name(node), "it is not expected back any longer");
            self.tell_of_absence(now, node);
        }
        let changed = self.partitions.ids().map(Immediate::SlicesChanged);
        self.effects.immediate.extend(changed);
        self.arm_absence();
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
        // A node that carries messages of ranks continues where its former Node Manager ended only
        // if that one was told to hand over.
        let waits = live.is_on_nodes()
            && matches!(record.phase, Phase::Starting | Phase::Running | Phase::Ending(_))
            && (!live.is_in_slices() || live.is_handed_over(node));
        waits.then(|| left(now, returns, record.spec.requeue, (going, self.config.requeue_fence)))
    }

    /// The job continues elsewhere, and waits for the node.
    pub(super) fn await_return(&mut self, job: JobId, node: NodeId, left: Left) {
        self.live.await_return(job, node, left);
        tracing::info!(%job, node = %self.node_name(node), "waits for its next Node Manager");
        self.arm_return(job);
        self.tell_away(job, self.recovery_reason(job));
    }

    /// Sets the timer of a job for its next node that will have been waited for long enough. A job
    /// has one such timer.
    pub(super) fn arm_return(&mut self, job: JobId) {
        let Some(live) = self.live.get(job) else { return };
        let incarnation = live.incarnation();
        if let Some(at) = live.next_late() {
            let timer = Timer::Job { job, incarnation, kind: JobTimer::Recovery };
            self.effects.durable.push(Durable::Timer { at, timer });
        }
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
