//! A job that passes the head of the queue does not delay it (A2a). By the estimates, the head can
//! start no later than without the jobs that passed.
//!
//! The head is the first job that fits the nodes that are up or away. Nodes that are away count as
//! if they were up. Only heads that ask for a number of PEs are checked.

use std::collections::BTreeMap;

use super::{Invariant, Violation};
use crate::suite::{Step, oracle};
use crate::{Action, Event, JobId, JobRequest, JobView, SchedTime};

/// Passing jobs do not delay the head.
#[derive(Debug, Default)]
pub struct HeadNotDelayed {
    /// When each running job ends by its time limit.
    ends: BTreeMap<JobId, SchedTime>,
}

#[derive(Debug, thiserror::Error)]
#[error("job {head} could start at {without}, and at {with} since {passed:?} passed it")]
struct Delayed {
    head: JobId,
    without: SchedTime,
    with: SchedTime,
    passed: Vec<JobId>,
}

impl Invariant for HeadNotDelayed {
    fn name(&self) -> &'static str {
        "passing jobs do not delay the head"
    }

    fn check(&mut self, step: &Step<'_>) -> Result<(), Violation> {
        if let Event::Finished(job) = step.event {
            self.ends.remove(job);
        }
        let mut started = Vec::new();
        for action in step.actions {
            if let Action::Start { job, .. } = action {
                let limit = step.after.running.get(job).and_then(|job| job.request.time_limit);
                let end = limit.map_or(SchedTime::from_nanos(u64::MAX), |limit| step.now + limit);
                self.ends.insert(*job, end);
                started.push(*job);
            }
        }
        if started.is_empty() {
            return Ok(());
        }
        let Some(head) = head(step) else { return Ok(()) };
        let order = step.queue_before_decisions();
        let ahead: Vec<JobId> = order.into_iter().take_while(|job| *job != head.id).collect();
        let passed: Vec<JobId> = started.into_iter().filter(|job| !ahead.contains(job)).collect();
        if passed.is_empty() || !head.is_plain() {
            return Ok(());
        }
        let with = self.earliest(step, head, &[]);
        let without = self.earliest(step, head, &passed);
        match (with, without) {
            (Some(with), Some(without)) if with > without => {
                Err(Delayed { head: head.id, without, with, passed }.into())
            }
            _ => Ok(()),
        }
    }
}

impl HeadNotDelayed {
    /// The first estimated end at which enough PEs for the job are free, if the jobs `but` did not
    /// run.
    fn earliest(&self, step: &Step<'_>, request: &JobRequest, but: &[JobId]) -> Option<SchedTime> {
        let (now, rows) = (step.now, step.policy.rows());
        let mut times: Vec<SchedTime> = self.ends.values().map(|end| (*end).max(now)).collect();
        times.push(now);
        times.sort_unstable();
        times.into_iter().find(|time| {
            // Jobs may hold more PEs than their processes run on.
            let holds =
                |job: &&JobView| !but.contains(&job.job) && self.ends.get(&job.job) > Some(time);
            let holders = rows.iter().flat_map(|row| &row.jobs).filter(holds);
            let taken = holders.flat_map(|job| job.columns.columns());
            let free = oracle::free_of(step.after.expected(), taken);
            free.into_iter().filter(|free| *free).count() as u32 >= request.procs
        })
    }
}

/// The first waiting job that fits the nodes that are up or away.
fn head<'a>(step: &Step<'a>) -> Option<&'a JobRequest> {
    let world = step.after;
    let expected = world.expected();
    let fits = |request: &&JobRequest| oracle::fits(&world.machine, &expected, request);
    world.queue.iter().find(fits)
}
