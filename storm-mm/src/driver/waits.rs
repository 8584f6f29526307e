//! Clients that wait for jobs to end (`storm wait`), whether or not a client follows those jobs.
//!
//! Waits do not outlive the manager. A client that repeats its request to the next manager receives
//! the jobs that have ended meanwhile like all others.

use super::{Contents, Shared};
use crate::api::{ApiError, ErrorCode, JobView, Peer, Reply, ReplySink};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use storm_primitives::{Bell, Primitives, Runtime};
use storm_rm::JobId;

/// Jobs that one user's clients may wait for, each counted as often as it is waited for: ten of the
/// largest arrays. A wait for a job takes some 100 bytes, and a kilobyte from the job's end until
/// the client has read of it.
const WAITED_PER_USER: usize = 1 << 17;
/// Ends that are reported together, as long as other ends are to follow.
const TOLD_TOGETHER: usize = 256;

/// All waits.
#[derive(Default)]
pub(super) struct Waits {
    /// By job and by the number of the wait: thousands may wait for one job, and each may leave.
    by_job: RefCell<BTreeMap<(JobId, u64), Rc<Wait>>>,
    /// By user: the number of jobs that are kept for the user's clients.
    kept: RefCell<BTreeMap<u32, Rc<Cell<usize>>>>,
    /// The number of the next wait.
    number: Cell<u64>,
}

/// One request to wait.
struct Wait {
    number: u64,
    /// The count of kept jobs over all waits of the user.
    of_user: Rc<Cell<usize>>,
    /// The part of that count that belongs to this wait.
    kept: Cell<usize>,
    sink: ReplySink,
    left: RefCell<BTreeSet<JobId>>,
    untold: RefCell<Vec<JobView>>,
    /// Rung when the last job has ended.
    done: Bell,
}

impl Wait {
    /// Returns when all jobs have ended, or the client has disconnected.
    async fn over(&self) {
        while !self.left.borrow().is_empty() && !self.sink.is_closed() {
            let done = std::pin::pin!(self.done.heard());
            let closed = std::pin::pin!(self.sink.closed());
            futures_util::future::select(done, closed).await;
        }
    }

    /// Updates the counts of kept jobs, after a change.
    fn count(&self) {
        let kept = self.left.borrow().len() + self.untold.borrow().len();
        self.of_user.set(self.of_user.get() - self.kept.replace(kept) + kept);
    }

    /// A job has ended.
    fn note(&self, job: JobId, view: Option<JobView>) {
        let more = {
            let mut left = self.left.borrow_mut();
            left.remove(&job);
            !left.is_empty()
        };
        let mut untold = self.untold.borrow_mut();
        untold.extend(view);
        let many = untold.len() >= TOLD_TOGETHER && self.sink.has_room();
        if many || !more {
            // A disconnected client waits for nothing.
            let _ = self.sink.send(Reply::Jobs { jobs: std::mem::take(&mut untold), more });
        }
        drop(untold);
        self.count();
        if !more {
            self.done.ring();
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.of_user.set(self.of_user.get() - self.kept.get());
    }
}

impl<P: Primitives, C: Contents + 'static> Shared<P, C> {
    /// Answers as jobs of `jobs` end, and for the last time when all have ended.
    pub(super) fn wait(self: &Rc<Self>, peer: Peer, jobs: &[JobId], replies: ReplySink) {
        let found = self.core().waited_for(self.now(), jobs);
        let arrays = self.core().forgotten_of(jobs);
        let refused = match found {
            Ok((ended, left)) => match self.clients.waits().check(peer.uid, left.len()) {
                Ok(()) => {
                    // Answered after the journal: a client that receives an end may rely on the
                    // end.
                    if !arrays.is_empty() {
                        self.answer(replies.clone(), Reply::Forgotten { arrays });
                    }
                    let first = Reply::Jobs { jobs: ended, more: !left.is_empty() };
                    self.answer(replies.clone(), first);
                    self.ask(|core, _| core.await_ends(left.iter().copied()));
                    return self.watch(self.clients.waits().add(peer.uid, left, replies));
                }
                Err(error) => error,
            },
            Err(error) => error,
        };
        self.answer(replies, Reply::Error { error: refused });
    }

    /// Drops a wait, and its hold on the client's connection, when the wait is over.
    fn watch(self: &Rc<Self>, wait: Rc<Wait>) {
        let this = self.clone();
        let watching = self.primitives.runtime().spawn(async move {
            wait.over().await;
            this.clients.waits().forget(&wait);
        });
        watching.detach();
    }
}

impl Waits {
    /// Fails if the user may not wait for `more` further jobs.
    fn check(&self, uid: u32, more: usize) -> Result<(), ApiError> {
        let waited = self.kept.borrow().get(&uid).map_or(0, |kept| kept.get());
        if waited.saturating_add(more) > WAITED_PER_USER {
            let message = format!("you wait for {waited} jobs already, and now for {more} more");
            return Err(ApiError::new(ErrorCode::TooLarge, message)
                .hint("one `storm wait` for all of them asks for each once"));
        }
        Ok(())
    }

    /// Sends the end of a job to the clients that wait for it.
    pub(super) fn end(&self, job: JobId, view: Option<&JobView>) {
        let of_job: Vec<(JobId, u64)> = {
            let by_job = self.by_job.borrow();
            by_job.range((job, 0)..=(job, u64::MAX)).map(|(key, _)| *key).collect()
        };
        for key in of_job {
            let wait = self.by_job.borrow_mut().remove(&key);
            if let Some(wait) = wait {
                wait.note(job, view.cloned());
            }
        }
    }

    fn add(&self, uid: u32, left: BTreeSet<JobId>, sink: ReplySink) -> Rc<Wait> {
        let jobs: Vec<JobId> = left.iter().copied().collect();
        let (left, untold, done) = (RefCell::new(left), RefCell::default(), Bell::default());
        let number = self.number.get();
        self.number.set(number + 1);
        let of_user = self.kept.borrow_mut().entry(uid).or_default().clone();
        let wait = Wait { number, of_user, kept: Cell::new(0), sink, left, untold, done };
        wait.count();
        let wait = Rc::new(wait);
        let mut by_job = self.by_job.borrow_mut();
        for job in jobs {
            by_job.insert((job, number), wait.clone());
        }
        wait
    }

    /// Removes a wait that is over.
    fn forget(&self, gone: &Rc<Wait>) {
        let mut by_job = self.by_job.borrow_mut();
        for job in gone.left.borrow().iter() {
            by_job.remove(&(*job, gone.number));
        }
    }
}
