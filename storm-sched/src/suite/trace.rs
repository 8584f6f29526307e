//! The record of a run. It compares two runs of one seed, and shows that a run was not empty.

use crate::suite::World;
use crate::{Action, Event};

/// The events and actions of a run, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trace {
    steps: Vec<(Event, Vec<Action>)>,
    longest_queue: usize,
    most_rows: usize,
}

/// The coverage of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Coverage {
    /// The number of runs.
    pub runs: usize,
    /// The number of jobs started.
    pub starts: usize,
    /// The number of rows activated.
    pub activations: usize,
    /// How often a job got other rows.
    pub row_changes: usize,
    /// How often a job moved to other PEs.
    pub migrations: usize,
    /// The number of events refused.
    pub refusals: usize,
    /// The longest queue.
    pub longest_queue: usize,
    /// The most rows at a time.
    pub most_rows: usize,
    /// The number of preemptions.
    pub preemptions: usize,
    /// How often a suspended job continued.
    pub resumptions: usize,
}

impl Trace {
    /// The number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether nothing happened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The events with their actions.
    #[must_use]
    pub fn steps(&self) -> &[(Event, Vec<Action>)] {
        &self.steps
    }

    pub(super) fn push(&mut self, event: Event, actions: Vec<Action>, world: &World) {
        self.steps.push((event, actions));
        self.longest_queue = self.longest_queue.max(world.queue.len());
        self.most_rows = self.most_rows.max(world.live_rows().len());
    }
}

impl Coverage {
    pub(super) fn add(&mut self, trace: &Trace) {
        self.runs += 1;
        for action in trace.steps.iter().flat_map(|(_, actions)| actions) {
            match action {
                Action::Start { .. } => self.starts += 1,
                Action::Activate { .. } => self.activations += 1,
                Action::SetRows { .. } => self.row_changes += 1,
                Action::Migrate { .. } => self.migrations += 1,
                Action::Preempt { .. } => self.preemptions += 1,
                Action::Resume { .. } => self.resumptions += 1,
                Action::Refused(_) => self.refusals += 1,
            }
        }
        self.longest_queue = self.longest_queue.max(trace.longest_queue);
        self.most_rows = self.most_rows.max(trace.most_rows);
    }
}
