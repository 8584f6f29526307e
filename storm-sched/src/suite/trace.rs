//! The record of a run: it compares two runs of one seed, and shows that a run was not an empty
//! one.

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
    /// Runs.
    pub runs: usize,
    /// Jobs started.
    pub starts: usize,
    /// Rows activated.
    pub activations: usize,
    /// Jobs given other rows.
    pub slot_changes: usize,
    /// Jobs moved to other PEs.
    pub migrations: usize,
    /// Events refused.
    pub refusals: usize,
    /// The longest queue.
    pub longest_queue: usize,
    /// The most rows at a time.
    pub most_rows: usize,
    /// Jobs preempted.
    pub preemptions: usize,
    /// Jobs that went on after they were suspended.
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
        self.most_rows = self.most_rows.max(world.live_slots().len());
    }
}

impl Coverage {
    pub(super) fn add(&mut self, trace: &Trace) {
        self.runs += 1;
        for action in trace.steps.iter().flat_map(|(_, actions)| actions) {
            match action {
                Action::Start { .. } => self.starts += 1,
                Action::Activate { .. } => self.activations += 1,
                Action::SetSlots { .. } => self.slot_changes += 1,
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
