//! Jobs start in the order of the queue (A1: start_i <= start_{i+1}).

use super::{Invariant, Violation};
use crate::suite::Step;
use crate::{Action, Event, JobId};

/// Jobs start in queue order.
#[derive(Debug)]
pub struct QueueOrder;

#[derive(Debug, thiserror::Error)]
#[error("job {started} was started, and job {head:?} was the first of the queue")]
struct Passed {
    started: JobId,
    head: Option<JobId>,
}

impl Invariant for QueueOrder {
    fn name(&self) -> &'static str {
        "jobs start in queue order"
    }

    fn check(&mut self, step: &Step<'_>) -> Result<(), Violation> {
        let waiting = step.before.queue.iter().map(|request| request.id);
        let submitted = match step.event {
            Event::Submit(request) if step.before.accepts(step.event) => Some(request.id),
            _ => None,
        };
        let withdrawn = |job: &JobId| *step.event == Event::Cancel(*job);
        let mut order = waiting.chain(submitted).filter(|job| !withdrawn(job));
        for action in step.actions {
            if let Action::Start { job: started, .. } = action {
                let head = order.next();
                if head != Some(*started) {
                    return Err(Passed { started: *started, head }.into());
                }
            }
        }
        Ok(())
    }
}
