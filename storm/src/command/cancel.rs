//! `cancel`: ends jobs and steps, or sends them signals.

use super::listing::{
    first_unknown, list, myself, no_such_job, outcomes, report_changes, retain_partitions, who,
};
use super::misunderstood::misunderstood;
use super::naming::{resolve, resolve_each};
use super::{choices, connect};
use crate::cli::{CancelOptions, JobName, JobOrStep, WhichJobs};
use crate::failure::{EXIT_USAGE, Failure};
use crate::output::{Changed, Output};
use storm_mm::api::{
    ApiError, Client, ClientError, ErrorCode, JobFilter, JobState, MAX_NAMED, ManagerRequest, Reply,
};
use storm_rm::{JobId, StepId};

/// `cancel`: fails if any of the jobs could not be ended.
pub(super) async fn cancel(options: CancelOptions, output: &dyn Output) -> Result<u8, Failure> {
    // A cancelled job has `kill-grace` to end; `storm queue` shows when it has.
    let signal = options.signal;
    let done = done(signal);
    // A job that has left these states since the listing is not to be cancelled.
    let states = options.which.state.clone();
    let request = |jobs| ManagerRequest::Cancel { jobs, signal, states: states.clone() };
    let is_step = |name: &&JobOrStep| name.step.is_some();
    if options.which.is_any() {
        let client = connect(&options.cluster).await?;
        return cancel_named(client, &options.jobs, request, signal, output).await;
    }
    if let Some(step) = options.jobs.iter().find(is_step) {
        let message = format!("{step} is a step, and options select among jobs");
        return Err(Failure::new("usage", message).hint("name the step alone").exit(EXIT_USAGE));
    }
    let manager = choices(&options.cluster)?.required()?.open()?;
    let WhichJobs { user, me, state, partition } = options.which;
    let (uids, users) = if me { myself(&manager) } else { who(user, &manager)? };
    let mut client = manager.connect().await?;
    let named = resolve(&mut client, &jobs_of(&options.jobs)).await?;
    if let Some(job) = first_unknown(&mut client, named.clone()).await? {
        return Err(no_such_job(job));
    }
    // If jobs are not named, only those that can get a signal are selected.
    let waiting_too = signal.is_none() || !named.is_empty() || !state.is_empty();
    let filter = JobFilter { states: state, uids, users, jobs: named, ..JobFilter::default() };
    let mut jobs = list(&mut client, filter).await?;
    // Named jobs are listed even if they have ended, and `state` may be a final one.
    jobs.retain(|job| !job.state.is_final() && (waiting_too || job.state != JobState::Pending));
    retain_partitions(&mut client, &mut jobs, &partition).await?;
    if jobs.is_empty() {
        super::note(&output.note("no waiting or running job matches: nothing is cancelled"));
    }
    let mut changed = Vec::new();
    for some in jobs.chunks(MAX_NAMED) {
        let numbers = some.iter().map(|job| job.id).collect();
        let outcomes = outcomes(client.call(request(numbers)).await?)?;
        let meant = some.iter().zip(outcomes).filter(|(_, outcome)| {
            outcome.error.as_ref().is_none_or(|error| error.code != ErrorCode::OtherState)
        });
        changed.extend(meant.map(|(job, outcome)| Changed {
            id: Some(job.id),
            name: job.job_name(),
            error: outcome.error,
        }));
    }
    report_changes(&changed, done, output)
}

fn done(signal: Option<i32>) -> &'static str {
    if signal.is_some() { "Signalled" } else { "Cancelling" }
}

fn jobs_of(names: &[JobOrStep]) -> Vec<JobName> {
    names.iter().map(|name| name.job).collect()
}

/// Ends jobs and steps by their names: the jobs together, and then the steps one by one.
async fn cancel_named(
    mut client: Client,
    names: &[JobOrStep],
    request: impl Fn(Vec<JobId>) -> ManagerRequest,
    signal: Option<i32>,
    output: &dyn Output,
) -> Result<u8, Failure> {
    let numbers = resolve_each(&mut client, &jobs_of(names)).await?;
    let whole = |(name, number): (&JobOrStep, &Result<JobId, ApiError>)| match (name.step, number) {
        (None, Ok(job)) => Some(*job),
        (Some(_), _) | (None, Err(_)) => None,
    };
    let jobs: Vec<JobId> = names.iter().zip(&numbers).filter_map(whole).collect();
    let of_jobs = match jobs.is_empty() {
        true => Vec::new(),
        false => outcomes(client.call(request(jobs)).await?)?,
    };
    let mut of_jobs = of_jobs.into_iter();
    let mut changed = Vec::new();
    for (name, number) in names.iter().zip(numbers) {
        let (id, error) = match (number, name.step) {
            (Err(error), _) => (None, Some(error)),
            (Ok(job), None) => (Some(job), of_jobs.next().and_then(|outcome| outcome.error)),
            (Ok(job), Some(step)) => {
                (Some(job), cancel_step(&mut client, (job, step), signal).await?)
            }
        };
        changed.push(Changed { id, name: name.to_string(), error });
    }
    report_changes(&changed, done(signal), output)
}

/// Ends a step. Returns the manager's refusal, if any.
pub(crate) async fn cancel_step(
    client: &mut Client,
    (job, step): (JobId, StepId),
    signal: Option<i32>,
) -> Result<Option<ApiError>, Failure> {
    match client.call(ManagerRequest::CancelStep { job, step, signal }).await {
        Ok(Reply::Ok) => Ok(None),
        Ok(other) => Err(misunderstood(&other)),
        Err(ClientError::Refused(error)) => Ok(Some(error)),
        Err(error) => Err(error.into()),
    }
}
