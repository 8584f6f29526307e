//! Runs jobs that are measured, each on a cluster of real daemons of its own on this machine.

use super::job::submit_and_follow;
use crate::attach::Interrupts;
use crate::cli::JobOptions;
use crate::failure::Failure;
use crate::job_request::job_request;
use crate::local_cluster::{LocalClusterShape, start_embedded};
use crate::manager::Manager;
use crate::outcome::Outcome;
use std::path::Path;
use storm_mm::api::JobState;

/// Runs an action on a new cluster. An interruption ends both.
pub(super) async fn on_cluster<T>(
    shape: &LocalClusterShape,
    job_bytes: u64,
    interrupts: &mut Interrupts,
    work: impl AsyncFnOnce(&Path) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let cluster = tokio::select! {
        cluster = start_embedded(shape, job_bytes) => cluster?,
        status = interrupts.next() => return Err(interrupted(status)),
    };
    let done = tokio::select! {
        done = work(cluster.socket()) => done,
        status = interrupts.next() => Err(interrupted(status)),
    };
    cluster.end().await;
    done
}

/// Runs a job to its end, which must be successful.
pub(super) async fn run_well(
    socket: &Path,
    job: &JobOptions,
    silent: bool,
) -> Result<Outcome, Failure> {
    let (manager, request) = (Manager::at(socket), job_request(job, true)?);
    let outcome = submit_and_follow(&manager, request, job, silent, false).await?;
    if outcome.state == JobState::Completed {
        return Ok(outcome);
    }
    let why = outcome.reason.unwrap_or_else(|| format!("exit status {}", outcome.exit_code));
    Err(Failure::new("measurement", format!("a job to measure ended {}: {why}", outcome.state))
        .hint("is the machine too small for it? fewer nodes need less"))
}

fn interrupted(status: u8) -> Failure {
    Failure::new("interrupted", "interrupted: nothing was kept").exit(status)
}
