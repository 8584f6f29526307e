//! Nodes that come back to this manager: after a restart of the manager, or with the next Node
//! Manager of their name. A job goes on as soon as all its nodes have come back or are no longer
//! waited for.
//!
//! No rank of a run is ever started twice: a launch is repeated only to nodes that have kept their
//! memory and never heard of it.

use super::live_job::Launch;
use super::{Core, Durable, JobTimer, Timer};
use crate::job::{Cut, EndCause, Phase};
use std::collections::BTreeSet;
use std::time::Duration;
use storm_primitives::{Instant, NodeId, NodeSet};
use storm_rm::message::{Command, HeldJob, ResumedJob};
use storm_rm::{JobId, JobIncarnation};

/// How long the client of a surviving job has to come back. After that, the job's output is passed
/// on even if no client takes it.
const CLIENT_GRACE: Duration = Duration::from_secs(2);
/// The most runs of jobs that a node can report as held: as many as it can have rows and processing
/// elements for, and more.
const HELD_MAX: usize = 1 << 16;

/// The runs of jobs that a returning node says it holds.
#[derive(Clone, Debug, Default)]
pub(super) struct HeldRuns {
    runs: BTreeSet<(JobId, JobIncarnation)>,
    /// The earliest run of which the node can have heard; `None` if it can have heard of none.
    first_run: Option<JobIncarnation>,
}

impl HeldRuns {
    /// Takes one report of several. Runs past [`HELD_MAX`] are ignored.
    fn add(&mut self, jobs: Vec<HeldJob>, first_run: Option<JobIncarnation>) {
        self.first_run = first_run;
        let room = HELD_MAX.saturating_sub(self.runs.len());
        let runs = jobs.into_iter().map(|held| (held.job, held.incarnation));
        self.runs.extend(runs.take(room));
    }

    /// Whether the node holds any run of a job.
    pub(super) fn any_of(&self, job: JobId) -> bool {
        let runs = (job, JobIncarnation(0))..=(job, JobIncarnation(u32::MAX));
        self.runs.range(runs).next().is_some()
    }

    fn has(&self, job: JobId, run: JobIncarnation) -> bool {
        self.runs.contains(&(job, run))
    }

    /// Whether the node would hold this run if it had heard of the run.
    fn covers(&self, run: JobIncarnation) -> bool {
        self.first_run.is_some_and(|first| first <= run)
    }
}

/// Why a node that came back does not hold a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// It has kept its memory, and never heard of the run.
    NeverHeard,
    /// Its Node Manager ended under this manager and left nothing of the run: it had not begun to
    /// start the ranks, or its keeper has ended them.
    NotLeft,
    /// It may have run the ranks before it lost its memory.
    Unknown,
}

impl Core {
    /// A returning node reports the runs that it holds.
    pub(super) fn node_holds(
        &mut self,
        node: NodeId,
        jobs: Vec<HeldJob>,
        first_run: Option<JobIncarnation>,
    ) {
        self.held.entry(node).or_default().add(jobs, first_run);
    }

    /// A node has come back, or a new node in its place that remembers nothing. The node is told
    /// which of its jobs go on.
    pub(super) fn node_back(&mut self, now: Instant, node: NodeId, held: Option<HeldRuns>) {
        let held = held.unwrap_or_default();
        let awaited: Vec<JobId> = self
            .live
            .iter()
            .filter(|(_, live)| live.unheard.contains(node))
            .map(|(job, _)| *job)
            .collect();
        let run_of = |core: &Core, job: &JobId| core.live[job].incarnation;
        let (kept, lost): (Vec<JobId>, Vec<JobId>) =
            awaited.iter().partition(|job| held.has(**job, run_of(self, job)));
        let jobs = kept.iter().map(|job| self.resumed(*job, node)).collect();
        let next_run = JobIncarnation(self.next_incarnation);
        let answer = Command::Resume { jobs, next_run };
        self.effects.durable.push(Durable::Command(NodeSet::single(node), answer));
        let mut left_here = BTreeSet::new();
        for job in &awaited {
            if let Some(live) = self.live.get_mut(job) {
                live.unheard.remove(node);
                if live.away.remove(&node).is_some() {
                    left_here.insert(*job);
                }
                live.input_known.insert(node);
            }
        }
        for job in kept {
            if let Some(Phase::Ending(cause)) = self.jobs.get(&job).map(|record| &record.phase) {
                let cause = cause.clone();
                self.order_end(now, job, NodeSet::single(node), &cause);
            }
        }
        for job in lost {
            let loss = match (held.covers(run_of(self, &job)), left_here.contains(&job)) {
                (true, _) => Loss::NeverHeard,
                (false, true) => Loss::NotLeft,
                (false, false) => Loss::Unknown,
            };
            self.part_lost(now, job, node, loss);
        }
        for job in awaited {
            self.go_on_if_all_heard(now, job);
        }
    }

    /// A node that came back does not hold its part of a job.
    fn part_lost(&mut self, now: Instant, job: JobId, node: NodeId, loss: Loss) {
        let starting = self.jobs.get(&job).is_some_and(|record| record.phase == Phase::Starting);
        let Some(live) = self.live.get_mut(&job) else { return };
        match loss {
            Loss::NeverHeard if starting => {
                live.lacking.insert(node);
            }
            Loss::NotLeft if starting => {
                live.over.insert(node);
                self.launch_cut(now, job, node, Cut::Launch);
            }
            Loss::NeverHeard | Loss::NotLeft | Loss::Unknown => {
                live.over.insert(node);
                let node = self.node_name(node);
                self.end_job(now, job, EndCause::NodeLost { node });
            }
        }
    }

    fn resumed(&self, job: JobId, node: NodeId) -> ResumedJob {
        let live = &self.live[&job];
        ResumedJob {
            job,
            incarnation: live.incarnation,
            slot: live.slot,
            partition: live.partition,
            rows: live.rows,
            active_row: self.active_row(live.partition),
            coscheduling: self.partitions[usize::from(live.partition.0)].coscheduling(),
            hold_output: live.hold_output,
            input_known: live.input_known.contains(node),
        }
    }

    /// If all nodes of a job have come back, or are no longer waited for, the job goes on where it
    /// was.
    fn go_on_if_all_heard(&mut self, now: Instant, job: JobId) {
        let Some(phase) = self.jobs.get(&job).map(|record| record.phase.clone()) else { return };
        let Some(live) = self.live.get_mut(&job) else { return };
        if live.launch != Launch::Recovering || !live.unheard.is_empty() {
            return;
        }
        let lacking = std::mem::take(&mut live.lacking);
        let incarnation = live.incarnation;
        match phase {
            Phase::Starting if lacking == live.nodes => {
                // No node was told to launch it.
                live.launch = Launch::Staging;
                live.placed_at = now;
                live.hold_output = false;
                (live.ran, live.active_since) = (Duration::ZERO, None);
                let partition = live.partition;
                self.stage(now, job);
                return self.try_switch(now, partition);
            }
            Phase::Starting => self.launch_on(now, job, lacking),
            Phase::Running | Phase::Ending(_) => {
                live.launch = Launch::Started;
                live.over = live.over.union(&lacking);
                self.arm_time_limit(now, job);
            }
            Phase::Pending | Phase::Ended(_) => return,
        }
        tracing::info!(%job, "all its nodes are back");
        // The former manager may have changed the policy and not told them.
        self.tell_rows(job);
        if let Some(partition) = self.live.get(&job).map(|live| live.partition) {
            self.try_switch(now, partition);
        }
        let Some(live) = self.live.get(&job) else { return };
        if live.hold_output {
            let at = now + CLIENT_GRACE;
            self.effects.durable.push(Durable::Timer {
                at,
                timer: Timer::Job { job, incarnation, kind: JobTimer::Output },
            });
        }
        if !live.over.is_empty() && !live.is_over() {
            self.effects.durable.push(Durable::AwaitTermination(live.watch(job)));
        }
        self.finish_if_over(now, job);
    }

    /// Nodes have been waited for long enough: those that are not back have lost their part of the
    /// job.
    pub(super) fn recovery_timer(&mut self, now: Instant, job: JobId) {
        let Some(live) = self.live.get_mut(&job) else { return };
        if live.launch != Launch::Recovering {
            return;
        }
        // Nodes that left under this manager have their own, later times.
        let late = |node: &NodeId| live.away.get(node).is_none_or(|left| left.until <= now);
        let missing: NodeSet = live.unheard.iter().filter(late).collect();
        if missing.is_empty() {
            return;
        }
        live.unheard = live.unheard.difference(&missing);
        live.over = live.over.union(&missing);
        for node in missing.iter() {
            let until = live.away.remove(&node).map(|left| left.fenced);
            live.lost.insert(node, until.unwrap_or(now + self.config.requeue_fence));
        }
        let removed = self.nodes.not_configured(&missing);
        let cause = match removed.is_empty() {
            true => EndCause::NodeLost { node: self.nodes.fold(&missing) },
            false => EndCause::NodeRemoved { node: self.nodes.fold(&removed) },
        };
        self.end_job(now, job, cause);
        self.go_on_if_all_heard(now, job);
    }

    /// The client of a job has come back, or has had its time to: the job's output is passed on.
    pub fn release_output(&mut self, job: JobId) {
        let Some(live) = self.live.get_mut(&job) else { return };
        if std::mem::take(&mut live.hold_output) {
            let nodes = live.nodes.difference(&live.over).difference(&live.unheard);
            let command = Command::HoldOutput { job, hold: false };
            self.effects.durable.push(Durable::Command(nodes, command));
        }
    }

    /// Whether nodes of the job have not come back yet.
    pub fn is_recovering(&self, job: JobId) -> bool {
        self.live.get(&job).is_some_and(|live| live.launch == Launch::Recovering)
    }

    /// Why a job is where a former manager left it.
    pub(super) fn recovery_reason(&self, job: JobId) -> String {
        let Some(live) = self.live.get(&job) else { return String::new() };
        let nodes = self.nodes.fold(&live.unheard);
        let left: NodeSet = live.away.keys().copied().collect();
        if live.unheard.is_subset(&left) {
            return format!("the Node Manager of {nodes} has ended: it waits for the next one");
        }
        let removed = self.nodes.not_configured(&live.unheard);
        let why = match removed.is_empty() {
            true => String::new(),
            false => {
                format!("; {} is not in the configuration any more", self.nodes.fold(&removed))
            }
        };
        format!("the Machine Manager was restarted and waits for {nodes} to come back{why}")
    }
}
