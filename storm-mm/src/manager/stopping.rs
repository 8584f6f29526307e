//! Jobs that administrators stop and let continue (Slurm `scontrol suspend` and `resume`), and jobs
//! that their users have wait again (`scontrol requeue`).
//!
//! A stopped job keeps its elements, its memory and its place with its policy, which is not told.
//! Only its rows are empty, as those of a job that is suspended for another. As in Slurm, only
//! administrators stop jobs: a stopped job is not charged for the elements that it keeps.

use super::Core;
use super::jobs::no_such_job;
use crate::api::{ApiError, ErrorCode, Peer};
use crate::job::{EndCause, Hold, JobEventKind, Phase};
use storm_primitives::Instant;
use storm_rm::JobId;

/// The most runs of a job after which its user may have it wait again: about 1 MB of the journal.
/// Jobs that continue from checkpoints may requeue themselves for months.
const MOST_RUNS: u32 = 1_000;

impl Core {
    /// Stops the processes of jobs. Returns the outcomes in the order of the jobs.
    pub fn stop_all(
        &mut self,
        now: Instant,
        peer: Peer,
        jobs: &[JobId],
    ) -> Vec<Result<(), ApiError>> {
        let each =
            |job: &JobId| self.of_admin(now, peer, *job, |core, job| core.stop(now, peer, job));
        jobs.iter().map(each).collect()
    }

    /// Lets the processes of stopped jobs continue. Returns the outcomes in the order of the jobs.
    pub fn continue_all(
        &mut self,
        now: Instant,
        peer: Peer,
        jobs: &[JobId],
    ) -> Vec<Result<(), ApiError>> {
        let each = |job: &JobId| {
            self.of_admin(now, peer, *job, |core, job| core.continue_one(now, peer, job))
        };
        jobs.iter().map(each).collect()
    }

    /// Has running jobs wait again: their processes are ended first. Returns the outcomes in the
    /// order of the jobs.
    pub fn requeue_all(
        &mut self,
        now: Instant,
        peer: Peer,
        jobs: &[JobId],
    ) -> Vec<Result<(), ApiError>> {
        self.requeue_each(now, peer, jobs, false)
    }

    /// Does the same as [`Core::requeue_all`], and holds the jobs: they wait until they are
    /// released.
    pub fn requeue_held_all(
        &mut self,
        now: Instant,
        peer: Peer,
        jobs: &[JobId],
    ) -> Vec<Result<(), ApiError>> {
        self.requeue_each(now, peer, jobs, true)
    }

    fn requeue_each(
        &mut self,
        now: Instant,
        peer: Peer,
        jobs: &[JobId],
        hold: bool,
    ) -> Vec<Result<(), ApiError>> {
        self.together(now, |core| {
            let each = |job: &JobId| {
                let of = core.jobs.of(*job).into_iter().rev().collect();
                core.each_of(now, peer, *job, of, |core, job| core.requeue(now, peer, job, hold))
            };
            jobs.iter().map(each).collect()
        })
    }

    fn of_admin(
        &mut self,
        now: Instant,
        peer: Peer,
        job: JobId,
        act: impl FnMut(&mut Core, JobId) -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        if !self.is_admin(peer) {
            let message = "only an administrator may suspend jobs and resume them";
            return Err(ApiError::new(ErrorCode::NotPermitted, message)
                .hint("storm requeue has a job wait again, storm hold keeps it from starting"));
        }
        let jobs = self.jobs.of(job);
        self.each_of(now, peer, job, jobs, act)
    }

    fn stop(&mut self, now: Instant, peer: Peer, job: JobId) -> Result<(), ApiError> {
        self.check_running(job, "suspended")?;
        let record = &self.jobs[&job];
        if record.stopped_by.is_some() {
            return Err(refused(format!("job {} is suspended already", record.name())));
        }
        let Some(partition) = self.live.get(job).map(|live| live.partition()) else {
            return Err(refused(format!("job {} has no processes", record.name())));
        };
        if self.partitions[partition].policy().communication_slice().is_some() {
            return Err(refused(format!("job {} cannot be suspended", record.name())).why(
                "under bcs its ranks communicate in slices, which a stopped rank would hold",
            ));
        }
        self.set_stopped(now, job, (true, peer.uid));
        Ok(())
    }

    fn continue_one(&mut self, now: Instant, peer: Peer, job: JobId) -> Result<(), ApiError> {
        self.check_running(job, "resumed")?;
        let record = &self.jobs[&job];
        if record.stopped_by.is_none() {
            return Err(refused(format!("no administrator has suspended job {}", record.name())));
        }
        self.set_stopped(now, job, (false, peer.uid));
        Ok(())
    }

    fn set_stopped(&mut self, now: Instant, job: JobId, (stop, uid): (bool, u32)) {
        let Some(partition) = self.live.get(job).map(|live| live.partition()) else { return };
        let active = self.partitions[partition].active();
        let Some(time) = self.live.set_stopped(now, job, (stop, active)) else { return };
        self.tell_rows(job);
        let (kind, reason) = match stop {
            true => (JobEventKind::StoppedBy { uid, time }, Some(self.stopped_reason(uid))),
            false => (JobEventKind::ContinuedBy { uid, time }, None),
        };
        self.append(now, job, kind);
        self.arm_time_limit(now, job);
        let state = self.jobs[&job].state();
        self.notify_state(job, state, reason);
        if !stop {
            self.launch_steps_of(now, job);
        }
    }

    /// Why a job does not run that an administrator has stopped.
    pub(super) fn stopped_reason(&self, uid: u32) -> String {
        self.config.with_user_name(&format!("suspended by user {uid}"))
    }

    fn requeue(
        &mut self,
        now: Instant,
        peer: Peer,
        job: JobId,
        hold: bool,
    ) -> Result<(), ApiError> {
        let record = self.jobs.get(&job).ok_or_else(|| no_such_job(job))?;
        let name = record.name();
        match &record.phase {
            Phase::Pending => Err(refused(format!("job {name} waits already"))),
            Phase::Ended(outcome) => {
                let message = format!("job {name} has ended: {}", outcome.state);
                Err(ApiError::new(ErrorCode::JobEnded, message).hint("submit it again"))
            }
            Phase::Ending(cause) if !matches!(cause, EndCause::RequeuedBy { .. }) => {
                Err(refused(format!("job {name} is being ended: {cause}")))
            }
            Phase::Starting | Phase::Running if record.first_over => {
                let message = format!("job {name} is over but for its steps, which are ended");
                Err(refused(message).hint("submit it again"))
            }
            Phase::Starting | Phase::Running | Phase::Ending(_)
                if record.runs >= MOST_RUNS && !self.is_admin(peer) =>
            {
                Err(refused(format!("job {name} has begun {MOST_RUNS} times"))
                    .why("each run stays in the manager's journal until the job ends")
                    .hint("cancel it and submit it again"))
            }
            Phase::Starting | Phase::Running | Phase::Ending(_) => {
                // The hold must be known before the end: the job may start again at once.
                let wanted = hold.then(|| Hold::by(peer.uid, record.spec.owner.uid));
                if record.hold < wanted
                    && let Some(hold) = wanted
                {
                    self.append(now, job, JobEventKind::Held { hold });
                }
                self.end_job(now, job, EndCause::RequeuedBy { uid: peer.uid });
                Ok(())
            }
        }
    }

    /// Fails unless a job runs.
    fn check_running(&self, job: JobId, done: &str) -> Result<(), ApiError> {
        let record = self.jobs.get(&job).ok_or_else(|| no_such_job(job))?;
        match &record.phase {
            Phase::Running => Ok(()),
            Phase::Ended(outcome) => {
                let message = format!("job {} has ended: {}", record.name(), outcome.state);
                Err(ApiError::new(ErrorCode::JobEnded, message))
            }
            Phase::Pending | Phase::Starting | Phase::Ending(_) => {
                Err(refused(format!("job {} does not run", record.name()))
                    .hint(format!("only a job that runs is {done}")))
            }
        }
    }
}

fn refused(message: String) -> ApiError {
    ApiError::new(ErrorCode::BadRequest, message)
}
