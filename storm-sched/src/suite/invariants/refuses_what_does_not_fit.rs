//! An event that does not fit the state is refused and changes nothing. Any other event is
//! accepted.

use super::{Invariant, Violation};
use crate::Action;
use crate::suite::Step;

/// Events are refused if and only if they do not fit.
#[derive(Debug)]
pub struct RefusesWhatDoesNotFit;

#[derive(Debug, thiserror::Error)]
enum Wrong {
    #[error("the event fits and was refused")]
    Refused,
    #[error("the event does not fit and was answered by {0:?}")]
    Accepted(Vec<Action>),
}

impl Invariant for RefusesWhatDoesNotFit {
    fn name(&self) -> &'static str {
        "events are refused when they do not fit, and only then"
    }

    fn check(&mut self, step: &Step<'_>) -> Result<(), Violation> {
        let refused = step.actions.iter().any(|action| matches!(action, Action::Refused(_)));
        if step.before.accepts(step.event) {
            return if refused { Err(Wrong::Refused.into()) } else { Ok(()) };
        }
        if !refused || step.actions.len() != 1 {
            return Err(Wrong::Accepted(step.actions.to_vec()).into());
        }
        Ok(())
    }
}
