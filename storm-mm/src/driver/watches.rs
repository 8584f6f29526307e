//! Watches flags in global memory: that a job's ranks execute, and that they have ended.

use super::{Contents, Shared};
use crate::manager::Watch;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{PrimitiveError, Primitives, Runtime};
use storm_rm::failure_detection::isolate_unstarted;
use storm_rm::poll::Backoff;
use storm_rm::termination::{StartNews, detect_started, detect_termination};

/// First pause between two looks at jobs that are ending; it doubles.
const FIRST_PAUSE: Duration = Duration::from_micros(500);
/// Longest pause: a job may hold its elements this long after its end. A question in vain costs
/// little, since only one node is asked.
const LONGEST_PAUSE: Duration = Duration::from_millis(8);

/// Finds the jobs, among those whose announcers have begun, whose ranks all execute. One task asks
/// for all jobs: a thousand tasks with one job each would take the network from the heartbeats.
pub(super) async fn run_starts<P: Primitives, C: Contents + 'static>(shared: Rc<Shared<P, C>>) {
    let runtime = shared.primitives.runtime().clone();
    let begin = || Backoff::patient(shared.plan.config.part_of_wait);
    let (mut backoff, mut round) = (begin(), 0_u32);
    loop {
        if shared.starting.borrow().is_empty() {
            shared.starting_bell.heard().await;
            (backoff, round) = (begin(), 0);
        }
        let since = runtime.now();
        round = round.wrapping_add(1);
        // Jobs may be added or removed while the network answers.
        let asked = shared.starting.borrow().clone();
        match detect_started(&shared.primitives, &shared.plan, &asked, round).await {
            Ok(news) => {
                for (job, incarnation, news) in news {
                    shared.starting.borrow_mut().forget(job, incarnation);
                    // For a death, the membership tells as well, and ends the job.
                    if news == StartNews::Started {
                        shared.drive(|core, now| core.started(now, job, incarnation));
                    }
                }
            }
            // A node that does not answer is handled elsewhere: its job ends or goes on.
            Err(PrimitiveError::TimedOut { .. }) => {}
            Err(error) => {
                shared.fail(error);
                return;
            }
        }
        let pause = backoff.after(runtime.now() - since);
        if runtime.timeout(pause, shared.starting_bell.heard()).await.is_some() {
            // A job that was launched meanwhile is looked at soon.
            backoff = begin();
        }
    }
}

/// Finds the nodes that have not started their ranks of a job.
pub(super) async fn name_unstarted<P: Primitives, C: Contents + 'static>(
    shared: Rc<Shared<P, C>>,
    watch: Watch,
) {
    let Watch { job, incarnation, slot, nodes } = watch;
    let asked = isolate_unstarted(&shared.primitives, &shared.plan, &nodes, slot, incarnation);
    match asked.await {
        Ok(isolated) => {
            // Deaths are left to the membership, since a job of a dead node may be queued again.
            shared.drive(|core, now| core.unstarted(now, job, incarnation, &isolated.late));
        }
        Err(error) => shared.fail(error),
    }
}

/// Detects the end of jobs that have begun to end (Algorithm 8).
pub(super) async fn run_terminations<P: Primitives, C: Contents + 'static>(
    shared: Rc<Shared<P, C>>,
) {
    let runtime = shared.primitives.runtime().clone();
    let (mut pause, mut round) = (FIRST_PAUSE, 0_u32);
    loop {
        if shared.terminating.borrow().is_empty() {
            shared.terminating_bell.heard().await;
            (pause, round) = (FIRST_PAUSE, 0);
        }
        round = round.wrapping_add(1);
        shared.time_to_act().await;
        // Jobs may be added or removed while the network answers.
        let mut asked = shared.terminating.borrow().clone();
        match detect_termination(&shared.primitives, &shared.plan, &mut asked, round).await {
            Ok(terminated) => {
                for (job, incarnation) in terminated {
                    // By now the watch may be for another run of the job.
                    shared.terminating.borrow_mut().forget(job, incarnation);
                    shared.drive(|core, now| core.terminated(now, job, incarnation));
                }
            }
            Err(PrimitiveError::TimedOut { .. }) => {}
            Err(error) => {
                shared.fail(error);
                return;
            }
        }
        // A job that begins to end meanwhile is looked at soon.
        let news = runtime.timeout(pause, shared.terminating_bell.heard()).await;
        pause = if news.is_some() { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
    }
}
