//! Jobs that are to run again while a lost node may still run ranks of their last run. They wait
//! until every lost node is *fenced*: it is back and has ended the ranks, or it has ended them by
//! itself (`docs/decisions/0007-no-run-twice.md`).
//!
//! The manager cannot determine how an unreachable node was lost. A node whose power failed is
//! waited for just like a node behind a broken switch. The manager relies on a node's keeper only
//! if the process of the Node Manager is known to have ended.

use super::live::Lost;
use super::returns::{Fenced, HeldRuns, KEEPER_TIME, KILL_TIME};
use super::{Core, Durable, JobTimer, Timer};
use std::time::Duration;
use storm_primitives::{Instant, NodeId, NodeSet};
use storm_rm::JobId;

impl Core {
    /// When the keeper of a dead Node Manager has ended its ranks of jobs with a lease. The keeper
    /// ends them at once, unless it keeps them for the next Node Manager.
    pub(super) fn keeper_ends(&self, now: Instant, node: NodeId) -> Instant {
        let returns = self.nodes.get(node).and_then(|entry| entry.info.as_ref()?.returns);
        let kept = returns
            .map_or(Duration::ZERO, |returns| Duration::from_millis(returns.leased_within_ms));
        match kept.is_zero() {
            true => now + self.config.requeue_fence.min(KEEPER_TIME),
            false => now + kept + KEEPER_TIME,
        }
    }

    /// Queues a job again as soon as no node of `lost` can run its ranks any more.
    pub(super) fn queue_when_fenced(&mut self, now: Instant, job: JobId, lost: Lost) {
        if self.config.requeue_fence == Duration::ZERO || lost.is_empty() {
            return self.queue_again(now, job);
        }
        self.returns.fence(job, lost);
        let reason = self.fencing_reason(now, job);
        self.notify_pending(job, reason);
        self.queue_if_fenced(now, job);
    }

    /// The longest times for which these nodes may still run ranks, if they are lost now.
    pub(super) fn lost_now(&self, now: Instant, nodes: &NodeSet) -> Lost {
        nodes.iter().map(|node| (node, now + self.config.requeue_fence)).collect()
    }

    /// A lost node runs none of its ranks after `until`.
    pub(super) fn fenced_until(&mut self, now: Instant, node: NodeId, until: Instant) {
        self.live.fenced_until(node, until);
        let hit = self.returns.shorten(node, |_, known| known.min(until));
        hit.into_iter().for_each(|job| self.queue_if_fenced(now, job));
    }

    /// A node is back with its memory, and receives the jobs to continue. No job that is to run
    /// again is among them.
    pub(super) fn fenced_by(&mut self, now: Instant, node: NodeId, held: Option<&HeldRuns>) {
        let holds = |job| held.is_some_and(|held| held.any_of(job));
        self.live.fenced_by(node, holds);
        let hit = self.returns.shorten(node, |job, known| match holds(job) {
            true => known.min(now + KILL_TIME),
            false => now,
        });
        hit.into_iter().for_each(|job| self.queue_if_fenced(now, job));
    }

    /// Queues a job again if no node can run its ranks any more. Otherwise checks again when the
    /// next node cannot.
    pub(super) fn queue_if_fenced(&mut self, now: Instant, job: JobId) {
        let at = match self.returns.fenced(now, job) {
            None => return,
            Some(Fenced::Now) => return self.queue_again(now, job),
            Some(Fenced::At(at)) => at,
        };
        let incarnation = self.jobs[&job].incarnation;
        self.effects.durable.push(Durable::Timer {
            at,
            timer: Timer::Job { job, incarnation, kind: JobTimer::Fenced },
        });
    }

    /// Whether a job that is to run again may still run on a lost node.
    pub(super) fn is_fenced(&self, job: JobId) -> bool {
        self.returns.fencing(job).is_some()
    }

    /// Why a job that is to run again does not run.
    pub(super) fn fencing_reason(&self, now: Instant, job: JobId) -> Option<String> {
        let until = self.returns.fencing(job)?;
        let lost = until.keys().copied().collect();
        let nodes = self.nodes.fold(&lost);
        let left = until.values().max()?.saturating_since(now).as_secs() + 1;
        let removed = self.nodes.not_configured(&lost);
        if !removed.is_empty() {
            let removed = self.nodes.fold(&removed);
            return Some(format!(
                "it is to run again, and {nodes} may still run it: it waits, {left} s at most; \
                 {removed} is not in the configuration any more"
            ));
        }
        Some(format!(
            "it is to run again, and {nodes} may still run it: it waits until {nodes} is back, \
             {left} s at most"
        ))
    }
}
