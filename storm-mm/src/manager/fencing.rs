//! Jobs that are to run again while a lost node may still run ranks of their last run. They wait
//! until every lost node is *fenced*: it is back and has ended the ranks, or it has ended them by
//! itself (`docs/decisions/0007-no-run-twice.md`).
//!
//! The manager cannot know how an unreachable node was lost. A node whose power failed is waited
//! for just like a node behind a broken switch. The manager relies on a node's keeper only if the
//! process of the Node Manager is known to have ended.

use super::returning::HeldRuns;
use super::{Core, Durable, JobTimer, Notice, Timer};
use crate::api::{JobState, Reply};
use std::collections::BTreeMap;
use std::time::Duration;
use storm_primitives::{Instant, NodeId, NodeSet};
use storm_rm::JobId;

/// Longest time for a returned node to kill the jobs that it is told not to continue: its host may
/// be overrun.
const KILL_TIME: Duration = Duration::from_secs(1);
/// Longest time for the keeper of a dead Node Manager to kill its ranks: the keeper has nothing
/// else to do. Must be less than the second after which a job with a dead node is to run again.
pub(super) const KEEPER_TIME: Duration = Duration::from_millis(750);

/// Lost nodes, and until when they may still run ranks.
pub(super) type Lost = BTreeMap<NodeId, Instant>;

/// The wait of a job that is to run again for the fencing of its lost nodes.
#[derive(Clone, Debug)]
pub(super) struct Fencing {
    /// Nodes that may still run ranks of it, and when these have certainly ended.
    until: Lost,
}

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
        self.fencing.insert(job, Fencing { until: lost });
        let reason = self.fencing_reason(now, job);
        let state = Reply::State { job, state: JobState::Pending, reason, node_list: None };
        self.effects.durable.push(Durable::Notify(job, Notice::Event(state)));
        self.queue_if_fenced(now, job);
    }

    /// The longest times for which these nodes may still run ranks, if they are lost now.
    pub(super) fn lost_now(&self, now: Instant, nodes: &NodeSet) -> Lost {
        nodes.iter().map(|node| (node, now + self.config.requeue_fence)).collect()
    }

    /// A lost node runs none of its ranks after `until`.
    pub(super) fn fenced_until(&mut self, now: Instant, node: NodeId, until: Instant) {
        for live in self.live.values_mut() {
            live.lost.entry(node).and_modify(|known| *known = (*known).min(until));
        }
        self.shorten(now, node, |_, known| known.min(until));
    }

    /// A node is back with its memory, and is told which jobs to continue: never a job that is to
    /// run again.
    pub(super) fn fenced_by(&mut self, now: Instant, node: NodeId, held: Option<&HeldRuns>) {
        let holds = |job: &JobId| held.is_some_and(|held| held.any_of(*job));
        for (_, live) in self.live.iter_mut().filter(|(job, _)| !holds(job)) {
            live.lost.remove(&node);
        }
        self.shorten(now, node, |job, known| match holds(job) {
            true => known.min(now + KILL_TIME),
            false => now,
        });
    }

    /// Changes until when jobs wait for the fencing of this node.
    fn shorten(
        &mut self,
        now: Instant,
        node: NodeId,
        shorter: impl Fn(&JobId, Instant) -> Instant,
    ) {
        let mut hit: Vec<JobId> = Vec::new();
        for (job, fencing) in &mut self.fencing {
            if let Some(until) = fencing.until.get_mut(&node) {
                *until = shorter(job, *until);
                hit.push(*job);
            }
        }
        hit.into_iter().for_each(|job| self.queue_if_fenced(now, job));
    }

    /// Queues a job again if no node can run its ranks any more. Otherwise looks again when the
    /// next node cannot.
    pub(super) fn queue_if_fenced(&mut self, now: Instant, job: JobId) {
        let Some(fencing) = self.fencing.get_mut(&job) else { return };
        fencing.until.retain(|_, until| *until > now);
        let Some(at) = fencing.until.values().min().copied() else {
            self.fencing.remove(&job);
            return self.queue_again(now, job);
        };
        let incarnation = self.jobs[&job].incarnation;
        self.effects.durable.push(Durable::Timer {
            at,
            timer: Timer::Job { job, incarnation, kind: JobTimer::Fenced },
        });
    }

    /// A job is not to run again after all. Returns whether it was waiting to.
    pub(super) fn forget_fencing(&mut self, job: JobId) -> bool {
        self.fencing.remove(&job).is_some()
    }

    /// Why a job that is to run again does not.
    pub(super) fn fencing_reason(&self, now: Instant, job: JobId) -> Option<String> {
        let until = &self.fencing.get(&job)?.until;
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
