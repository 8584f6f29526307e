//! No job starts while a job with a shorter time limit waits, unless the nodes that are up cannot
//! take the latter.

use std::time::Duration;

use super::{Invariant, Violation};
use crate::suite::{Step, oracle};
use crate::{Action, JobId, JobRequest};

/// The shortest time limit starts first.
#[derive(Debug)]
pub struct ShortestFirst;

#[derive(Debug, thiserror::Error)]
#[error("job {started} was started, and job {waits}, which is shorter, waits")]
struct Passed {
    started: JobId,
    waits: JobId,
}

impl Invariant for ShortestFirst {
    fn name(&self) -> &'static str {
        "the shortest time limit starts first"
    }

    fn check(&mut self, step: &Step<'_>) -> Result<(), Violation> {
        if !step.actions.iter().any(|action| matches!(action, Action::Start { .. })) {
            return Ok(());
        }
        let limit = |request: &JobRequest| request.time_limit.unwrap_or(Duration::MAX);
        let world = step.after;
        let usable = world.usable();
        let fits = |request: &&JobRequest| oracle::fits(&world.machine, &usable, request);
        let shortest = world.queue.iter().filter(fits).min_by_key(|request| limit(request));
        let Some(shortest) = shortest else { return Ok(()) };
        for action in step.actions {
            if let Action::Start { job: started, .. } = action
                && let Some(running) = world.running.get(started)
                && limit(&running.request) > limit(shortest)
            {
                return Err(Passed { started: *started, waits: shortest.id }.into());
            }
        }
        Ok(())
    }
}
