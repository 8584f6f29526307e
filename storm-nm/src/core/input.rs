//! Input of jobs on its way to their ranks.

use super::{Action, NodeCore};
use bytes::Bytes;
use storm_rm::{Rank, StepRef};

impl NodeCore {
    /// Hands input to the ranks of a job that read it.
    pub(super) fn input(
        &mut self,
        step: StepRef,
        (offset, data, eof): (Option<u64>, Bytes, bool),
        actions: &mut Vec<Action>,
    ) {
        let Some(key) = self.current(step) else { return };
        let Some(state) = self.jobs.get(&key) else { return };
        let reads = |rank: &Rank| state.task.reads_input(*rank);
        let ranks: Vec<Rank> = state.task.ranks().filter(reads).collect();
        if !ranks.is_empty() {
            actions.push(Action::Input { job: key, ranks, offset, data, eof });
        }
    }
}
