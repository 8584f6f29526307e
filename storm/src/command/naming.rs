//! Turns the names of jobs into numbers; only the manager knows the number of `7_3`.

use super::misunderstood::misunderstood;
use crate::cli::{DependencyArgument, JobName};
use crate::failure::Failure;
use std::collections::{BTreeMap, BTreeSet};
use storm_mm::api::{ApiError, Client, ErrorCode, JobFilter, ManagerRequest, Reply};
use storm_rm::{ArrayTask, Condition, Dependency, JobId};

/// The numbers of jobs, in order.
pub(super) async fn resolve(client: &mut Client, names: &[JobName]) -> Result<Vec<JobId>, Failure> {
    let numbers = resolve_each(client, names).await?;
    numbers.into_iter().map(|number| number.map_err(Failure::from)).collect()
}

/// The number of each job, or an error if no job has the name.
pub(super) async fn resolve_each(
    client: &mut Client,
    names: &[JobName],
) -> Result<Vec<Result<JobId, ApiError>>, Failure> {
    let task = |name: &JobName| Some(ArrayTask { array: name.job, index: name.task? });
    // Each array once, as the number of names has no bound.
    let arrays: BTreeSet<JobId> = names.iter().filter_map(task).map(|task| task.array).collect();
    let arrays: Vec<JobId> = arrays.into_iter().collect();
    if arrays.is_empty() {
        return Ok(names.iter().map(|name| Ok(name.job)).collect());
    }
    let filter = JobFilter { jobs: arrays, history: true, ..JobFilter::default() };
    let known = match client.call(ManagerRequest::Jobs(filter)).await? {
        Reply::Jobs { jobs, .. } => jobs,
        other => return Err(misunderstood(&other)),
    };
    let known: BTreeMap<ArrayTask, JobId> =
        known.iter().filter_map(|job| Some((job.array?, job.id))).collect();
    let number = |name: &JobName| match task(name) {
        None => Ok(name.job),
        Some(task) => {
            let found = known.get(&task).copied();
            found.ok_or_else(|| {
                let message = format!("there is no job {task}");
                ApiError::new(ErrorCode::NoSuchJob, message)
                    .hint(format!("storm queue --all {} lists the jobs of the array", task.array))
            })
        }
    };
    Ok(names.iter().map(number).collect())
}

pub(super) async fn resolve_one(client: &mut Client, name: JobName) -> Result<JobId, Failure> {
    let found = resolve(client, &[name]).await?;
    Ok(found.first().copied().unwrap_or(name.job))
}

/// A dependency with the numbers of its jobs.
pub(crate) async fn dependency(
    client: &mut Client,
    typed: &DependencyArgument,
) -> Result<Dependency, Failure> {
    let names: Vec<JobName> = typed.conditions.iter().filter_map(|(_, name)| *name).collect();
    let mut numbers = resolve(client, &names).await?.into_iter();
    let conditions = typed.conditions.iter().map(|(kind, name)| match name {
        None => Condition::Singleton,
        // There are as many numbers as names.
        Some(name) => kind.on(numbers.next().unwrap_or(name.job)),
    });
    Ok(Dependency { any: typed.any, conditions: conditions.collect() })
}
