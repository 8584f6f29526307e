//! Waiting jobs of an array on one line: `7_[2-9%2]`.

use crate::view::{ArrayPlace, JobFacts, StateCode, Tasks};

/// Puts neighbours that wait alike on one line. The jobs are in order of their numbers.
pub fn fold_arrays(jobs: Vec<JobFacts>) -> Vec<JobFacts> {
    let mut lines: Vec<JobFacts> = Vec::with_capacity(jobs.len());
    for job in jobs {
        match lines.last_mut() {
            Some(line) if wait_alike(line, &job) => join(line, &job),
            _ => lines.push(group_of_one(job)),
        }
    }
    lines
}

fn wait_alike(line: &JobFacts, job: &JobFacts) -> bool {
    let array = |job: &JobFacts| job.array.as_ref().map(|place| place.job);
    line.state == StateCode::Pending
        && job.state == StateCode::Pending
        && array(line).is_some()
        && array(line) == array(job)
        && line.reason == job.reason
        && line.dependency == job.dependency
        && line.partition == job.partition
}

/// A waiting job of an array, as Slurm names it before it is a job of its own: by the array.
fn group_of_one(mut job: JobFacts) -> JobFacts {
    if let Some(ArrayPlace { job: array, tasks, .. }) = &mut job.array
        && job.state == StateCode::Pending
        && let Tasks::One(index) = *tasks
    {
        *tasks = Tasks::Many(vec![index]);
        job.id = *array;
    }
    job
}

fn join(line: &mut JobFacts, job: &JobFacts) {
    if let Some(ArrayPlace { tasks: Tasks::Many(indices), .. }) = &mut line.array
        && let Some(place) = &job.array
    {
        match &place.tasks {
            Tasks::One(index) => indices.push(*index),
            Tasks::Many(more) => indices.extend(more),
        }
    }
}
