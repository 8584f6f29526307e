//! The jobs that wait: by priority, and among equals in the order of their
//! submission.
//!
//! Everything but a walk is O(log n). A policy that lets jobs pass walks the
//! queue; one that goes by the length of the jobs has a second order kept.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::job_map::JobMap;
use crate::space::estimate;
use crate::{Ahead, JobId, JobRequest, Priority};

/// The most jobs that may wait: a million, ten times what large sites let into
/// their queues; it bounds the memory (about 250 MB).
pub const MAX_PENDING_JOBS: usize = 1_000_000;

/// A place in the queue; later places are larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    priority: Reverse<Priority>,
    /// Jobs that were preempted come first, by their ids.
    is_new: bool,
    number: u64,
}

/// The queue of jobs that wait.
#[derive(Debug, Clone, Default)]
pub struct PendingQueue {
    waiting: BTreeMap<Place, JobRequest>,
    /// Looked up, never walked, so its order does not matter.
    places: JobMap<Place>,
    entered: u64,
    /// Jobs that may preempt others.
    may_preempt: usize,
    shortest_first: Option<ShortestFirst>,
}

/// The places by the estimates of their jobs.
#[derive(Debug, Clone)]
struct ShortestFirst {
    default_estimate: Duration,
    places: BTreeSet<(Duration, Place)>,
}

impl PendingQueue {
    /// An empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty queue that keeps the order of the estimates too; a job without
    /// a time limit has this one.
    #[must_use]
    pub fn with_estimates(default_estimate: Duration) -> Self {
        let shortest_first = Some(ShortestFirst { default_estimate, places: BTreeSet::new() });
        Self { shortest_first, ..Self::default() }
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

    /// The first job: of those with the highest priority the one that has
    /// waited longest.
    #[must_use]
    pub fn head(&self) -> Option<&JobRequest> {
        self.waiting.first_key_value().map(|(_, request)| request)
    }

    /// The jobs in order.
    pub fn iter(&self) -> impl Iterator<Item = &JobRequest> + '_ {
        self.waiting.values()
    }

    /// The jobs by their estimates, among equals in order; none when the queue
    /// does not keep that order.
    pub fn iter_shortest_first(&self) -> impl Iterator<Item = &JobRequest> + '_ {
        let places = self.shortest_first.iter().flat_map(|order| &order.places);
        places.filter_map(|(_, place)| self.waiting.get(place))
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

    /// Puts a job at the end of those with its priority. The caller has made
    /// sure that it does not wait yet and that the queue is not full.
    pub fn push(&mut self, request: JobRequest) {
        let is_new = !request.preempted;
        let number = if is_new { self.entered } else { request.id.0 };
        let place = Place { priority: Reverse(request.priority), is_new, number };
        self.entered += 1;
        self.may_preempt += usize::from(request.may_preempt());
        self.insert(place, request);
    }

    /// Takes the head out; `None` when no job waits.
    pub fn pop(&mut self) -> Option<JobRequest> {
        let (place, request) = self.waiting.pop_first()?;
        self.forget(place, &request);
        Some(request)
    }

    /// Takes a job out; `None` when it does not wait.
    pub fn remove(&mut self, job: JobId) -> Option<JobRequest> {
        let place = *self.places.get(&job)?;
        let request = self.waiting.remove(&place)?;
        self.forget(place, &request);
        Some(request)
    }

    /// Gives a job another priority; among equals its submission still counts.
    /// False when it does not wait.
    pub fn prioritise(&mut self, job: JobId, priority: Priority) -> bool {
        let Some(&before) = self.places.get(&job) else { return false };
        let Some(request) = self.remove(job) else { return false };
        let place = Place { priority: Reverse(priority), ..before };
        self.may_preempt += usize::from(request.may_preempt());
        self.insert(place, request.with_priority(priority));
        true
    }

    fn insert(&mut self, place: Place, request: JobRequest) {
        if let Some(order) = &mut self.shortest_first {
            order.places.insert((estimate(&request, order.default_estimate), place));
        }
        self.places.insert(request.id, place);
        self.waiting.insert(place, request);
    }

    /// Whether some job that waits may preempt others.
    pub(crate) fn may_preempt(&self) -> bool {
        self.may_preempt > 0
    }

    fn forget(&mut self, place: Place, request: &JobRequest) {
        self.may_preempt -= usize::from(request.may_preempt());
        self.places.remove(&request.id);
        if let Some(order) = &mut self.shortest_first {
            order.places.remove(&(estimate(request, order.default_estimate), place));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids<'a>(jobs: impl Iterator<Item = &'a JobRequest>) -> Vec<u64> {
        jobs.map(|request| request.id.0).collect()
    }

    fn queue() -> PendingQueue {
        let mut queue = PendingQueue::with_estimates(Duration::from_secs(100));
        for (id, priority, limit_s) in
            [(1, 0, Some(50)), (2, 0, None), (3, 7, Some(50)), (4, 0, Some(9))]
        {
            let request = JobRequest::new(JobId(id), 1).with_priority(Priority(priority));
            queue.push(match limit_s {
                Some(limit_s) => request.with_time_limit(Duration::from_secs(limit_s)),
                None => request,
            });
        }
        queue
    }

    #[test]
    fn priority_comes_before_submission_and_estimates_before_both() {
        let queue = queue();
        assert_eq!(ids(queue.iter()), [3, 1, 2, 4]);
        assert_eq!(ids(queue.iter_shortest_first()), [4, 3, 1, 2]);
        assert_eq!(queue.ahead_of(JobId(2)), Some(Ahead { first: JobId(3), others: 1 }));
        assert_eq!(queue.ahead_of(JobId(3)), None);
    }

    #[test]
    fn a_job_with_another_priority_is_behind_the_earlier_ones_of_the_same() {
        let mut queue = queue();
        assert!(queue.prioritise(JobId(4), Priority(7)));
        assert!(queue.prioritise(JobId(2), Priority(7)));
        assert_eq!(ids(queue.iter()), [2, 3, 4, 1]);
        assert!(queue.prioritise(JobId(3), Priority(0)));
        assert_eq!(ids(queue.iter()), [2, 4, 1, 3]);
        assert!(!queue.prioritise(JobId(9), Priority(1)));
        assert_eq!(queue.pop().map(|request| request.id), Some(JobId(2)));
        assert_eq!(queue.remove(JobId(1)).map(|request| request.id), Some(JobId(1)));
        assert_eq!(ids(queue.iter()), [4, 3]);
        assert_eq!(ids(queue.iter_shortest_first()), [4, 3]);
    }
}
