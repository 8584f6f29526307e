//! Hydra: `mpiexec` only, because it has no queue.

use super::JobSystem;
use super::job_system::JOB;
use crate::peers::Hydra;
use anyhow::Result;
use std::process::Command;

/// Hydra on one host.
#[derive(Debug)]
pub struct HydraJobs(pub Hydra);

impl JobSystem for HydraJobs {
    fn name(&self) -> String {
        self.0.version().to_owned()
    }

    fn submit(&self) -> Option<Command> {
        None
    }

    fn run(&self) -> Command {
        let mut command = self.0.mpiexec(1, 1);
        command.arg(JOB);
        command
    }

    fn submit_array(&self, _jobs: u32) -> Option<Result<()>> {
        None
    }

    fn submit_all(&self, _jobs: u32) -> Option<Result<()>> {
        None
    }

    fn wait_ended(&mut self, _jobs: u32) -> Result<()> {
        Ok(())
    }
}
