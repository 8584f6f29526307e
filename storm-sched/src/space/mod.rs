//! Space sharing: a single row, and how long its jobs hold their PEs by the users' estimates.
//!
//! [`SpaceSharing`] is the whole of such a policy, except for the order in which jobs start and the
//! rule by which jobs pass. A [`Discipline`] decides both: a file of [`crate::policies`], or of
//! another crate. Time is not shared, so there are no slices.
//!
//! Estimates only decide the order. A job that outlives its estimate counts as ended in all
//! decisions, because the Machine Manager ends it at its limit. A job that is started in its place
//! is *due*: it waits for the PEs themselves, in the order of the decisions.

mod candidate;
mod discipline;
mod ends;
mod ledger;
mod preemption;
mod reasons;
mod reasons_among;
mod reasons_suspended;
mod shadow;
mod sharing;

use std::cell::Cell;
use std::time::Duration;

pub use candidate::Candidate;
pub(crate) use discipline::nameable;
pub use discipline::{Discipline, News, Passing, Verdict};
use ledger::Ledger;
use preemption::{PARKING_ROWS, Preemption};
pub use shadow::Shadow;
pub use sharing::SpaceSharing;

use crate::partition::{Change, Partition};
use crate::pending_queue::Gap;
pub use crate::pending_queue::Order;
use crate::reservation::{Book, Pool};
use crate::{
    Action, Event, EventError, InvariantViolation, JobId, JobRequest, Machine, Matrix, MatrixError,
    MplLimit, Pe, PendingQueue, PolicyParams, Row, SchedTime,
};

/// The one row of space sharing.
pub(crate) const ROW: Row = Row(0);

/// The assumed run time of a job without a time limit, if the partition has no default: a hundred
/// years, longer than any job. The time is finite, so such a job also counts as delaying others.
pub const UNLIMITED_ESTIMATE: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The machine of a partition, with its waiting and its running jobs.
#[derive(Debug, Clone)]
pub struct Space {
    partition: Partition,
    ledger: Ledger,
    /// Whether jobs that were due wait again and no accepted event has reported it yet.
    late: bool,
    preemption: Preemption,
    /// A buffer of [`Space::offer`].
    started: Vec<JobId>,
}

impl Space {
    pub(crate) fn new(machine: Machine, params: &PolicyParams, keeps_estimates: bool) -> Self {
        let seconds = |seconds: std::num::NonZeroU32| Duration::from_secs(seconds.get().into());
        let estimate = params.default_estimate_s.map_or(UNLIMITED_ESTIMATE, seconds);
        let mut partition = Partition::new(machine, rows());
        let queue = PendingQueue::believing(estimate);
        partition.queue = if keeps_estimates { queue.with_estimates() } else { queue };
        let (ledger, preemption) = (Ledger::new(estimate), Preemption::default());
        Self { partition, ledger, late: false, preemption, started: Vec::new() }
    }

    /// The time of the event that is being decided on.
    #[must_use]
    pub fn now(&self) -> SchedTime {
        self.ledger.now()
    }

    /// The machine, with the states of its nodes.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        self.partition.matrix.machine()
    }

    /// The waiting jobs, including the due ones.
    #[must_use]
    pub fn queue(&self) -> &PendingQueue {
        &self.partition.queue
    }

    /// The PEs on which a job can start now: free PEs and the PEs of jobs past their estimates,
    /// without the PEs of due jobs.
    #[must_use]
    pub fn free_pes(&self) -> u32 {
        self.ledger.free_pes()
    }

    /// Whether the start of the job is decided, while it waits for PEs that are being given back.
    #[must_use]
    pub fn is_due(&self, job: JobId) -> bool {
        self.ledger.is_due(job)
    }

    pub(crate) fn due(&self) -> impl Iterator<Item = JobId> + '_ {
        self.ledger.due()
    }

    /// The jobs that hold PEs or are due, by their estimated ends, with the PEs that they will give
    /// back.
    pub fn holdings(&self) -> impl Iterator<Item = (JobId, SchedTime, u32)> + '_ {
        self.ledger.holdings()
    }

    /// The request of a waiting job; `None` when the job does not wait.
    #[must_use]
    pub fn candidate(&self, job: JobId) -> Option<Candidate<'_>> {
        let Partition { matrix, queue } = &self.partition;
        let request = queue.get(job).filter(|request| self.ledger.concerns(request))?;
        Some(Candidate::among(request, matrix, &self.ledger))
    }

    /// The first waiting job in an order that is not due and fits the nodes that are up or away.
    #[must_use]
    pub fn head(&self, order: Order) -> Option<Candidate<'_>> {
        self.first_of(Pool::Common, order)
    }

    /// Like [`Space::head`], for the jobs of a pool.
    pub(crate) fn first_of(&self, pool: Pool, order: Order) -> Option<Candidate<'_>> {
        let Partition { matrix, queue } = &self.partition;
        let book = self.ledger.book();
        let can = |request: &&JobRequest| {
            (book.is_empty() || book.pool_of(request) == pool)
                && !self.is_due(request.id)
                && Candidate::new(request, matrix, &self.ledger).is_placeable()
        };
        let first = match order {
            Order::Queue => queue.iter().find(can),
            Order::ShortestFirst => queue.iter_shortest_first().find(can),
        };
        first.map(|request| Candidate::among(request, matrix, &self.ledger))
    }

    /// Whether nodes are reserved, now or later.
    #[must_use]
    pub fn has_reservations(&self) -> bool {
        !self.ledger.book().is_empty()
    }

    /// The PEs that reservations take beyond those that jobs hold by their estimates: the start,
    /// the end and the number of each.
    #[must_use]
    pub fn reserved_pes(&self) -> Vec<(SchedTime, SchedTime, u32)> {
        let matrix = &self.partition.matrix;
        let machine = matrix.machine();
        let mut stretches = Vec::new();
        for window in self.ledger.book().windows() {
            let usable_in = |columns: &mut dyn Iterator<Item = Pe>| {
                let inside = |pe: &Pe| {
                    machine.is_expected(*pe)
                        && machine
                            .node_of(*pe)
                            .is_some_and(|node| window.nodes.binary_search(&node).is_ok())
                };
                columns.filter(inside).count() as u32
            };
            let mut free = usable_in(&mut (0..machine.pes()).map(Pe));
            for (job, end, _) in self.holdings().filter(|(_, end, _)| *end > window.start) {
                let held = matrix.columns(job).map_or(0, |held| usable_in(&mut held.columns()));
                free -= held;
                stretches.push((end, window.end, held));
            }
            stretches.push((window.start, window.end, free));
        }
        stretches.retain(|(from, to, pes)| from < to && *pes > 0);
        stretches
    }

    /// Whether these news can let any job start. They cannot if each is a submitted job that does
    /// not fit now: a submission triggers a pass only if the new job itself fits (A2a of the policy
    /// reference).
    #[must_use]
    pub fn is_worth_a_pass(&self, news: &[News]) -> bool {
        if self.has_reservations() {
            return true;
        }
        let fits = |job| self.candidate(job).is_some_and(|candidate| candidate.fits());
        news.iter().any(|news| match news {
            News::Submitted(job) => fits(*job),
            News::Finished { .. }
            | News::Withdrawn(_)
            | News::Restored
            | News::Reordered
            | News::MachineChanged
            | News::ReservationsChanged
            | News::Late => true,
        })
    }

    /// Shows the waiting jobs that are not due, one by one, and starts those that are wanted and
    /// fit.
    pub fn offer(&mut self, order: Order, choose: impl FnMut(&Candidate<'_>) -> Verdict) {
        if self.has_reservations() {
            // The search skips the jobs of other pools without visiting each.
            return self.offer_within(order, |_, _| Gap::of_pes(u32::MAX), choose);
        }
        let Self { partition: Partition { matrix, queue }, ledger, started, .. } = self;
        match order {
            Order::Queue => {
                let mut jobs = queue.iter();
                ledger.offer(matrix, |_, _| jobs.next(), choose, started);
            }
            Order::ShortestFirst => {
                let mut jobs = queue.iter_shortest_first();
                ledger.offer(matrix, |_, _| jobs.next(), choose, started);
            }
        }
        for job in started.drain(..) {
            queue.remove(job);
        }
    }

    /// Starts jobs in an order as long as each fits. Returns the first protected job that has to
    /// wait, with the result of `owed` for it, or `None`. A job for which `owed` returns `None` is
    /// skipped. The cost is O(log n) plus the started jobs.
    pub fn start_prefix<T>(
        &mut self,
        order: Order,
        mut owed: impl FnMut(&Candidate<'_>) -> Option<T>,
    ) -> Option<(JobId, T)> {
        let mut blocked = None;
        let expected_pes = self.machine().expected_pes();
        self.offer_within(
            order,
            |_, _| Gap::of_pes(expected_pes),
            |job| {
                if job.free_pes() == 0 {
                    return Verdict::Stop;
                }
                if job.fits() {
                    return Verdict::Start;
                }
                blocked = owed(job).map(|owed| (job.job(), owed));
                if blocked.is_some() { Verdict::Stop } else { Verdict::Wait }
            },
        );
        blocked
    }

    /// Starts the jobs, in an order, that fit and do not delay the head, which waits until its
    /// shadow. The cost is O(log n) for each job that could start. Jobs that could not by their PEs
    /// and estimates are skipped.
    pub fn backfill(&mut self, order: Order, head: JobId, shadow: Shadow) {
        let shadow = Cell::new(shadow);
        let openings = self.has_reservations().then(|| {
            let (book, pool) = (self.ledger.book(), self.ledger.pool());
            book.openings(pool, self.machine())
        });
        self.offer_within(
            order,
            |ledger, matrix| match &openings {
                None => shadow.get().gap(ledger),
                Some(openings) => shadow.get().gap_among(openings, ledger, matrix),
            },
            |job| {
                if job.free_pes() == 0 {
                    return Verdict::Stop;
                }
                let mut reservation = shadow.get();
                if job.job() == head || !job.fits() || !reservation.admits(job) {
                    return Verdict::Wait;
                }
                shadow.set(reservation);
                Verdict::Start
            },
        );
    }

    /// Like [`Space::offer`], but skips jobs that do not fit the gap that `gap` returns.
    fn offer_within(
        &mut self,
        order: Order,
        gap: impl Fn(&Ledger, &Matrix) -> Gap,
        choose: impl FnMut(&Candidate<'_>) -> Verdict,
    ) {
        let Self { partition: Partition { matrix, queue }, ledger, started, .. } = self;
        let (mut cursor, pool) = (None, ledger.pool());
        let next = |ledger: &Ledger, matrix: &Matrix| {
            let gap = gap(ledger, matrix);
            let (at, request) = queue.next_within(pool, order, cursor, &gap)?;
            cursor = Some(at);
            Some(request)
        };
        ledger.offer(matrix, next, choose, started);
        for job in started.drain(..) {
            queue.remove(job);
        }
    }

    /// Starts a waiting job; false when it does not fit.
    pub fn start(&mut self, job: JobId) -> bool {
        let Self { partition: Partition { matrix, queue }, ledger, started, .. } = self;
        let Some(request) = queue.get(job) else { return false };
        let mut fitted = false;
        let choose = |candidate: &Candidate<'_>| {
            fitted = candidate.fits();
            if fitted { Verdict::Start } else { Verdict::Stop }
        };
        let mut only = Some(request);
        ledger.offer(matrix, |_, _| only.take(), choose, started);
        for job in started.drain(..) {
            queue.remove(job);
        }
        fitted
    }

    /// Applies an event, and adds the news that the event makes.
    pub(crate) fn apply(
        &mut self,
        now: SchedTime,
        event: Event,
        news: &mut Vec<News>,
    ) -> Result<(), EventError> {
        self.late |= self.ledger.advance(now);
        self.lift();
        let taken = self.ledger.book_mut().take(now, self.partition.matrix.machine(), &event);
        if self.ledger.book().has_turned() {
            self.partition.queue.part(self.ledger.book().windows().map(|window| window.id));
        }
        taken?;
        if let Event::Restore { request, row, .. } = &event
            && *row != ROW
        {
            let why = MatrixError::NoSuchRow { row: *row, limit: 1 };
            return Err(EventError::NotRestored { job: request.id, why });
        }
        let subject = subject(&event);
        let restored = match &event {
            Event::Restore { request, ran, .. } => Some((request.clone(), *ran)),
            _ => None,
        };
        let change = match event {
            Event::Suspended(job) => self.restore_suspended(job).map(|()| Change::Restored),
            event => self.partition.apply(event),
        }?;
        let Partition { matrix, queue } = &mut self.partition;
        if std::mem::take(&mut self.late) {
            news.push(News::Late);
        }
        if self.ledger.book_mut().take_turned() {
            // The counts by which jobs were due no longer hold.
            self.ledger.machine_changed(matrix);
            news.push(News::ReservationsChanged);
        }
        match (change, subject) {
            (Change::Queued { .. }, Some(job)) => news.push(News::Submitted(job)),
            (Change::Withdrawn { .. }, Some(job)) => {
                self.ledger.withdrawn(job);
                self.forget_preemption(job);
                news.push(News::Withdrawn(job));
            }
            (Change::Released, Some(job)) => {
                self.ledger.released(job);
                self.ledger.settle(matrix, queue);
                self.forget_preemption(job);
                news.push(News::Finished { job });
            }
            (Change::Reordered, _) => news.push(News::Reordered),
            (Change::Restored, _) => {
                if let Some((request, ran)) = &restored {
                    self.ledger.restored(matrix, request, *ran);
                    self.note_begin(request.id, true);
                }
                news.push(News::Restored);
            }
            (Change::ColumnsGained | Change::ColumnsLost, _) => {
                self.ledger.machine_changed(matrix);
                news.push(News::MachineChanged);
            }
            (Change::SliceEdge | Change::Quantum(_) | Change::Nothing, _)
            | (Change::Queued { .. } | Change::Withdrawn { .. } | Change::Released, None) => {}
        }
        self.ledger.refresh(&self.partition.matrix);
        Ok(())
    }

    /// The decisions since the last call.
    pub(crate) fn take_actions(&mut self) -> Vec<Action> {
        let mut actions = self.ledger.take_actions();
        for action in &actions {
            if let Action::Start { job, .. } = action {
                self.note_begin(*job, false);
            }
        }
        let matrix = &mut self.partition.matrix;
        if matrix.active().is_none() && matrix.run_row(ROW) {
            actions.push(Action::Activate { row: ROW });
        }
        actions
    }

    /// The run time assumed for a job.
    pub(crate) fn estimate(&self, request: &JobRequest) -> Duration {
        self.ledger.estimate(request)
    }

    /// Shows the jobs of this pool from now on.
    pub(crate) fn enter(&mut self, pool: Pool) {
        self.ledger.enter(pool);
    }

    pub(crate) fn book(&self) -> &Book {
        self.ledger.book()
    }

    pub(crate) fn partition(&self) -> &Partition {
        &self.partition
    }

    /// Checks the books against the matrix; slow, for tests.
    pub(crate) fn check(&self) -> Result<(), InvariantViolation> {
        self.ledger.check(&self.partition.matrix)
    }
}

/// The number of rows: the one that runs, and those of suspended jobs.
fn rows() -> MplLimit {
    // The number lies within the limits, so the fallback is never used.
    MplLimit::try_from(PARKING_ROWS).unwrap_or(MplLimit::ONE)
}

/// The job that an event concerns.
fn subject(event: &Event) -> Option<JobId> {
    match event {
        Event::Submit(request) | Event::Restore { request, .. } => Some(request.id),
        Event::Finished(job)
        | Event::Cancel(job)
        | Event::Suspended(job)
        | Event::Prioritise { job, .. } => Some(*job),
        Event::NodeDown(_)
        | Event::NodeAway(_)
        | Event::NodeDrained(_)
        | Event::NodeUp(_)
        | Event::SliceEdge
        | Event::SetQuantum(_)
        | Event::Reserve(_)
        | Event::Unreserve(_)
        | Event::Wake => None,
    }
}
