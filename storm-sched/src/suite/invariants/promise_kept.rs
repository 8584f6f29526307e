//! A job that was promised the room of others gets it. Jobs that may preempt no job do not start
//! there meanwhile. Reservations end promises as they come near, so runs with reservations are not
//! checked.

use std::collections::BTreeSet;

use super::{Invariant, Violation};
use crate::suite::Step;
use crate::{Action, Event, JobId, JobRequest, MplLimit};

/// Room that was given up for a job is not given to others.
#[derive(Debug)]
pub struct PromiseKept {
    limit: MplLimit,
    /// The jobs that others make room for and that will fit.
    promised: BTreeSet<JobId>,
}

impl PromiseKept {
    /// Returns the invariant for at most that many rows.
    #[must_use]
    pub fn new(limit: MplLimit) -> Self {
        Self { limit, promised: BTreeSet::new() }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("job {started} was started on what others give up for job {promised}")]
struct Broken {
    started: JobId,
    promised: JobId,
}

impl Invariant for PromiseKept {
    fn name(&self) -> &'static str {
        "PEs given up for a job go to no other job"
    }

    fn check(&mut self, step: &Step<'_>) -> Result<(), Violation> {
        if !step.after.reservations.is_empty() {
            self.promised.clear();
            return Ok(());
        }
        let (mut intruder, mut served) = (None, Vec::new());
        for action in step.actions {
            match action {
                Action::Preempt { by, .. } => served.push(*by),
                Action::Start { job, .. } => {
                    let running = step.after.running.get(job);
                    let may = running.is_some_and(|running| running.request.may_preempt());
                    intruder = intruder.or(Some(*job).filter(|_| !may));
                }
                _ => {}
            }
        }
        let queue = &step.after.queue;
        let waiting = |job: &JobId| queue.iter().find(|request| request.id == *job);
        let fits =
            |request: &JobRequest| step.would_fit_without(self.limit, &step.after.ending, request);
        let before = std::mem::take(&mut self.promised);
        let mut promised: BTreeSet<JobId> = before.iter().copied().chain(served).collect();
        // A promise ends if its job cannot fit any more, for example after nodes are lost.
        promised.retain(|job| waiting(job).is_some_and(fits));
        let of_node = matches!(step.event, Event::NodeDown(_) | Event::NodeDrained(_));
        let mut lost = before.difference(&promised).filter(|job| waiting(job).is_some());
        let lost = lost.next().copied();
        self.promised = promised;
        match (intruder.filter(|_| !of_node), lost) {
            (Some(started), Some(promised)) => Err(Broken { started, promised }.into()),
            _ => Ok(()),
        }
    }
}
