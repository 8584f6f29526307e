//! The jobs that wait, in the order of their submission.
//!
//! Everything but a walk is O(log n). The order is the only order: a policy
//! that lets jobs pass walks the queue.

use std::collections::{BTreeMap, HashMap};

use crate::{Ahead, JobId, JobRequest};

/// The most jobs that may wait: a million, ten times what large sites let into
/// their queues; it bounds the memory (about 150 MB).
pub const MAX_PENDING_JOBS: usize = 1_000_000;

/// A place in the queue; later places are larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place(u64);

/// The queue of jobs that wait.
#[derive(Debug, Clone, Default)]
pub struct PendingQueue {
    waiting: BTreeMap<Place, JobRequest>,
    /// Looked up, never walked, so its order does not matter.
    places: HashMap<JobId, Place>,
    entered: u64,
}

impl PendingQueue {
    /// An empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether no further job may wait.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= MAX_PENDING_JOBS
    }

    /// Whether no job waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The number of jobs that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether a job waits.
    #[must_use]
    pub fn contains(&self, job: JobId) -> bool {
        self.places.contains_key(&job)
    }

    /// The request of a job that waits.
    #[must_use]
    pub fn get(&self, job: JobId) -> Option<&JobRequest> {
        self.waiting.get(self.places.get(&job)?)
    }

    /// The job that has waited longest.
    #[must_use]
    pub fn head(&self) -> Option<&JobRequest> {
        self.waiting.first_key_value().map(|(_, request)| request)
    }

    /// The jobs in order.
    pub fn iter(&self) -> impl Iterator<Item = &JobRequest> + '_ {
        self.waiting.values()
    }

    /// Who is ahead of a job; `None` when nobody is, or it does not wait.
    /// Walks the jobs ahead.
    #[must_use]
    pub fn ahead_of(&self, job: JobId) -> Option<Ahead> {
        let place = self.places.get(&job)?;
        let mut ahead = self.waiting.range(..place);
        let (_, first) = ahead.next()?;
        Some(Ahead { first: first.id, others: ahead.count() })
    }

    /// Puts a job at the end. The caller has made sure that it does not wait
    /// yet and that the queue is not full.
    pub fn push(&mut self, request: JobRequest) {
        let place = Place(self.entered);
        self.entered += 1;
        self.places.insert(request.id, place);
        self.waiting.insert(place, request);
    }

    /// Takes the head out; `None` when no job waits.
    pub fn pop(&mut self) -> Option<JobRequest> {
        let (_, request) = self.waiting.pop_first()?;
        self.places.remove(&request.id);
        Some(request)
    }

    /// Takes a job out; `None` when it does not wait.
    pub fn remove(&mut self, job: JobId) -> Option<JobRequest> {
        let place = self.places.remove(&job)?;
        self.waiting.remove(&place)
    }
}
