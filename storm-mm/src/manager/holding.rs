//! Holds: a user keeps a job from starting, or an administrator does, until it is released.

use super::Core;
use crate::api::{ApiError, ErrorCode, Peer};
use crate::job::{Hold, JobEventKind};
use storm_primitives::Instant;
use storm_rm::JobId;

impl Core {
    /// Keeps a waiting job, or the waiting jobs of an array, from starting.
    ///
    /// # Errors
    /// An [`ApiError`] for the client: no such job, another user's job, started or over already.
    pub fn hold(&mut self, now: Instant, peer: Peer, job: JobId) -> Result<(), ApiError> {
        // The last first: none may start because another leaves.
        let jobs = self.jobs.of(job).into_iter().rev().collect();
        self.each_of(now, peer, job, jobs, |core, job| core.hold_one(now, peer, job))
    }

    /// Does the same as [`Core::hold`] for several jobs. Returns the outcomes in the order of the
    /// jobs.
    pub fn hold_all(
        &mut self,
        now: Instant,
        peer: Peer,
        jobs: &[JobId],
    ) -> Vec<Result<(), ApiError>> {
        self.together(now, |core| jobs.iter().map(|job| core.hold(now, peer, *job)).collect())
    }

    fn hold_one(&mut self, now: Instant, peer: Peer, job: JobId) -> Result<(), ApiError> {
        let record = self.jobs.waiting_record(job)?;
        let hold = Hold::by(peer.uid, record.spec.owner.uid);
        if record.hold < Some(hold) {
            self.append(now, job, JobEventKind::Held { hold });
        }
        self.leave(now, job);
        Ok(())
    }

    /// Releases a held job, or the held jobs of an array.
    ///
    /// # Errors
    /// An [`ApiError`] for the client: no such job, another user's job, not held, or held by an
    /// administrator.
    pub fn release_hold(&mut self, now: Instant, peer: Peer, job: JobId) -> Result<(), ApiError> {
        let jobs = self.jobs.of(job);
        self.each_of(now, peer, job, jobs, |core, job| core.release_one(now, peer, job))
    }

    /// Does the same as [`Core::release_hold`] for several jobs. Returns the outcomes in the order
    /// of the jobs.
    pub fn release_all(
        &mut self,
        now: Instant,
        peer: Peer,
        jobs: &[JobId],
    ) -> Vec<Result<(), ApiError>> {
        jobs.iter().map(|job| self.release_hold(now, peer, *job)).collect()
    }

    fn release_one(&mut self, now: Instant, peer: Peer, job: JobId) -> Result<(), ApiError> {
        let record = self.jobs.waiting_record(job)?;
        let name = record.name();
        match record.hold {
            None => {
                let message = format!("job {name} is not held");
                return Err(ApiError::new(ErrorCode::BadRequest, message)
                    .hint(format!("storm explain {name} says why it waits")));
            }
            Some(Hold::Admin) if !self.is_admin(peer) => {
                let message = format!("job {name} is held by an administrator");
                return Err(ApiError::new(ErrorCode::NotPermitted, message)
                    .hint("only an administrator can release it"));
            }
            Some(Hold::User | Hold::Admin) => {}
        }
        self.append(now, job, JobEventKind::Released { uid: peer.uid });
        self.reconsider(now, job);
        Ok(())
    }
}
