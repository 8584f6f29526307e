//! `wait`, and `submit --wait`: the ends of jobs that are not followed.
//!
//! What it does not do: anything to the jobs. Whoever interrupts it ends the waiting alone.

use super::listing::misunderstood;
use super::naming::resolve;
use super::{choices, note, print};
use crate::attach::{Outcome, QueueNotes};
use crate::cli::{DisplayOptions, WaitOptions};
use crate::failure::{EXIT_STORM_FAILED, EXIT_TIMED_OUT, Failure};
use crate::manager::Manager;
use crate::output::Output;
use std::collections::BTreeMap;
use std::future::pending;
use std::time::{Duration, Instant};
use storm_mm::api::{ClientError, ForgottenJobs, JobState, JobView, ManagerRequest, Reply};
use storm_rm::JobId;
use tokio::time::{sleep, timeout};

/// How long the return of a manager that went away is waited for, as by whoever follows a
/// job: a restart takes a second.
const RETURN_LIMIT: Duration = Duration::from_secs(60);
/// Between two looks at whether it is there.
const LOOK: Duration = Duration::from_millis(50);

/// Jobs that are listed one by one whatever became of them.
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
    print(&output.jobs(&worth_listing(&ended, silent)))?;
    // Of these a script that reads the listing finds nothing in it, only in the status.
    if !quiet {
        waiting.note_forgotten();
    }
    in_time.map(|_| waiting.highest_status())
}

/// What people are shown: of many jobs those that did not end well, and how many did.
fn worth_listing(ended: &[JobView], silent: bool) -> Vec<JobView> {
    if silent || ended.len() <= LISTED_MAX {
        return ended.to_vec();
    }
    let well = |job: &&JobView| job.state == JobState::Completed;
    let done = ended.iter().filter(well).count();
    note(&format!("storm: {done} of {} jobs are COMPLETED\n", ended.len()));
    ended.iter().filter(|job| !well(job)).cloned().collect()
}

/// `submit --wait`, of a job or array that was just submitted: what is told of it is told as by
/// those who follow.
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

fn too_late(limit: Duration) -> Failure {
    Failure::new("timeout", format!("not all of the jobs have ended within {limit:?}"))
        .hint("they go on: `storm queue` lists them")
        .exit(EXIT_TIMED_OUT)
}

/// The job or array that was submitted just now.
struct Own {
    job: JobId,
    notes: QueueNotes,
}

/// What is waited for.
#[derive(Default)]
struct Waiting {
    /// Said of it is why it waits.
    own: Option<Own>,
    jobs: Vec<JobId>,
    /// What is known of those that have ended.
    ended: BTreeMap<JobId, JobView>,
    /// By array, what is known of jobs that the manager has forgotten.
    forgotten: BTreeMap<JobId, ForgottenJobs>,
    /// A manager has understood what is wanted.
    accepted: bool,
    /// Since when there has been none.
    gone: Option<Instant>,
}

impl Waiting {
    fn new(jobs: Vec<JobId>) -> Waiting {
        Waiting { jobs, ..Waiting::default() }
    }

    /// The ends of all jobs are known: a manager that remembers none says nothing of them.
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

    /// Also of those that are forgotten: so much of them the manager knows.
    fn highest_status(&self) -> u8 {
        let known = self.ended.values().filter_map(|job| job.exit_code);
        known.chain(self.forgotten.values().map(|some| some.exit_code)).max().unwrap_or(0)
    }

    /// Says of which jobs nothing is listed, and what they come to.
    fn note_forgotten(&self) {
        for some in self.forgotten.values() {
            let of_array =
                |view: &&JobView| view.array.is_some_and(|task| task.array == some.array);
            let told = self.ended.values().filter(of_array).count();
            // Some may have been told of before they were forgotten.
            if told < some.size as usize {
                let ForgottenJobs { array, size, jobs, failed, exit_code } = some;
                note(&format!(
                    "storm: {jobs} of the {size} jobs of {array} have ended and are forgotten, as \
                     `history` of the configuration is less; {failed} of these did not end COMPLETED, \
                     and their highest exit status is {exit_code}\n"
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
            // One that never was there is not waited for.
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

    /// Hears of the jobs until the last has ended, or the manager is gone.
    async fn listen(&mut self, manager: &Manager) -> Result<Result<(), Failure>, ClientError> {
        let (mut requests, mut replies) = manager.connect().await?.split();
        // What has ended may be forgotten by now; an array's number is none of its jobs'.
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
                // Nothing explains the job any more: its end is on its way.
                Reply::Error { .. } => {}
                other => return Ok(Err(misunderstood(&other))),
            }
        }
    }
}

/// Returns the job when it is time to ask why it waits.
async fn own_is_due(own: Option<&Own>) -> JobId {
    match own {
        Some(own) => {
            own.notes.due().await;
            own.job
        }
        None => pending().await,
    }
}
