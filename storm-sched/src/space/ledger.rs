//! The PEs that each job holds, their ends by the estimates, and the jobs that are due.
//!
//! According to its estimate, a job may have ended while it still holds its PEs in the matrix. The
//! queue of due jobs bridges this gap. A job is due if its start is decided but its PEs are not
//! free yet. Due jobs get their PEs in the order of the decisions, as soon as the PEs are free and
//! before all other jobs. If a job is still due at the end of an instant, its start is decided
//! again at the next event. So no decision outlives the estimate on which it depends.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use crate::reservation::{Book, Pool};
use crate::shape::Shape;
use crate::space::Candidate;
use crate::space::ends::Ends;
use crate::space::{ROW, Verdict};
use crate::{
    Action, Fit, InvariantViolation, JobId, JobRequest, Matrix, MatrixRow, Pe, PendingQueue,
    SchedTime,
};

/// A job that is due.
#[derive(Debug, Clone, Copy)]
struct Due {
    job: JobId,
    pes: u32,
}

/// The ledger of a partition that shares space.
#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    now: SchedTime,
    default_estimate: Duration,
    ends: Ends,
    due: VecDeque<Due>,
    free_pes: u32,
    /// PEs that no job will hold once the nodes that are away are back: idle PEs, and PEs of jobs
    /// past their estimates.
    away_free_pes: u32,
    /// The jobs to which PEs are promised while others make room for them.
    claimed: BTreeSet<JobId>,
    promised_pes: u32,
    actions: Vec<Action>,
    book: Book,
    /// The pool whose jobs are being decided on.
    pool: Pool,
}

impl Ledger {
    pub(crate) fn new(default_estimate: Duration) -> Self {
        Self {
            now: SchedTime::ZERO,
            default_estimate,
            ends: Ends::default(),
            due: VecDeque::new(),
            free_pes: 0,
            away_free_pes: 0,
            claimed: BTreeSet::new(),
            promised_pes: 0,
            actions: Vec::new(),
            book: Book::default(),
            pool: Pool::Common,
        }
    }

    pub(crate) fn book(&self) -> &Book {
        &self.book
    }

    pub(crate) fn book_mut(&mut self) -> &mut Book {
        &mut self.book
    }

    /// The pool whose jobs are being decided on.
    pub(crate) fn pool(&self) -> Pool {
        self.pool
    }

    /// Decides on the jobs of this pool from now on.
    pub(crate) fn enter(&mut self, pool: Pool) {
        self.pool = pool;
    }

    /// Whether the job belongs to the pool that is being decided on.
    pub(crate) fn concerns(&self, request: &JobRequest) -> bool {
        self.book.is_empty() || self.book.pool_of(request) == self.pool
    }

    /// Closes the nodes that reservations keep from a job that starts now.
    pub(crate) fn close_for(&self, matrix: &mut Matrix, request: &JobRequest) {
        if !self.book.is_empty() {
            let until = self.now + self.estimate(request);
            matrix.close_only(&self.book.closed(matrix.machine(), request, self.now, until));
        }
    }

    pub(crate) fn now(&self) -> SchedTime {
        self.now
    }

    pub(crate) fn free_pes(&self) -> u32 {
        self.free_pes
    }

    /// Like [`Ledger::free_pes`], without PEs that a job still holds.
    pub(crate) fn idle_pes(&self, matrix: &Matrix) -> u32 {
        let usable = matrix.machine().usable_pes();
        let idle = matrix.row_or_vacant(ROW).map_or(usable, MatrixRow::free_pes);
        let due: u32 = self.due.iter().map(|due| due.pes).sum();
        idle.saturating_sub(due).saturating_sub(self.promised_pes)
    }

    pub(crate) fn ends(&self) -> &Ends {
        &self.ends
    }

    pub(crate) fn holdings(&self) -> impl Iterator<Item = (JobId, SchedTime, u32)> + '_ {
        self.ends.iter()
    }

    pub(crate) fn is_due(&self, job: JobId) -> bool {
        self.claimed.contains(&job) || self.due.iter().any(|due| due.job == job)
    }

    pub(crate) fn due(&self) -> impl Iterator<Item = JobId> + '_ {
        self.due.iter().map(|due| due.job)
    }

    pub(crate) fn anybody_due(&self) -> bool {
        !self.due.is_empty() || !self.claimed.is_empty()
    }

    /// The run time assumed for a job.
    pub(crate) fn estimate(&self, request: &JobRequest) -> Duration {
        request.estimate(self.default_estimate)
    }

    /// Moves to a time. True when jobs that were due wait again.
    pub(crate) fn advance(&mut self, now: SchedTime) -> bool {
        if now <= self.now {
            return false;
        }
        self.now = now;
        self.undo_due()
    }

    /// Counts the free PEs again: after each event, before the decisions.
    pub(crate) fn refresh(&mut self, matrix: &Matrix) {
        let usable = matrix.machine().usable_pes();
        let free = matrix.row_or_vacant(ROW).map_or(usable, MatrixRow::free_pes);
        let due: u32 = self.due.iter().map(|due| due.pes).sum();
        let overdue_away = self.overdue_away_pes(matrix);
        let overdue = self.ends.overdue_pes(self.now).saturating_sub(overdue_away);
        self.free_pes = (free + overdue).saturating_sub(due).saturating_sub(self.promised_pes);
        self.away_free_pes = matrix.away_idle_pes(ROW) + overdue_away;
    }

    /// The PEs of jobs past their estimates on nodes that are away. They are not free before the
    /// nodes are back.
    fn overdue_away_pes(&self, matrix: &Matrix) -> u32 {
        let machine = matrix.machine();
        if !machine.has_away() {
            return 0;
        }
        let is_away = |pe: &Pe| machine.is_expected(*pe) && !machine.is_usable(*pe);
        let overdue = self.ends.iter().take_while(|(_, end, _)| *end <= self.now);
        let held = overdue.filter_map(|(job, _, _)| matrix.columns(job));
        held.map(|columns| columns.columns().filter(is_away).count() as u32).sum()
    }

    /// The PEs that no job will hold once the nodes that are away are back, in addition to
    /// [`Ledger::free_pes`].
    pub(crate) fn away_free_pes(&self) -> u32 {
        self.away_free_pes
    }

    /// Records that a job has given its PEs back.
    pub(crate) fn released(&mut self, job: JobId) {
        self.ends.remove(job);
    }

    /// Notes that a waiting job, due or not, is gone.
    pub(crate) fn withdrawn(&mut self, job: JobId) {
        if self.due.iter().any(|due| due.job == job) {
            self.due.retain(|due| due.job != job);
            self.ends.remove(job);
        }
    }

    /// Records that a running job was taken over. It has run for `ran`.
    pub(crate) fn restored(&mut self, matrix: &Matrix, request: &JobRequest, ran: Duration) {
        let end = self.now + self.estimate(request).saturating_sub(ran);
        self.ends.insert(request.id, end, expected_pes(matrix, request.id));
    }

    /// Recalculates what jobs will give back, after nodes began or ceased to take work. No job
    /// stays due.
    pub(crate) fn machine_changed(&mut self, matrix: &Matrix) {
        self.undo_due();
        for job in matrix.jobs() {
            self.ends.set_pes(job, expected_pes(matrix, job));
        }
    }

    /// Starts the due jobs in order, as far as their PEs are free.
    pub(crate) fn settle(&mut self, matrix: &mut Matrix, queue: &mut PendingQueue) {
        while let Some(&Due { job, .. }) = self.due.front() {
            let Some(request) = queue.get(job) else { break };
            let Some(placement) = matrix.place(request, ROW, Fit::Exact) else { break };
            self.due.pop_front();
            queue.remove(job);
            self.actions.push(Action::Start { job, placement, row: ROW });
        }
    }

    /// Shows the jobs one by one, and starts those that are wanted and fit. Each job is looked up
    /// after the starts before it. Jobs that must leave the queue are put into `started`.
    pub(crate) fn offer<'q>(
        &mut self,
        matrix: &mut Matrix,
        mut next: impl FnMut(&Self, &Matrix) -> Option<&'q JobRequest>,
        mut choose: impl FnMut(&Candidate<'_>) -> Verdict,
        started: &mut Vec<JobId>,
    ) {
        while let Some(request) = next(self, matrix) {
            if self.anybody_due() && self.is_due(request.id) {
                continue;
            }
            if !self.concerns(request) {
                continue;
            }
            self.close_for(matrix, request);
            match choose(&Candidate::new(request, matrix, self)) {
                Verdict::Start => {
                    if self.start(matrix, request) {
                        started.push(request.id);
                    }
                }
                Verdict::Wait => {}
                Verdict::Stop => break,
            }
        }
        matrix.close_only(&[]);
    }

    /// Checks the books against the matrix.
    pub(crate) fn check(&self, matrix: &Matrix) -> Result<(), InvariantViolation> {
        let wrong = |job, booked_pes, held_pes| {
            Err(InvariantViolation::BooksWrong { job, booked_pes, held_pes })
        };
        for (job, _, booked_pes) in self.holdings() {
            let due = self.due.iter().find(|due| due.job == job);
            let held_pes = due.map_or_else(|| expected_pes(matrix, job), |due| due.pes);
            if booked_pes != held_pes {
                return wrong(job, booked_pes, held_pes);
            }
        }
        let runs = |job: &JobId| matrix.home(*job) == Some(ROW);
        match matrix.jobs().filter(runs).find(|job| !self.ends.contains(*job)) {
            Some(job) => wrong(job, 0, expected_pes(matrix, job)),
            None => Ok(()),
        }
    }

    /// Sets the jobs to which PEs are promised, and the number of these PEs in all.
    pub(crate) fn promise(&mut self, claimed: BTreeSet<JobId>, pes: u32) {
        (self.claimed, self.promised_pes) = (claimed, pes);
    }

    /// The end of a running job by its estimate, and the PEs that it holds.
    pub(crate) fn holding(&self, job: JobId) -> Option<(SchedTime, u32)> {
        self.ends.of(job)
    }

    /// Counts a job as ended, because its end is on its way.
    pub(crate) fn ends_now(&mut self, job: JobId) {
        if let Some((_, pes)) = self.ends.of(job) {
            self.ends.insert(job, self.now, pes);
        }
    }

    /// Starts a job to which PEs were promised, if they are free.
    pub(crate) fn place_now(&mut self, matrix: &mut Matrix, request: &JobRequest) -> bool {
        let job = request.id;
        self.close_for(matrix, request);
        let placed = matrix.place(request, ROW, Fit::Exact);
        matrix.close_only(&[]);
        let Some(placement) = placed else { return false };
        let end = self.now + self.estimate(request);
        self.ends.insert(job, end, expected_pes(matrix, job));
        self.actions.push(Action::Start { job, placement, row: ROW });
        true
    }

    /// Whether reservations leave a stopped job its nodes for `left`, the rest of its estimate.
    pub(crate) fn may_go_on(&self, matrix: &Matrix, job: JobId, left: Duration) -> bool {
        let Some(request) = matrix.request(job).filter(|_| !self.book.is_empty()) else {
            return true;
        };
        let machine = matrix.machine();
        let closed = self.book.closed(machine, request, self.now, self.now + left);
        let mut held = matrix.columns(job).into_iter().flat_map(crate::ColumnSet::columns);
        !held.any(|pe| machine.node_of(pe).is_some_and(|node| closed.binary_search(&node).is_ok()))
    }

    /// Records that a stopped job continues, with `left` of its estimate.
    pub(crate) fn go_on(&mut self, matrix: &Matrix, job: JobId, left: Duration) {
        self.ends.insert(job, self.now + left, expected_pes(matrix, job));
    }

    /// Asks the driver for something.
    pub(crate) fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    pub(crate) fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// Starts a job or makes it due. Returns true if it must leave the queue.
    fn start(&mut self, matrix: &mut Matrix, request: &JobRequest) -> bool {
        let job = request.id;
        // If nodes are reserved, PEs are not all alike.
        let plain = request.is_plain() && self.book.is_empty();
        if plain && request.procs > self.free_pes {
            return false;
        }
        let end = self.now + self.estimate(request);
        // Due jobs come first.
        let placement = if !self.due.is_empty() || (!self.claimed.is_empty() && !plain) {
            None
        } else {
            matrix.place(request, ROW, Fit::Exact)
        };
        match placement {
            Some(placement) => {
                let pes = if plain { request.procs } else { expected_pes(matrix, job) };
                self.ends.insert(job, end, pes);
                self.free_pes = self.free_pes.saturating_sub(pes);
                self.actions.push(Action::Start { job, placement, row: ROW });
                true
            }
            None if plain => {
                let pes = request.procs;
                self.ends.insert(job, end, pes);
                self.free_pes -= pes;
                self.due.push_back(Due { job, pes });
                false
            }
            None => false,
        }
    }

    /// Returns the due jobs to the queue; true when there were any.
    pub(crate) fn undo_due(&mut self) -> bool {
        let due = std::mem::take(&mut self.due);
        for due in &due {
            self.ends.remove(due.job);
        }
        !due.is_empty()
    }
}

/// Whether a job fits the free part of the row.
pub(crate) fn fits_row(matrix: &Matrix, request: &JobRequest) -> bool {
    let shape = Shape::of(request);
    let lacking = match matrix.row_or_vacant(ROW) {
        Some(row) => matrix.shortfall_in(row, shape),
        None => matrix.new_row_shortfall(shape),
    };
    lacking.is_none()
}

/// The PEs of a running job that others can have after it, on nodes that are up or away.
fn expected_pes(matrix: &Matrix, job: JobId) -> u32 {
    let machine = matrix.machine();
    let expected = |columns: &crate::ColumnSet| {
        columns.columns().filter(|pe| machine.is_expected(*pe)).count() as u32
    };
    matrix.columns(job).map_or(0, expected)
}
