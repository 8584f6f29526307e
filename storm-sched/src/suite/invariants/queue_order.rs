//! Jobs start in the order of the queue (A1: start_i <= start_{i+1}).

use super::{Invariant, Violation};
use crate::suite::Step;
use crate::{Action, JobId};

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
        if !step.actions.iter().any(|action| matches!(action, Action::Start { .. })) {
            return Ok(());
        }
        let mut order = step.queue_before_decisions().into_iter();
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
