//! The jobs that wait: by priority, and among equal priorities in the order of their submission.
//!
//! Every operation is O(log n) except a walk. The search for the next job that could start in the
//! free PEs is O(log n), too. A policy that lets jobs pass examines only such jobs. For policies
//! that go by the estimates of jobs, the queue keeps a second order. The jobs of a reservation that
//! is not over are also in a queue of their own.

mod gap;
mod order;
mod orders;
mod search_tree;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub(crate) use gap::Gap;
pub use order::Order;

use gap::Demand;
use orders::Orders;
use search_tree::SearchTree;

use crate::job_map::JobMap;
use crate::reservation::{Pool, ReservationId};
use crate::{Ahead, JobId, JobRequest, Priority};

/// The most jobs that may wait: a million, ten times as many as large sites let into their queues.
/// The number bounds the memory of this queue (about 250 MB), but not that of the job
/// specifications.
pub const MAX_PENDING_JOBS: usize = 1_000_000;

/// A place in the queue: the larger, the later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    priority: Reverse<Priority>,
    /// Whether the job was never preempted. Preempted jobs come first, by their ids.
    is_new: bool,
    number: u64,
}

/// The place that a walk has reached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor {
    place: Place,
    estimate: Duration,
}

/// The queue of waiting jobs.
#[derive(Debug, Clone)]
pub struct PendingQueue {
    waiting: SearchTree<Place, JobRequest>,
    /// Only looked up, never walked, so its order does not matter.
    places: JobMap<Place>,
    entered: u64,
    /// The number of jobs that may preempt others.
    may_preempt: usize,
    /// The assumed run time of a job without a time limit.
    default_estimate: Duration,
    /// The places by the estimates of their jobs, if that order is kept.
    shortest_first: Option<SearchTree<(Duration, Place), ()>>,
    /// The jobs of each reservation that has not ended, in queues of their own.
    apart: BTreeMap<ReservationId, Orders>,
}

impl Default for PendingQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl PendingQueue {
    /// An empty queue. A job without a time limit is assumed to run for ever.
    #[must_use]
    pub fn new() -> Self {
        Self {
            waiting: SearchTree::default(),
            places: JobMap::default(),
            may_preempt: 0,
            entered: 0,
            default_estimate: Duration::MAX,
            shortest_first: None,
            apart: BTreeMap::new(),
        }
    }

    /// Makes an empty queue that assumes this run time for a job without a time limit.
    #[must_use]
    pub fn believing(default_estimate: Duration) -> Self {
        Self { default_estimate, ..Self::new() }
    }

    /// Keeps the order of the estimates as well. Only for an empty queue.
    #[must_use]
    pub fn with_estimates(self) -> Self {
        Self { shortest_first: Some(SearchTree::default()), ..self }
    }

    /// Whether no further job may wait.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= MAX_PENDING_JOBS
    }

    /// Whether no job waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.len() == 0
    }

    /// The number of waiting jobs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether a job waits.
    #[must_use]
    pub fn contains(&self, job: JobId) -> bool {
        self.places.contains_key(&job)
    }

    /// The request of a waiting job.
    #[must_use]
    pub fn get(&self, job: JobId) -> Option<&JobRequest> {
        self.waiting.get(self.places.get(&job)?)
    }

    /// The first job: the earliest submitted of those with the highest priority.
    #[must_use]
    pub fn head(&self) -> Option<&JobRequest> {
        self.waiting.first().map(|(_, request)| request)
    }

    /// Whether a waiting job is the last in order.
    #[must_use]
    pub fn is_last(&self, job: JobId) -> bool {
        self.waiting.last().is_some_and(|(_, last)| last.id == job)
    }

    /// Whether the jobs are in the order of their submission: no priority and no preemption puts a
    /// job ahead of an earlier one. The check is linear in the queue.
    #[must_use]
    pub fn is_by_submission(&self) -> bool {
        let mut places = self.waiting.iter().map(|(place, _)| place);
        let mut before = None;
        places.all(|place| {
            let after = before.replace(place.number);
            place.is_new && after.is_none_or(|number| number < place.number)
        })
    }

    /// The jobs in order.
    pub fn iter(&self) -> impl Iterator<Item = &JobRequest> + '_ {
        self.waiting.iter().map(|(_, request)| request)
    }

    /// The jobs by their estimates, equal ones in queue order; none if the queue does not keep that
    /// order.
    pub fn iter_shortest_first(&self) -> impl Iterator<Item = &JobRequest> + '_ {
        let places = self.shortest_first.iter().flat_map(SearchTree::iter);
        places.filter_map(|((_, place), ())| self.waiting.get(place))
    }

    /// The next job of a pool in an order that may fit the gap, from the beginning or after a
    /// cursor. Jobs that cannot fit are left out.
    pub(crate) fn next_within(
        &self,
        pool: Pool,
        order: Order,
        after: Option<Cursor>,
        gap: &Gap,
    ) -> Option<(Cursor, &JobRequest)> {
        if let Pool::Of(reservation) | Pool::Before(reservation) = pool {
            let after = after.map(|after| (after.estimate, after.place));
            let orders = self.apart.get(&reservation)?;
            let (estimate, place) = orders.next_within(order, after, gap)?;
            return Some((Cursor { place, estimate }, self.waiting.get(&place)?));
        }
        match order {
            Order::Queue => {
                let after = after.map(|after| after.place);
                let (&place, request) = self.waiting.next_within(after.as_ref(), gap)?;
                // The order of the queue does not use estimates.
                Some((Cursor { place, estimate: Duration::ZERO }, request))
            }
            Order::ShortestFirst => {
                let after = after.map(|after| (after.estimate, after.place));
                let order = self.shortest_first.as_ref()?;
                let (&(estimate, place), ()) = order.next_within(after.as_ref(), gap)?;
                Some((Cursor { place, estimate }, self.waiting.get(&place)?))
            }
        }
    }

    /// The jobs ahead of a job; `None` when there are none, or the job does not wait. Walks the
    /// jobs ahead.
    #[must_use]
    pub fn ahead_of(&self, job: JobId) -> Option<Ahead> {
        let place = self.places.get(&job)?;
        let mut ahead = self.waiting.iter().take_while(|(other, _)| *other < place);
        let (_, first) = ahead.next()?;
        Some(Ahead { first: first.id, others: ahead.count() })
    }

    /// Puts a job at the end of the jobs with its priority. The job must not wait already, and the
    /// queue must not be full.
    pub fn push(&mut self, request: JobRequest) {
        let is_new = !request.preempted;
        let number = if is_new { self.entered } else { request.id.0 };
        let place = Place { priority: Reverse(request.priority), is_new, number };
        self.entered += 1;
        self.insert(place, request);
    }

    /// Takes the head out; `None` when no job waits.
    pub fn pop(&mut self) -> Option<JobRequest> {
        let job = self.head()?.id;
        self.remove(job)
    }

    /// Takes a job out; `None` when it does not wait.
    pub fn remove(&mut self, job: JobId) -> Option<JobRequest> {
        let place = self.places.remove(&job)?;
        let request = self.waiting.remove(&place)?;
        self.may_preempt -= usize::from(request.may_preempt());
        let estimate = request.estimate(self.default_estimate);
        if let Some(order) = &mut self.shortest_first {
            order.remove(&(estimate, place));
        }
        if let Some(orders) = request.reservation.and_then(|id| self.apart.get_mut(&id)) {
            orders.remove(place, estimate);
        }
        Some(request)
    }

    /// Gives a job another priority. Among equal priorities, its submission still counts. Returns
    /// false if the job does not wait.
    pub fn prioritise(&mut self, job: JobId, priority: Priority) -> bool {
        let Some(&before) = self.places.get(&job) else { return false };
        let Some(request) = self.remove(job) else { return false };
        let place = Place { priority: Reverse(priority), ..before };
        self.insert(place, request.with_priority(priority));
        true
    }

    fn insert(&mut self, place: Place, request: JobRequest) {
        let estimate = request.estimate(self.default_estimate);
        let mut demand = Demand::new(request.pes(), estimate);
        if let Some(orders) = request.reservation.and_then(|id| self.apart.get_mut(&id)) {
            orders.insert(place, estimate, demand);
            demand = Demand::NOT_TO_BE_MET;
        }
        if let Some(order) = &mut self.shortest_first {
            order.insert((estimate, place), demand, ());
        }
        self.places.insert(request.id, place);
        self.may_preempt += usize::from(request.may_preempt());
        self.waiting.insert(place, demand, request);
    }

    /// Gives exactly the jobs of these reservations queues of their own from now on.
    /// [`PendingQueue::next_within`] walks each such queue, and does not show its jobs among the
    /// others. The cost is linear in the jobs that change queues, and in all jobs when a
    /// reservation is new.
    pub(crate) fn part(&mut self, reservations: impl Iterator<Item = ReservationId>) {
        let apart: BTreeSet<ReservationId> = reservations.collect();
        let is_over = |id: &&ReservationId| !apart.contains(id);
        let over: Vec<ReservationId> = self.apart.keys().filter(is_over).copied().collect();
        let mut moved: Vec<Place> = Vec::new();
        for orders in over.iter().filter_map(|id| self.apart.get(id)) {
            moved.extend(orders.places());
        }
        let is_new = |id: &ReservationId| !self.apart.contains_key(id);
        let new: BTreeSet<ReservationId> = apart.into_iter().filter(is_new).collect();
        if !new.is_empty() {
            let is_of =
                |request: &JobRequest| request.reservation.is_some_and(|id| new.contains(&id));
            let all = self.waiting.iter();
            moved.extend(all.filter(|(_, request)| is_of(request)).map(|(place, _)| *place));
        }
        // Takes the jobs out of their former orders and puts them into the new ones.
        let job_at = |place: &Place| self.waiting.get(place).map(|request| request.id);
        let jobs: Vec<JobId> = moved.iter().filter_map(job_at).collect();
        let taken: Vec<JobRequest> = jobs.into_iter().filter_map(|job| self.remove(job)).collect();
        over.iter().for_each(|id| drop(self.apart.remove(id)));
        self.apart.extend(new.into_iter().map(|id| (id, Orders::default())));
        moved.into_iter().zip(taken).for_each(|(place, request)| self.insert(place, request));
    }

    /// Whether a waiting job may preempt others.
    pub(crate) fn may_preempt(&self) -> bool {
        self.may_preempt > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids<'a>(jobs: impl Iterator<Item = &'a JobRequest>) -> Vec<u64> {
        jobs.map(|request| request.id.0).collect()
    }

    fn queue() -> PendingQueue {
        let mut queue = PendingQueue::believing(Duration::from_secs(100)).with_estimates();
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
        assert!(queue.is_last(JobId(4)) && !queue.is_last(JobId(3)));
    }

    #[test]
    fn the_order_is_by_submission_until_a_job_is_put_ahead() {
        let mut queue = queue();
        assert!(!queue.is_by_submission());
        queue.remove(JobId(3));
        assert!(queue.is_by_submission());
        queue.prioritise(JobId(1), Priority(5));
        assert!(queue.is_by_submission(), "the first is more urgent than the others");
        let preempted = JobRequest { preempted: true, ..JobRequest::new(JobId(5), 1) };
        queue.push(preempted);
        assert!(!queue.is_by_submission());
    }

    #[test]
    fn a_changed_priority_puts_a_job_behind_earlier_equals() {
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

    /// The jobs of a pool that ask for at most `pes` PEs.
    fn shown(queue: &PendingQueue, pool: Pool, order: Order, pes: u32) -> Vec<u64> {
        let (mut cursor, mut shown) = (None, Vec::new());
        while let Some((at, request)) = queue.next_within(pool, order, cursor, &Gap::of_pes(pes)) {
            cursor = Some(at);
            shown.push(request.id.0);
        }
        shown
    }

    #[test]
    fn jobs_of_a_reservation_have_their_own_queue_until_it_is_over() {
        let id = ReservationId;
        let mut queue = queue();
        for (job, reservation, limit_s) in [(5, 7, 9), (6, 8, 50), (7, 7, 5)] {
            let limit = Duration::from_secs(limit_s);
            let request = JobRequest::new(JobId(job), 2).with_reservation(id(reservation));
            queue.push(request.with_time_limit(limit));
        }
        assert_eq!(shown(&queue, Pool::Common, Order::Queue, 9), [3, 1, 2, 4, 5, 6, 7]);
        queue.part([id(7)].into_iter());
        queue.push(JobRequest::new(JobId(8), 1).with_reservation(id(7)));
        for order in [Order::Queue, Order::ShortestFirst] {
            let common = shown(&queue, Pool::Common, order, u32::MAX);
            assert!(common.iter().all(|job| ![5, 7, 8].contains(job)) && common.len() == 5);
            assert!(shown(&queue, Pool::Of(id(8)), order, 9).is_empty());
        }
        let own = |queue: &PendingQueue, order, pes| shown(queue, Pool::Of(id(7)), order, pes);
        assert_eq!(own(&queue, Order::Queue, 9), [5, 7, 8]);
        assert_eq!(own(&queue, Order::ShortestFirst, 9), [7, 5, 8]);
        assert_eq!(own(&queue, Order::Queue, 1), [8]);
        assert!(queue.prioritise(JobId(7), Priority(1)));
        assert_eq!(own(&queue, Order::Queue, 9), [7, 5, 8]);
        queue.part([id(8)].into_iter());
        assert_eq!(shown(&queue, Pool::Common, Order::Queue, 9), [3, 7, 1, 2, 4, 5, 8]);
        assert_eq!(shown(&queue, Pool::Of(id(8)), Order::Queue, 9), [6]);
        assert_eq!(ids(queue.iter()), [3, 7, 1, 2, 4, 5, 6, 8]);
    }
}
