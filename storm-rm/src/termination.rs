//! Termination detection: Algorithms 8 and 9.
//!
//! Every node sets a flag in its own global memory when its ranks of a job have ended, and reports
//! it. After the first report the master polls one node until its part has ended, then all with one
//! COMPARE-AND-WRITE. If all reports arrive first, it does not poll. A running job causes no
//! traffic.
//!
//! Differences from the paper's text (`docs/decisions/0003-termination.md`). The flag holds the
//! job's incarnation, so that a reused slot cannot show an old TRUE. Not only one fixed node
//! announces, but also any node where a rank failed. The network reports the death of a node.

use crate::message::Report;
use crate::poll::Probe;
use crate::{GlobalPlan, JobIncarnation, JobSlot, StepRef};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use storm_primitives::{CompareAndWrite, NodeSet, PrimitiveError, Primitives, Relation};

/// The value of a flag that is not set.
const NOT_TERMINATED: u64 = 0;

/// How soon a report must leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// With the next message that leaves: nobody waits for the report.
    WhenConvenient,
    /// At once.
    AtOnce,
}

/// Where a Node Manager puts its reports; they leave in order.
pub trait Outbox {
    /// Queues a report for the Machine Manager.
    fn post(&mut self, report: Report, urgency: Urgency);
}

/// The state of one node's part of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalPart {
    /// Where the job's flags lie.
    pub slot: JobSlot,
    /// Which run of the job.
    pub incarnation: JobIncarnation,
    /// Ranks started here.
    pub ranks: u32,
    /// Ranks of them that have ended.
    pub ended: u32,
    /// Whether this node is to announce the end at once.
    pub announcer: bool,
    /// Whether some rank here ended abnormally.
    pub failed: bool,
}

/// ANNOUNCE-TERMINATION (Algorithm 9). Call it when a rank has ended. If the rank was the last one
/// here, sets the node's flag and posts the report. The report leaves at once on the job's
/// announcer and where a rank failed. Returns whether the rank was the last.
pub fn announce_termination<P: Primitives>(
    primitives: &P,
    plan: &GlobalPlan,
    part: &LocalPart,
    report: impl FnOnce() -> Report,
    outbox: &mut impl Outbox,
) -> bool {
    if part.ended < part.ranks {
        return false;
    }
    let urgent = part.announcer || part.failed;
    outbox.post(report(), if urgent { Urgency::AtOnce } else { Urgency::WhenConvenient });
    if let Some(flag) = plan.terminated(part.slot) {
        primitives.memory().store(flag, part.incarnation.0);
    }
    true
}

/// Steps whose flags the master polls: all that start, or all that end.
#[derive(Clone, Debug, Default)]
pub struct WatchedJobs {
    jobs: BTreeMap<StepRef, JobFlags>,
}

/// A run of a step, and where its flags lie.
#[derive(Clone, Debug)]
struct JobFlags {
    slot: JobSlot,
    incarnation: JobIncarnation,
    nodes: NodeSet,
    probe: Probe,
    /// Consecutive questions that the network could not answer. Jobs with fewer such questions are
    /// polled first, so that the silent nodes of one job do not hold up the others. Clones share
    /// the count.
    unanswered: Rc<Cell<u32>>,
}

impl JobFlags {
    async fn ask<P: Primitives>(
        &self,
        primitives: &P,
        question: &CompareAndWrite,
        round: u32,
    ) -> Result<bool, PrimitiveError> {
        let answer = self.probe.ask(primitives, question, round).await;
        let known = matches!(answer, Ok(_) | Err(PrimitiveError::NodesDead { .. }));
        self.unanswered.set(if known { 0 } else { self.unanswered.get().saturating_add(1) });
        answer
    }
}

impl WatchedJobs {
    /// The flags of a run are polled from now on. Its announcer reported `Started`, a part of its
    /// nodes was launched again, or a node announced that its part is over.
    pub fn watch(
        &mut self,
        step: StepRef,
        slot: JobSlot,
        incarnation: JobIncarnation,
        nodes: NodeSet,
    ) {
        let (probe, unanswered) = Default::default();
        self.jobs.insert(step, JobFlags { slot, incarnation, nodes, probe, unanswered });
    }

    /// Nodes that died hold no process any more.
    pub fn nodes_died(&mut self, dead: &NodeSet) {
        for job in self.jobs.values_mut() {
            job.nodes = job.nodes.difference(dead);
        }
    }

    /// Forgets those steps.
    pub fn forget_all(&mut self, those: impl Fn(StepRef) -> bool) {
        self.jobs.retain(|step, _| !those(*step));
    }

    /// Forgets a step.
    pub fn remove(&mut self, step: StepRef) {
        self.jobs.remove(&step);
    }

    /// Forgets this run of a step, not a later one.
    pub fn forget(&mut self, step: StepRef, incarnation: JobIncarnation) {
        self.jobs.retain(|id, flags| *id != step || flags.incarnation != incarnation);
    }

    /// In the order in which they are to be polled.
    fn in_order(&self) -> Vec<StepRef> {
        let mut order: Vec<(u32, StepRef)> =
            self.jobs.iter().map(|(id, flags)| (flags.unanswered.get(), *id)).collect();
        order.sort_unstable();
        order.into_iter().map(|(_, id)| id).collect()
    }

    /// Whether no step is watched.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }
}

/// DETECT-TERMINATION (Algorithm 8), round `round` counted from 1. Returns the runs in
/// `terminating` that have ended on all their nodes. Their flags are reset, and they are no
/// longer watched.
///
/// A dead node of a job is no error: the job ends without that node.
///
/// # Errors
/// [`PrimitiveError`] when the network cannot answer and no job was found before.
pub async fn detect_termination<P: Primitives>(
    primitives: &P,
    plan: &GlobalPlan,
    terminating: &mut WatchedJobs,
    round: u32,
) -> Result<Vec<(StepRef, JobIncarnation)>, PrimitiveError> {
    let mut terminated = Vec::new();
    for id in terminating.in_order() {
        let Some(job) = terminating.jobs.get_mut(&id) else { continue };
        let Some(flag) = plan.terminated(job.slot) else { continue };
        let set = job.incarnation.0;
        let question = CompareAndWrite::new(job.nodes.clone(), flag, Relation::Equal, set)
            .then_write(flag, NOT_TERMINATED);
        match job.ask(primitives, &question, round).await {
            Ok(true) => terminated.push((id, job.incarnation)),
            Ok(false) => {}
            Err(PrimitiveError::NodesDead { nodes }) => job.nodes = job.nodes.difference(&nodes),
            // The flags of the jobs found so far are reset: nobody could find them again. The next
            // question meets the error again, after the others.
            Err(_) if !terminated.is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    for (id, _) in &terminated {
        terminating.jobs.remove(id);
    }
    Ok(terminated)
}

/// An event of a job that was starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartNews {
    /// Every rank runs on every node.
    Started,
    /// A node of it is dead: the membership reports the death as well.
    NodeDead,
}

/// Polls for the `round`th time which jobs have started, one job after the other. However many jobs
/// there are, one question is on its way.
///
/// # Errors
/// [`PrimitiveError`] when the network cannot answer and there is no event.
pub async fn detect_started<P: Primitives>(
    primitives: &P,
    plan: &GlobalPlan,
    starting: &WatchedJobs,
    round: u32,
) -> Result<Vec<(StepRef, JobIncarnation, StartNews)>, PrimitiveError> {
    let mut news = Vec::new();
    for id in starting.in_order() {
        let Some(job) = starting.jobs.get(&id) else { continue };
        let Some(flag) = plan.started(job.slot) else { continue };
        let value = job.incarnation.0;
        let question = CompareAndWrite::new(job.nodes.clone(), flag, Relation::Equal, value);
        match job.ask(primitives, &question, round).await {
            Ok(true) => news.push((id, job.incarnation, StartNews::Started)),
            Ok(false) => {}
            Err(PrimitiveError::NodesDead { .. }) => {
                news.push((id, job.incarnation, StartNews::NodeDead));
            }
            // The next question meets the error again.
            Err(_) if !news.is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(news)
}
