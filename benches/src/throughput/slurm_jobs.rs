//! Slurm: `sbatch`, a job array, and `srun`.

use super::JobSystem;
use super::job_system::JOB;
use crate::peers::Slurm;
use anyhow::{Context, Result, ensure};
use std::process::Command;

/// A Slurm cluster, and how many of its jobs have ended.
#[derive(Debug)]
pub struct SlurmJobs {
    slurm: Slurm,
    ended: usize,
}

impl SlurmJobs {
    /// Uses a cluster that is up and idle.
    pub fn new(slurm: Slurm) -> SlurmJobs {
        SlurmJobs { slurm, ended: 0 }
    }

    fn sbatch(&self) -> Command {
        let mut command = self.slurm.command("sbatch");
        command.args(["--quiet", "--ntasks=1", "--output=/dev/null"]);
        command
    }
}

impl JobSystem for SlurmJobs {
    fn name(&self) -> String {
        self.slurm.version().to_owned()
    }

    fn submit(&self) -> Option<Command> {
        let mut command = self.sbatch();
        command.arg(format!("--wrap=exec {JOB}"));
        Some(command)
    }

    fn run(&self) -> Command {
        let mut command = self.slurm.command("srun");
        command.args(["--quiet", "--ntasks=1", JOB]);
        command
    }

    fn submit_all(&self, _jobs: u32) -> Option<Result<()>> {
        None
    }

    fn submit_array(&self, jobs: u32) -> Option<Result<()>> {
        let mut command = self.sbatch();
        command.arg(format!("--array=1-{jobs}")).arg(format!("--wrap=exec {JOB}"));
        let submitted = command.status().context("cannot start sbatch").and_then(|status| {
            ensure!(status.success(), "sbatch --array failed: {status}");
            Ok(())
        });
        Some(submitted)
    }

    fn wait_ended(&mut self, jobs: u32) -> Result<()> {
        self.ended += jobs as usize;
        self.slurm.wait_ended(self.ended)?;
        Ok(())
    }
}
