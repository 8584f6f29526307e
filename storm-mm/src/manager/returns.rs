//! The reports of returning nodes before they have joined, and the jobs that wait to run again. A
//! lost node may still run ranks of the last run of such a job
//! (`docs/decisions/0007-no-run-twice.md`). Only this module changes either; it decides nothing and
//! has no effects.

use super::live::Lost;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use storm_primitives::{Instant, NodeId};
use storm_rm::message::HeldJob;
use storm_rm::{JobId, JobIncarnation};

/// Longest time for a returned node to kill the jobs that it is not to continue: its host may be
/// overrun.
pub(super) const KILL_TIME: Duration = Duration::from_secs(1);
/// Longest time for the keeper of a dead Node Manager to kill its ranks: the keeper has nothing
/// else to do. Must be less than the second after which a job with a dead node is to run again.
pub(super) const KEEPER_TIME: Duration = Duration::from_millis(750);
/// The most runs of jobs that a node can report as held: as many as it can have rows and processing
/// elements for, and more.
const HELD_MAX: usize = 1 << 16;

/// The returns that are awaited.
#[derive(Debug, Default)]
pub(super) struct Returns {
    /// The jobs that returning nodes report to hold, until a node has reported all.
    held: BTreeMap<NodeId, HeldRuns>,
    /// Jobs that are to run again, while a node may still run them: these nodes, and when their
    /// ranks have certainly ended.
    fencing: BTreeMap<JobId, Lost>,
}

/// Whether lost nodes may still run a job.
pub(super) enum Fenced {
    /// No lost node can.
    Now,
    /// The next lost node cannot from this time on.
    At(Instant),
}

impl Returns {
    /// A node reports some of the runs that it holds.
    pub(super) fn report(
        &mut self,
        node: NodeId,
        jobs: Vec<HeldJob>,
        first_run: Option<JobIncarnation>,
    ) {
        self.held.entry(node).or_default().add(jobs, first_run);
    }

    /// The runs that a node has reported. They count for one join only.
    pub(super) fn take(&mut self, node: NodeId) -> Option<HeldRuns> {
        self.held.remove(&node)
    }

    /// A job waits until none of these nodes can run the job.
    pub(super) fn fence(&mut self, job: JobId, lost: Lost) {
        self.fencing.insert(job, lost);
    }

    /// Whether a job waits for lost nodes.
    pub(super) fn is_fencing(&self, job: JobId) -> bool {
        self.fencing.contains_key(&job)
    }

    /// The nodes that a job waits for, and until when.
    pub(super) fn fencing(&self, job: JobId) -> Option<&Lost> {
        self.fencing.get(&job)
    }

    /// A job is not to run again after all. Returns whether it was waiting to.
    pub(super) fn forget(&mut self, job: JobId) -> bool {
        self.fencing.remove(&job).is_some()
    }

    /// Changes until when jobs wait for a node. Returns these jobs.
    pub(super) fn shorten(
        &mut self,
        node: NodeId,
        shorter: impl Fn(JobId, Instant) -> Instant,
    ) -> Vec<JobId> {
        let mut hit: Vec<JobId> = Vec::new();
        for (job, until) in &mut self.fencing {
            if let Some(until) = until.get_mut(&node) {
                *until = shorter(*job, *until);
                hit.push(*job);
            }
        }
        hit
    }

    /// Whether the nodes that a job waits for can still run the job. If no node can, the job waits
    /// no longer. `None` if the job did not wait.
    pub(super) fn fenced(&mut self, now: Instant, job: JobId) -> Option<Fenced> {
        let lost = self.fencing.get_mut(&job)?;
        lost.retain(|_, until| *until > now);
        match lost.values().min().copied() {
            Some(at) => Some(Fenced::At(at)),
            None => {
                self.fencing.remove(&job);
                Some(Fenced::Now)
            }
        }
    }
}

/// The runs of jobs that a returning node reports to hold.
#[derive(Clone, Debug, Default)]
pub(super) struct HeldRuns {
    runs: BTreeSet<(JobId, JobIncarnation)>,
    /// The earliest run that the Node Manager can have received; `None` if it can have received
    /// none.
    first_run: Option<JobIncarnation>,
}

impl HeldRuns {
    /// Takes one report of several. Runs past [`HELD_MAX`] are ignored.
    fn add(&mut self, jobs: Vec<HeldJob>, first_run: Option<JobIncarnation>) {
        self.first_run = first_run;
        let room = HELD_MAX.saturating_sub(self.runs.len());
        let runs = jobs.into_iter().map(|held| (held.step.job, held.incarnation));
        self.runs.extend(runs.take(room));
    }

    /// Whether the node holds any run of a job.
    pub(super) fn any_of(&self, job: JobId) -> bool {
        let runs = (job, JobIncarnation(0))..=(job, JobIncarnation(u64::MAX));
        self.runs.range(runs).next().is_some()
    }

    pub(super) fn has(&self, job: JobId, run: JobIncarnation) -> bool {
        self.runs.contains(&(job, run))
    }

    /// Whether the node would hold this run if the node had received its launch.
    pub(super) fn covers(&self, run: JobIncarnation) -> bool {
        self.first_run.is_some_and(|first| first <= run)
    }
}
