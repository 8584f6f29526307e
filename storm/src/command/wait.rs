//! `wait`, and `submit --wait`: waits for the end of jobs without following them.
//!
//! The jobs are not affected. An interruption ends only the waiting.

use super::misunderstood::misunderstood;
use super::naming::resolve;
use super::{choices, note, print};
use crate::attach::QueueNotes;
use crate::cli::{DisplayOptions, WaitOptions};
use crate::failure::{EXIT_STORM_FAILED, EXIT_TIMED_OUT, Failure};
use crate::manager::Manager;
use crate::outcome::Outcome;
use crate::output::Output;
use std::collections::BTreeMap;
use std::future::pending;
use std::time::{Duration, Instant};
use storm_mm::api::{ClientError, ForgottenJobs, JobState, JobView, ManagerRequest, Reply};
use storm_rm::JobId;
use tokio::time::{sleep, timeout};

/// How long to wait for a manager that went away, as when following a job: a restart takes a
/// second.
const RETURN_LIMIT: Duration = Duration::from_secs(60);
/// Pause between two attempts to connect.
const LOOK: Duration = Duration::from_millis(50);

/// Most jobs that are listed one by one even if they ended well.
const LISTED_MAX: usize = 16;

/// `wait`: the highest exit status of the jobs.
pub(super) async fn wait(
    options: WaitOptions,
    output: &dyn Output,
    DisplayOptions { quiet, json }: DisplayOptions,
) -> Result<u8, Failure> {
    let silent = quiet || json;
    let manager = choices(&options.cluster)?.required()?.open()?;
    let jobs = resolve(&mut manager.connect().await?, &options.jobs).await?;
    let mut waiting = Waiting::new(jobs);
    let all = waiting.until_all_have_ended(&manager, silent);
    let in_time = match options.timeout {
        Some(limit) => timeout(limit, all).await.map_err(|_| too_late(limit)),
        None => Ok(all.await),
    };
    if let Ok(Err(failure)) = in_time {
        return Err(failure);
    }
    let ended: Vec<JobView> = waiting.ended.values().cloned().collect();
    let listed = worth_listing(&ended, silent);
    if silent || !listed.is_empty() {
        print(&output.jobs(&listed))?;
    }
    // A script learns of forgotten jobs only from the exit status, as they are not in the listing.
    if !quiet {
        waiting.note_forgotten();
    }
    in_time.map(|_| waiting.highest_status())
}

/// The jobs to show to users: of many jobs only those that did not end well, with a count of the
/// others.
fn worth_listing(ended: &[JobView], silent: bool) -> Vec<JobView> {
    if silent || ended.len() <= LISTED_MAX {
        return ended.to_vec();
    }
    let well = |job: &&JobView| job.state == JobState::Completed;
    let done = ended.iter().filter(well).count();
    note(&format!("storm: {done} of {} jobs are COMPLETED\n", ended.len()));
    ended.iter().filter(|job| !well(job)).cloned().collect()
}

/// `submit --wait`, for a job or array that was submitted just now. Notes are the same as for a
/// followed job.
pub(super) async fn wait_for_own(
    manager: &Manager,
    job: JobId,
    output: &dyn Output,
    silent: bool,
) -> Result<u8, Failure> {
    let jobs = vec![job];
    let mut waiting = Waiting::new(jobs);
    waiting.own = Some(Own { job, notes: QueueNotes::new(!silent) });
    waiting.until_all_have_ended(manager, silent).await?;
    let status = waiting.highest_status();
    if !silent {
        waiting.note_forgotten();
    }
    let listed: Vec<JobView> = waiting.ended.into_values().collect();
    match listed.as_slice() {
        [one] if one.id == job => {
            let outcome = Outcome {
                job,
                step: None,
                state: one.state,
                exit_code: status,
                interrupted: None,
                reason: one.reason.clone(),
                breakdown: None,
                node_list: Some(one.node_list.clone()).filter(|list| !list.is_empty()),
                without_pmix: false,
            };
            note(&output.outcome(&outcome, None));
        }
        all if status != 0 => note(&output.jobs(&worth_listing(all, silent))),
        _ => {}
    }
    Ok(status)
}

/// The highest status of a job, or of the jobs of an array, after their end.
pub(crate) async fn status_at_end(manager: &Manager, job: JobId) -> Result<u8, Failure> {
    let mut waiting = Waiting::new(vec![job]);
    waiting.until_all_have_ended(manager, true).await?;
    Ok(waiting.highest_status())
}

fn too_late(limit: Duration) -> Failure {
    Failure::new("timeout", format!("not all of the jobs have ended within {limit:?}"))
        .hint("they continue: `storm queue` lists them")
        .exit(EXIT_TIMED_OUT)
}

/// The job or array that was submitted just now.
struct Own {
    job: JobId,
    notes: QueueNotes,
}

/// The jobs that are waited for.
#[derive(Default)]
struct Waiting {
    /// The job whose reason to wait is shown.
    own: Option<Own>,
    jobs: Vec<JobId>,
    /// The jobs that have ended.
    ended: BTreeMap<JobId, JobView>,
    /// Jobs that the manager has forgotten, by array.
    forgotten: BTreeMap<JobId, ForgottenJobs>,
    /// Whether a manager has accepted the request.
    accepted: bool,
    /// Since when there has been no manager.
    gone: Option<Instant>,
}

impl Waiting {
    fn new(jobs: Vec<JobId>) -> Waiting {
        Waiting { jobs, ..Waiting::default() }
    }

    /// Checks that the ends of all jobs are known: a manager that forgot a job reports nothing
    /// about it.
    fn check(&self) -> Result<(), Failure> {
        let is_told = |job: &JobId| {
            let of_array = |view: &JobView| view.array.is_some_and(|task| task.array == *job);
            self.ended.contains_key(job)
                || self.forgotten.contains_key(job)
                || self.ended.values().any(of_array)
        };
        match self.jobs.iter().find(|job| !is_told(job)) {
            None => Ok(()),
            Some(job) => Err(Failure::new(
                "no-such-job",
                format!("job {job} has ended, and is forgotten"),
            )
            .hint("how many ended jobs the manager remembers is `history` of its configuration")
            .exit(EXIT_STORM_FAILED)),
        }
    }

    /// The highest exit status, including that of forgotten jobs, which the manager still knows.
    fn highest_status(&self) -> u8 {
        let known = self.ended.values().filter_map(|job| job.exit_code);
        known.chain(self.forgotten.values().map(|some| some.exit_code)).max().unwrap_or(0)
    }

    /// Notes the jobs that are not listed, and their result.
    fn note_forgotten(&self) {
        for some in self.forgotten.values() {
            let of_array =
                |view: &&JobView| view.array.is_some_and(|task| task.array == some.array);
            let told = self.ended.values().filter(of_array).count();
            // Some of the forgotten jobs may have been reported before.
            if told < some.size as usize {
                let ForgottenJobs { array, size, jobs, failed, exit_code } = some;
                note(&format!(
                    "storm: {jobs} of the {size} jobs of {array} have ended and are forgotten, \
                     because `history` in the configuration is smaller; {failed} of these did not \
                     end COMPLETED, and their highest exit status is {exit_code}\n"
                ));
            }
        }
    }

    async fn until_all_have_ended(
        &mut self,
        manager: &Manager,
        silent: bool,
    ) -> Result<(), Failure> {
        loop {
            let error = match self.listen(manager).await {
                Ok(told) => return told,
                Err(error) => error,
            };
            let is_new = self.gone.is_none();
            let since = *self.gone.get_or_insert_with(Instant::now);
            let kept = manager.kept().filter(|kept| !kept.process.is_alive());
            if let Some(kept) = kept.filter(|_| self.accepted) {
                return Err(Failure::from(kept.died()).exit(EXIT_STORM_FAILED));
            }
            // If there was no manager from the start, does not wait for it.
            if !self.accepted || !error.may_pass() || since.elapsed() > RETURN_LIMIT {
                let failure = Failure::from(error);
                let status = if self.accepted { EXIT_STORM_FAILED } else { failure.exit };
                return Err(failure.exit(status));
            }
            if is_new && !silent {
                note("storm: the manager is gone; waiting for its return\n");
            }
            sleep(LOOK).await;
        }
    }

    /// Takes events of the jobs until the last has ended, or the manager is gone.
    async fn listen(&mut self, manager: &Manager) -> Result<Result<(), Failure>, ClientError> {
        let (mut requests, mut replies) = manager.connect().await?.split();
        // Ended jobs may be forgotten by now. An array's number is never in `ended`, so it is asked
        // again.
        let jobs = self.jobs.iter().filter(|job| !self.ended.contains_key(job)).copied().collect();
        let asked = requests.send(ManagerRequest::Wait { jobs }).await?;
        loop {
            let line = tokio::select! {
                line = replies.next() => line?.ok_or(ClientError::Closed)?,
                job = own_is_due(self.own.as_ref()) => {
                    requests.send(ManagerRequest::Explain { job }).await?;
                    self.own.iter_mut().for_each(|own| own.notes.asked());
                    continue;
                }
            };
            match line.reply {
                Reply::Explanation { explanation } => {
                    let told = self.own.as_mut().and_then(|own| own.notes.line(&explanation));
                    if let Some(told) = told {
                        note(&format!("storm: {told}\n"));
                    }
                }
                Reply::Jobs { jobs, more } if line.id == asked => {
                    (self.accepted, self.gone) = (true, None);
                    self.ended.extend(jobs.into_iter().map(|job| (job.id, job)));
                    if !more {
                        return Ok(self.check());
                    }
                }
                Reply::Forgotten { arrays } if line.id == asked => {
                    self.forgotten.extend(arrays.into_iter().map(|some| (some.array, some)));
                }
                Reply::Error { error } if line.id == asked || line.id == 0 => {
                    return Err(error.into());
                }
                // The manager no longer explains the job, so the report of its end is on the way.
                Reply::Error { .. } => {}
                other => return Ok(Err(misunderstood(&other))),
            }
        }
    }
}

/// Completes with the job when it is time to ask why it waits.
async fn own_is_due(own: Option<&Own>) -> JobId {
    match own {
        Some(own) => {
            own.notes.due().await;
            own.job
        }
        None => pending().await,
    }
}
