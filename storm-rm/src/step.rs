//! The first thing that runs in a job's place.
//!
//! A place is what a policy gives to a job: nodes with the processing elements of `procs` processes
//! (`docs/decisions/0150-a-job-is-a-place-with-steps.md`).

use serde::{Deserialize, Serialize};

/// The first step of a job. The job ends with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FirstStep {
    /// The program, once for each process of the place.
    #[default]
    Program,
    /// The program once, on the first node, with all elements that the place has there.
    Script,
}
