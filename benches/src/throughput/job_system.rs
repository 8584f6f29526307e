//! A system that takes jobs and runs them.

use anyhow::Result;
use std::process::Command;

/// The job of all systems: a program that exists on every node, and does nothing.
pub(super) const JOB: &str = "/bin/true";

/// A resource manager, up and idle.
pub trait JobSystem {
    /// The name with its version.
    fn name(&self) -> String;

    /// Submits one job and returns; `None` if the system has no queue.
    fn submit(&self) -> Option<Command>;

    /// Runs one job to its end.
    fn run(&self) -> Command;

    /// Submits this many jobs as an array; `None` if the system has no arrays.
    ///
    /// # Errors
    /// The system refused the array.
    fn submit_array(&self, jobs: u32) -> Option<Result<()>>;

    /// Submits this number of jobs in one process, one by one. `None` if the system cannot.
    ///
    /// # Errors
    /// The system refused a job.
    fn submit_all(&self, jobs: u32) -> Option<Result<()>>;

    /// Waits until as many jobs have ended well since the last call as were submitted.
    ///
    /// # Errors
    /// A job ended otherwise, or some do not end.
    fn wait_ended(&mut self, jobs: u32) -> Result<()>;
}
