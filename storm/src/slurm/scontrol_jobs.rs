//! The work of scontrol(1) on jobs that it names: holds, releases, requeues, suspends and resumes.

use super::asking::{manager, means};
use super::complaint::Complaint;
use crate::command::listing::{list, myself};
use crate::command::misunderstood::misunderstood;
use crate::command::note;
use crate::failure::{EXIT_FAILED, Failure};
use crate::manager::Manager;
use crate::output::for_people;
use std::borrow::Borrow;
use storm_mm::api::{
    ApiError, Client, ErrorCode, JobFilter, JobView, MAX_NAMED, ManagerRequest, Reply,
};
use storm_rm::JobId;
use storm_slurm::JobName;
use storm_slurm::options::CommandLine;

/// A change of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Hold,
    Release,
    Requeue,
    RequeueHold,
    Suspend,
    Resume,
}

impl Act {
    fn request(self, jobs: Vec<JobId>) -> ManagerRequest {
        match self {
            Act::Hold => ManagerRequest::Hold { jobs },
            Act::Release => ManagerRequest::Release { jobs },
            Act::Requeue => ManagerRequest::Requeue { jobs, hold: false },
            Act::RequeueHold => ManagerRequest::Requeue { jobs, hold: true },
            Act::Suspend => ManagerRequest::Suspend { jobs },
            Act::Resume => ManagerRequest::ResumeJobs { jobs },
        }
    }

    /// Slurm's name of the request in a second line about an error, where it has such a line.
    fn in_errors(self) -> Option<&'static str> {
        match self {
            Act::Hold | Act::Release | Act::Suspend | Act::Resume => Some("slurm_suspend"),
            Act::Requeue | Act::RequeueHold => None,
        }
    }
}

/// Does this with the jobs that the words name. Tells of each that it fails for.
pub(super) async fn alter(
    line: &CommandLine,
    keyword: &str,
    words: &[&str],
    act: Act,
) -> Result<u8, Complaint> {
    if words.is_empty() {
        return Err(Complaint::plain(format!("too few arguments for keyword:{keyword}")));
    }
    let manager = manager()?;
    let mut client = manager.connect().await.map_err(Failure::from)?;
    let quiet = line.has("quiet");
    let mut failed = false;
    for word in words.iter().flat_map(|word| parts(word)) {
        let jobs = named(&mut client, &manager, &word).await?;
        if jobs.is_empty() {
            tell(quiet, act.in_errors(), &word, INVALID_JOB);
            failed = true;
        }
        let outcomes = each(&mut client, &jobs, |jobs| act.request(jobs)).await?;
        for (job, error) in jobs.iter().zip(outcomes) {
            let Some(error) = error else { continue };
            tell(quiet, act.in_errors(), &job.job_name(), in_slurms_words(&error));
            failed = true;
        }
    }
    Ok(if failed { EXIT_FAILED } else { 0 })
}

/// Makes a request for jobs, and returns the error for each.
pub(super) async fn each(
    client: &mut Client,
    jobs: &[impl Borrow<JobView>],
    request: impl Fn(Vec<JobId>) -> ManagerRequest,
) -> Result<Vec<Option<ApiError>>, Complaint> {
    let mut errors = Vec::with_capacity(jobs.len());
    for some in jobs.chunks(MAX_NAMED) {
        let numbers = some.iter().map(|job| job.borrow().id).collect();
        match client.call(request(numbers)).await.map_err(Failure::from)? {
            Reply::Altered { jobs } => errors.extend(jobs.into_iter().map(|one| one.error)),
            other => return Err(misunderstood(&other).into()),
        }
    }
    Ok(errors)
}

/// Slurm's text about a name that no job has.
pub(super) const INVALID_JOB: &str = "Invalid job id specified";

/// Slurm's text for an error, or ours where it has none.
pub(super) fn in_slurms_words(error: &ApiError) -> &str {
    match error.code {
        ErrorCode::NoSuchJob => INVALID_JOB,
        ErrorCode::JobEnded => "Job/step already completing or completed",
        ErrorCode::NotPermitted => "Access/permission denied",
        ErrorCode::NoSuchPartition => "Invalid partition name specified",
        ErrorCode::Infeasible => "Requested node configuration is not available",
        _ => &error.message,
    }
}

/// Tells that it failed for a job, unless scontrol is to be quiet.
pub(super) fn tell(quiet: bool, request: Option<&str>, job: &str, why: &str) {
    if quiet {
        return;
    }
    let (job, why) = (for_people(job), for_people(why));
    let second = request.map_or_else(String::new, |name| format!("{name} error: {why}\n"));
    // The manager's own texts name the job.
    let first = if why.starts_with("job ") { why } else { format!("{why} for job {job}") };
    note(&format!("{first}\n{second}"));
}

/// The parts between commas that are in no brackets.
pub(super) fn parts(word: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut depth = 0_i32;
    for sign in word.chars() {
        match sign {
            ',' if depth == 0 => {
                all.push(String::new());
                continue;
            }
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        if let Some(last) = all.last_mut() {
            last.push(sign);
        }
    }
    all.retain(|part| !part.is_empty());
    all
}

/// The jobs that a word means: `7`, `7_3`, `7_[1-3]`, `job=7`, or `name=NAME` and `jobname=NAME`
/// for one's own jobs of a name.
pub(super) async fn named(
    client: &mut Client,
    manager: &Manager,
    word: &str,
) -> Result<Vec<JobView>, Complaint> {
    let (key, value) = word.split_once('=').map_or((None, word), |(key, value)| (Some(key), value));
    match key.map(str::to_ascii_lowercase).as_deref() {
        Some("name" | "jobname") => {
            let (uids, users) = myself(manager);
            let filter = JobFilter { uids, users, ..JobFilter::default() };
            let mut jobs = list(client, filter).await?;
            jobs.retain(|job| job.name == value && !job.state.is_final());
            return Ok(jobs);
        }
        None | Some("job" | "jobid") => {}
        Some(_) => return Ok(Vec::new()),
    }
    let Ok(name) = value.parse::<JobName>() else { return Ok(Vec::new()) };
    let filter = JobFilter { jobs: vec![JobId(name.job)], ..JobFilter::default() };
    let mut jobs = list(client, filter).await?;
    jobs.retain(|job| means(&name, job));
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_brackets_do_not_separate_jobs() {
        assert_eq!(parts("7,8_[1-2,4],name=x"), ["7", "8_[1-2,4]", "name=x"]);
        assert_eq!(parts(","), Vec::<String>::new());
    }
}
