//! `hold`, `release`, `requeue`, `suspend`, `resume-job` and `update`: changes of jobs by name.

use super::connect;
use super::listing::{outcomes, report_changes};
use super::naming::{dependency, resolve_each};
use crate::cli::{
    ClusterOptions, HoldOptions, JobName, NewDependency, NewLimit, RequeueOptions, SuspendOptions,
    UpdateOptions,
};
use crate::failure::Failure;
use crate::output::{Changed, Output};
use storm_mm::api::{ApiError, Client, JobChange, ManagerRequest};
use storm_rm::JobId;

pub(super) async fn hold(options: HoldOptions, output: &dyn Output) -> Result<u8, Failure> {
    let request = |jobs| ManagerRequest::Hold { jobs };
    change(&options.cluster, &options.jobs, request, "Held", output).await
}

pub(super) async fn release(options: HoldOptions, output: &dyn Output) -> Result<u8, Failure> {
    let request = |jobs| ManagerRequest::Release { jobs };
    change(&options.cluster, &options.jobs, request, "Released", output).await
}

pub(super) async fn requeue(options: RequeueOptions, output: &dyn Output) -> Result<u8, Failure> {
    let request = |jobs| ManagerRequest::Requeue { jobs, hold: options.hold };
    change(&options.cluster, &options.jobs, request, "Requeued", output).await
}

pub(super) async fn suspend(options: SuspendOptions, output: &dyn Output) -> Result<u8, Failure> {
    let request = |jobs| ManagerRequest::Suspend { jobs };
    change(&options.cluster, &options.jobs, request, "Suspended", output).await
}

pub(super) async fn resume_job(
    options: SuspendOptions,
    output: &dyn Output,
) -> Result<u8, Failure> {
    let request = |jobs| ManagerRequest::ResumeJobs { jobs };
    change(&options.cluster, &options.jobs, request, "Resumed", output).await
}

pub(super) async fn update(options: UpdateOptions, output: &dyn Output) -> Result<u8, Failure> {
    let mut client = connect(&options.cluster).await?;
    let needed = match &options.dependency {
        Some(NewDependency::On(typed)) => Some(dependency(&mut client, typed).await?),
        Some(NewDependency::None) | None => None,
    };
    let wanted = JobChange {
        time_limit: match options.time {
            Some(NewLimit::Of(limit)) => Some(limit),
            Some(NewLimit::None) | None => None,
        },
        no_time_limit: options.time == Some(NewLimit::None),
        partition: options.partition,
        nice: options.nice,
        name: options.name,
        comment: options.comment,
        dependency: needed,
        no_dependency: options.dependency == Some(NewDependency::None),
    };
    let request = |jobs| ManagerRequest::Update { jobs, change: wanted };
    change_by(client, &options.jobs, request, "Updated", output).await
}

pub(super) async fn change(
    cluster: &ClusterOptions,
    jobs: &[JobName],
    request: impl FnOnce(Vec<JobId>) -> ManagerRequest,
    done: &str,
    output: &dyn Output,
) -> Result<u8, Failure> {
    let client = connect(cluster).await?;
    change_by(client, jobs, request, done, output).await
}

/// Changes jobs, and gives a result or an error for each. A name without a job does not stop the
/// others.
async fn change_by(
    mut client: Client,
    jobs: &[JobName],
    request: impl FnOnce(Vec<JobId>) -> ManagerRequest,
    done: &str,
    output: &dyn Output,
) -> Result<u8, Failure> {
    let numbers = resolve_each(&mut client, jobs).await?;
    let known: Vec<JobId> = numbers.iter().filter_map(|n| n.as_ref().ok().copied()).collect();
    let outcomes = match known.is_empty() {
        true => Vec::new(),
        false => outcomes(client.call(request(known)).await?)?,
    };
    let mut outcomes = outcomes.into_iter();
    let changed = |(name, number): (&JobName, Result<JobId, ApiError>)| {
        let name = name.to_string();
        match number {
            Ok(job) => {
                let error = outcomes.next().and_then(|outcome| outcome.error);
                Changed { id: Some(job), name, error }
            }
            Err(error) => Changed { id: None, name, error: Some(error) },
        }
    };
    let changed: Vec<Changed> = jobs.iter().zip(numbers).map(changed).collect();
    report_changes(&changed, done, output)
}
