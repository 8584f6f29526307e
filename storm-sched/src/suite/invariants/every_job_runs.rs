//! Where rows are not switched, all jobs that hold PEs always run, and no slices are cut.

use std::collections::BTreeSet;

use super::{Invariant, Violation};
use crate::JobId;
use crate::suite::Step;

/// All jobs run at once.
#[derive(Debug)]
pub struct EveryJobRuns;

#[derive(Debug, thiserror::Error)]
enum Stands {
    #[error("{running:?} hold PEs, and the policy says that {now:?} run")]
    Still { running: Vec<JobId>, now: Vec<JobId> },
    #[error("the policy cuts slices")]
    Slices,
}

impl Invariant for EveryJobRuns {
    fn name(&self) -> &'static str {
        "all jobs run at once"
    }

    fn check(&mut self, step: &Step<'_>) -> Result<(), Violation> {
        if step.policy.quantum().is_some() || step.policy.next_edge_needed() {
            return Err(Stands::Slices.into());
        }
        let now: BTreeSet<JobId> = step.policy.running_now().into_iter().collect();
        if !now.iter().eq(step.after.running.keys()) {
            let running = step.after.running.keys().copied().collect();
            return Err(Stands::Still { running, now: now.into_iter().collect() }.into());
        }
        Ok(())
    }
}
