//! Clients that wait for jobs to end, whoever follows those: `storm wait`.
//!
//! What this does not do: keep anything over the manager's death. A client that asks
//! again is told of the jobs that have ended meanwhile as of any others.

use super::{Contents, Shared};
use crate::api::{ApiError, ErrorCode, JobView, Peer, Reply, ReplySink};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use storm_primitives::Primitives;
use storm_rm::JobId;

/// Jobs that one user's clients may wait for, each counted as often as it is waited for:
/// ten of the largest arrays. A number takes some 100 bytes of the manager.
const WAITED_PER_USER: usize = 1 << 17;
/// Ends that are told together, as long as others are to come.
const TOLD_TOGETHER: usize = 256;

/// Who waits for what.
#[derive(Default)]
pub(super) struct Waits {
    by_job: RefCell<BTreeMap<JobId, Vec<Rc<Wait>>>>,
    all: RefCell<Vec<Rc<Wait>>>,
}

/// One request to wait.
struct Wait {
    uid: u32,
    sink: ReplySink,
    left: RefCell<BTreeSet<JobId>>,
    untold: RefCell<Vec<JobView>>,
}

impl Wait {
    fn is_over(&self) -> bool {
        self.left.borrow().is_empty() || self.sink.is_closed()
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
            // A client that is gone waits for nothing.
            let _ = self.sink.send(Reply::Jobs { jobs: std::mem::take(&mut untold), more });
        }
    }
}

impl<P: Primitives, C: Contents + 'static> Shared<P, C> {
    /// Answers when all of `jobs` have ended, and on the way of those that have.
    pub(super) fn wait(&self, peer: Peer, jobs: &[JobId], replies: ReplySink) {
        let found = self.core.borrow().waited_for(self.now(), jobs);
        let refused = match found {
            Ok((ended, left)) => match self.waits.check(peer.uid, left.len()) {
                Ok(()) => {
                    // Behind the journal: who is told of an end may rely on it.
                    let first = Reply::Jobs { jobs: ended, more: !left.is_empty() };
                    self.answer(replies.clone(), first);
                    self.core.borrow_mut().await_ends(left.iter().copied());
                    return self.waits.add(peer.uid, left, replies);
                }
                Err(error) => error,
            },
            Err(error) => error,
        };
        self.answer(replies, Reply::Error { error: refused });
    }
}

impl Waits {
    /// Whether a user may wait for so many more jobs. Forgets who does not wait any more.
    fn check(&self, uid: u32, more: usize) -> Result<(), ApiError> {
        let mut all = self.all.borrow_mut();
        all.retain(|wait| !wait.is_over());
        let mut by_job = self.by_job.borrow_mut();
        by_job.retain(|_, waits| {
            waits.retain(|wait| !wait.is_over());
            !waits.is_empty()
        });
        let own = all.iter().filter(|wait| wait.uid == uid);
        let waited: usize = own.map(|wait| wait.left.borrow().len()).sum();
        if waited.saturating_add(more) > WAITED_PER_USER {
            let message = format!("you wait for {waited} jobs already, and now for {more} more");
            return Err(ApiError::new(ErrorCode::TooLarge, message)
                .hint("one `storm wait` for all of them asks for each once"));
        }
        Ok(())
    }

    /// Tells those who wait for a job that it has ended.
    pub(super) fn end(&self, job: JobId, view: Option<&JobView>) {
        let waits = self.by_job.borrow_mut().remove(&job).unwrap_or_default();
        waits.iter().for_each(|wait| wait.note(job, view.cloned()));
    }

    fn add(&self, uid: u32, left: BTreeSet<JobId>, sink: ReplySink) {
        if left.is_empty() {
            return;
        }
        let jobs: Vec<JobId> = left.iter().copied().collect();
        let (left, untold) = (RefCell::new(left), RefCell::default());
        let wait = Rc::new(Wait { uid, sink, left, untold });
        self.all.borrow_mut().push(wait.clone());
        let mut by_job = self.by_job.borrow_mut();
        for job in jobs {
            by_job.entry(job).or_default().push(wait.clone());
        }
    }
}
