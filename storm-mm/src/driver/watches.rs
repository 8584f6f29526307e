//! Watches flags in global memory: that a job's ranks execute, and that they have ended.

use super::{Contents, Shared};
use crate::manager::Watch;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Bell, NodeSet, PrimitiveError, Primitives, Runtime};
use storm_rm::failure_detection::isolate_unstarted;
use storm_rm::poll::Backoff;
use storm_rm::termination::{StartNews, WatchedJobs, detect_started, detect_termination};
use storm_rm::{JobIncarnation, StepRef};

/// First pause between two checks of jobs that are ending; the pause doubles.
const FIRST_PAUSE: Duration = Duration::from_micros(500);
/// Longest pause: a job may hold its elements this long after its end. A check in vain costs
/// little, since only one node is polled.
const LONGEST_PAUSE: Duration = Duration::from_millis(8);

/// Runs of steps whose flags are watched.
#[derive(Default)]
pub(super) struct Watched {
    jobs: RefCell<WatchedJobs>,
    bell: Bell,
}

impl Watched {
    /// Watches a run from now on.
    pub(super) fn watch(&self, watch: Watch) {
        let Watch { step, incarnation, slot, nodes } = watch;
        self.jobs.borrow_mut().watch(step, slot, incarnation, nodes);
        self.bell.ring();
    }

    /// A run is not watched any more. The step may be watched for another run by now.
    fn forget(&self, step: StepRef, incarnation: JobIncarnation) {
        self.jobs.borrow_mut().forget(step, incarnation);
    }

    /// These steps are not watched any more.
    pub(super) fn forget_all(&self, these: impl Fn(StepRef) -> bool) {
        self.jobs.borrow_mut().forget_all(these);
    }

    /// Nodes died: they are not polled any more.
    pub(super) fn nodes_died(&self, dead: &NodeSet) {
        self.jobs.borrow_mut().nodes_died(dead);
        self.bell.ring();
    }

    fn is_empty(&self) -> bool {
        self.jobs.borrow().is_empty()
    }

    /// The runs as they are. Runs may be added or removed while the network answers.
    fn now(&self) -> WatchedJobs {
        self.jobs.borrow().clone()
    }

    /// Waits for a further run; returns at once if a run was added since the last return.
    async fn news(&self) {
        self.bell.heard().await;
    }
}

/// Finds the jobs, among those whose announcers have begun, whose ranks all execute. One task polls
/// for all jobs: a thousand tasks with one job each would take the network from the heartbeats.
pub(super) async fn run_starts<P: Primitives, C: Contents + 'static>(shared: Rc<Shared<P, C>>) {
    let (runtime, starting) = (shared.primitives.runtime().clone(), shared.runs.starting());
    let begin = || Backoff::patient(shared.plan.config.part_of_wait);
    let (mut backoff, mut round) = (begin(), 0_u32);
    loop {
        if starting.is_empty() {
            starting.news().await;
            (backoff, round) = (begin(), 0);
        }
        let since = runtime.now();
        round = round.wrapping_add(1);
        let asked = starting.now();
        match detect_started(&shared.primitives, &shared.plan, &asked, round).await {
            Ok(news) => {
                // The membership reports a death as well: the job ends, waits for the node, or
                // continues without it.
                let started = news.into_iter().filter(|(_, _, news)| *news == StartNews::Started);
                for (step, incarnation, _) in started {
                    starting.forget(step, incarnation);
                    shared.drive(|core, now| core.started(now, step.job, incarnation));
                }
            }
            // A node that does not answer is handled elsewhere: its job ends or continues.
            Err(PrimitiveError::TimedOut { .. }) => {}
            Err(error) => {
                shared.fail(error);
                return;
            }
        }
        let pause = backoff.after(runtime.now() - since);
        if runtime.timeout(pause, starting.news()).await.is_some() {
            // A job that was launched meanwhile is checked soon.
            backoff = begin();
        }
    }
}

/// Finds the nodes that have not started their ranks of a job.
pub(super) async fn name_unstarted<P: Primitives, C: Contents + 'static>(
    shared: Rc<Shared<P, C>>,
    watch: Watch,
) {
    let Watch { step, incarnation, slot, nodes } = watch;
    let asked = isolate_unstarted(&shared.primitives, &shared.plan, &nodes, slot, incarnation);
    match asked.await {
        Ok(isolated) => {
            // Deaths are left to the membership, since a job of a dead node may be queued again.
            shared.drive(|core, now| core.unstarted(now, step.job, incarnation, &isolated.late));
        }
        Err(error) => shared.fail(error),
    }
}

/// Detects the end of jobs that have begun to end (Algorithm 8).
pub(super) async fn run_terminations<P: Primitives, C: Contents + 'static>(
    shared: Rc<Shared<P, C>>,
) {
    let (runtime, terminating) = (shared.primitives.runtime().clone(), shared.runs.terminating());
    let (mut pause, mut round) = (FIRST_PAUSE, 0_u32);
    loop {
        if terminating.is_empty() {
            terminating.news().await;
            (pause, round) = (FIRST_PAUSE, 0);
        }
        round = round.wrapping_add(1);
        shared.time_to_act().await;
        let mut asked = terminating.now();
        match detect_termination(&shared.primitives, &shared.plan, &mut asked, round).await {
            Ok(terminated) => {
                for (step, incarnation) in terminated {
                    terminating.forget(step, incarnation);
                    shared.drive(|core, now| core.terminated(now, step.job, incarnation));
                }
            }
            Err(PrimitiveError::TimedOut { .. }) => {}
            Err(error) => {
                shared.fail(error);
                return;
            }
        }
        // A job that begins to end meanwhile is checked soon.
        let news = runtime.timeout(pause, terminating.news()).await;
        pause = if news.is_some() { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
    }
}
