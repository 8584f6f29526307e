//! Jobs that are submitted during the faults, and their fate.

use super::cluster::Cluster;
use super::records::{self, SCRIPT};
use anyhow::{Context, Result};
use rand::{Rng, RngExt};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// The pause between two queries about unfinished jobs.
const PAUSE: Duration = Duration::from_millis(200);
/// Longest work of a rank, in tenths of a second.
const MOST_TENTHS: u32 = 30;

/// The jobs that the manager has acknowledged.
#[derive(Debug)]
pub struct Workload {
    script: PathBuf,
    /// The jobs, and whether each may run again.
    jobs: BTreeMap<u64, bool>,
    refused: u32,
}

#[derive(Deserialize)]
struct Submitted {
    job: u64,
}

#[derive(Deserialize)]
struct Shown {
    state: String,
    #[serde(default)]
    reason: Option<String>,
}

impl Workload {
    /// Writes the program of the jobs.
    ///
    /// # Errors
    /// The program cannot be written.
    pub fn new(cluster: &Cluster) -> Result<Workload> {
        let script = cluster.dir().join("work.sh");
        fs::write(&script, SCRIPT)?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
        Ok(Workload { script, jobs: BTreeMap::new(), refused: 0 })
    }

    /// The number of acknowledged submissions, and of unanswered ones.
    pub fn counts(&self) -> (usize, u32) {
        (self.jobs.len(), self.refused)
    }

    /// Submits a job of up to `most` processes.
    ///
    /// # Errors
    /// The command cannot be started, or its output is invalid.
    pub fn submit(&mut self, cluster: &Cluster, most: u32, random: &mut impl Rng) -> Result<()> {
        let requeue = random.random::<bool>();
        let procs = random.random_range(1..=most).to_string();
        let tenths = random.random_range(1..=MOST_TENTHS).to_string();
        let mut command = cluster.command()?;
        command.args(["submit", "--json", "-n", &procs, "--output", "/dev/null"]);
        command.args(requeue.then_some("--requeue")).arg(&self.script).arg(cluster.records());
        command.args([if requeue { "requeue" } else { "once" }, &tenths]);
        let output = command.output().context("cannot start storm")?;
        if !output.status.success() {
            self.refused += 1;
            return Ok(());
        }
        let submitted: Submitted = serde_json::from_slice(&output.stdout)
            .with_context(|| String::from_utf8_lossy(&output.stdout).into_owned())?;
        self.jobs.insert(submitted.job, requeue);
        Ok(())
    }

    /// Waits until all jobs are over, and returns the promises that they broke.
    ///
    /// # Errors
    /// A command cannot be started, or a record cannot be read.
    pub fn judge(&self, cluster: &Cluster, patience: Duration) -> Result<Vec<String>> {
        let (since, mut found) = (Instant::now(), Vec::new());
        let mut states = BTreeMap::new();
        for job in self.jobs.keys() {
            loop {
                let shown = shown(cluster, *job)?;
                let is_over = shown.as_ref().is_some_and(|shown| is_over(&shown.state));
                if is_over || since.elapsed() > patience {
                    states.insert(*job, shown);
                    break;
                }
                thread::park_timeout(PAUSE);
            }
        }
        let records = records::read(&cluster.records())?;
        for (job, record) in &records {
            found.extend(record.violations(*job));
        }
        for (job, shown) in states {
            let Some(Shown { state, reason }) = shown else {
                found.push(format!("job {job} was acknowledged and is not known"));
                continue;
            };
            let reason = reason.unwrap_or_default();
            let requeue = self.jobs[&job];
            let ended = records.get(&job).is_some_and(records::Job::has_ended);
            match state.as_str() {
                "COMPLETED" if !ended => {
                    found.push(format!("job {job} is COMPLETED, and not all its ranks have ended"));
                }
                "COMPLETED" => {}
                "NODE_FAIL" if !requeue => {}
                state if !is_over(state) => found.push(format!("job {job} is {state}: {reason}")),
                state => found.push(format!(
                    "job {job}{} ended {state}: {reason}",
                    if requeue { " (--requeue)" } else { "" }
                )),
            }
        }
        Ok(found)
    }
}

fn is_over(state: &str) -> bool {
    matches!(
        state,
        "COMPLETED" | "FAILED" | "CANCELLED" | "TIMEOUT" | "NODE_FAIL" | "OUT_OF_MEMORY"
    )
}

/// The job's state; `None` if the manager does not know it or does not answer.
fn shown(cluster: &Cluster, job: u64) -> Result<Option<Shown>> {
    let output = cluster.output(&["show", "--json", &job.to_string()])?;
    Ok(serde_json::from_slice(&output.stdout).ok().filter(|_| output.status.success()))
}
