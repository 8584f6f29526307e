//! The states of an array's jobs, for a command that names the array but describes one of its jobs.

use serde::Serialize;
use std::collections::BTreeMap;
use storm_mm::api::{JobState, JobView};
use storm_rm::JobId;

/// The jobs of an array that the manager remembers, counted by state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ArrayStates {
    pub(crate) array: JobId,
    /// Number of jobs in each state that occurs.
    pub(crate) states: BTreeMap<JobState, usize>,
}

impl ArrayStates {
    /// Counts these jobs of the array.
    pub(crate) fn new(array: JobId, jobs: &[JobView]) -> ArrayStates {
        let mut states = BTreeMap::new();
        for job in jobs {
            *states.entry(job.state).or_default() += 1;
        }
        ArrayStates { array, states }
    }

    /// For users; `told` is the name of the job that is described.
    pub(super) fn text(&self, told: &str) -> String {
        let ArrayStates { array, states } = self;
        let jobs: usize = states.values().sum();
        let states: Vec<String> =
            states.iter().map(|(state, count)| format!("{count} {state}")).collect();
        let states = states.join(", ");
        format!(
            "Array {array}, {jobs} jobs remembered: {states}. `storm queue --all {array}` lists them; this \
             is {told}:\n"
        )
    }
}
