//! How the jobs of an array are, for whoever asked for the array and is told of one of them.

use serde::Serialize;
use std::collections::BTreeMap;
use storm_mm::api::{JobState, JobView};
use storm_rm::JobId;

/// The jobs that the manager remembers of an array, by their states.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ArrayStates {
    /// The array.
    pub(crate) array: JobId,
    /// How many are in each state that some are in.
    pub(crate) states: BTreeMap<JobState, usize>,
}

impl ArrayStates {
    /// Of these jobs of it.
    pub(crate) fn new(array: JobId, jobs: &[JobView]) -> ArrayStates {
        let mut states = BTreeMap::new();
        for job in jobs {
            *states.entry(job.state).or_default() += 1;
        }
        ArrayStates { array, states }
    }

    /// For people; `told` is the job of which more is told.
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
