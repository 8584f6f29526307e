//! A job loses its place only if the loss is needed and makes enough room, also with several rows.
//! The check is brute force over the sets of PEs.
//!
//! Only the first job that gets room is checked, and promises to others are ignored.

use std::collections::BTreeSet;

use super::{Invariant, Violation};
use crate::suite::Step;
use crate::{Action, JobId, MplLimit};

/// Each job that makes room is needed, and together they suffice.
#[derive(Debug)]
pub struct NobodySpared(pub MplLimit);

#[derive(Debug, thiserror::Error)]
enum Wrong {
    #[error("job {by} would fit without the end of job {victim}")]
    NoNeed { victim: JobId, by: JobId },
    #[error("job {by} would not fit when all have ended that make room for it")]
    InVain { by: JobId },
}

impl Invariant for NobodySpared {
    fn name(&self) -> &'static str {
        "only the jobs whose PEs are needed make room"
    }

    fn check(&mut self, step: &Step<'_>) -> Result<(), Violation> {
        let mut before = step.before.clone();
        before.apply(step.event, &[]);
        let mut victims = BTreeSet::new();
        let mut served = BTreeSet::new();
        for action in step.actions {
            match action {
                Action::Preempt { job, by, .. } => {
                    victims.insert(*job);
                    served.insert(*by);
                }
                Action::Start { .. } | Action::Migrate { .. } => return Ok(()),
                _ => {}
            }
        }
        let (Some(&by), 1) = (served.first(), served.len()) else { return Ok(()) };
        let among_others = !before.ending.is_empty() || before.reserved(step.now).next().is_some();
        let request = before.queue.iter().find(|request| request.id == by);
        let Some(request) = request.filter(|_| !among_others) else { return Ok(()) };
        for &victim in &victims {
            let mut gone = victims.clone();
            gone.remove(&victim);
            if step.would_fit_without(self.0, &gone, request) {
                return Err(Wrong::NoNeed { victim, by }.into());
            }
        }
        if !step.would_fit_without(self.0, &victims, request) {
            return Err(Wrong::InVain { by }.into());
        }
        Ok(())
    }
}
