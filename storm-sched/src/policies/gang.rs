//! Explicit gang scheduling with the Ousterhout matrix (the paper's section 2 for the idea, 2.2 for
//! the buddy tree in any row with room; A3 of the policy reference).
//!
//! A job gets a place in the row that the packing scheme chooses, or in a new row. If the matrix is
//! at the multiprogramming limit, the job is queued. At each slice edge, the next live row in
//! cyclic order runs, so each row runs once within as many slices as there are rows. With a single
//! row, nothing switches.
//!
//! The queue is first come, first served. With `queue = "easy"` (backfilling gang scheduling, see
//! `gang/shadow.rs`), jobs may pass the first one if they do not delay its latest start.
//!
//! Settings enable three ways to use idle columns. With alternative scheduling, jobs run in further
//! rows. With unification, rows with disjoint columns become one after each departure. With
//! repacking, all jobs are mapped again, on machines that can move processes.
//!
//! A job with a suitable quality of service makes others give up their room (`gang/preempting.rs`).
//!
//! Policies without strobes, such as `local`, are this policy with all rows running at once.

use std::time::Duration;

use crate::partition::Partition;
use crate::reservation::{Book, Pool};
use crate::shape::Shape;
use crate::space::{Order, nameable};
use crate::{
    Action, Capability, Coscheduling, Event, InvariantViolation, JobId, JobRequest, Machine,
    Matrix, MatrixQueue, Packing, PendingReason, Placement, Policy, PolicyParams, Quantum, Row,
    RowChange, RowTurns, RowView, SchedTime, Shortage,
};

mod decision;
mod preempting;
mod reserved;
mod run_time;
mod shadow;

use preempting::Preemption;
use run_time::RunTime;
use shadow::{Shadow, latest_end};

/// The name in the registry.
pub const NAME: &str = "gang";

/// When the rows of the matrix run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// One after the other, for one slice each.
    InTurn(Quantum),
    /// All at once: the operating system of each node shares out its processors.
    AtOnce,
}

/// Explicit gang scheduling.
#[derive(Debug, Clone)]
pub struct Gang {
    name: &'static str,
    communication_slice: Option<Duration>,
    coscheduling: Coscheduling,
    partition: Partition,
    pace: Pace,
    packing: Packing,
    backfills: bool,
    alternates: bool,
    unifies: bool,
    repacks: bool,
    run_time: RunTime,
    book: Book,
    preemption: Preemption,
}

impl Gang {
    /// The policy on an idle machine.
    #[must_use]
    pub fn new(machine: Machine, params: &PolicyParams) -> Self {
        Self {
            name: NAME,
            communication_slice: None,
            coscheduling: Coscheduling::Strobed,
            partition: Partition::new(machine, params.mpl_limit),
            pace: Pace::InTurn(params.quantum_us),
            packing: params.packing,
            backfills: params.queue == MatrixQueue::Easy,
            alternates: params.alternative_scheduling,
            unifies: params.unification,
            repacks: params.repack,
            run_time: RunTime::default(),
            book: Book::default(),
            preemption: Preemption::default(),
        }
    }

    /// The policy under another name, with jobs that communicate in slices of this length.
    pub(super) fn buffered(self, name: &'static str, slice: Duration) -> Self {
        Self { name, communication_slice: Some(slice), ..self }
    }

    /// The policy with strobes that nodes apply only to the processes that need them.
    pub(super) fn flexible(self) -> Self {
        Self { coscheduling: Coscheduling::Flexible, ..self }
    }

    /// The policy without strobes: all rows run at once, and `coscheduling` makes the processes of
    /// a job run together. Jobs have no further rows, because they always run.
    #[must_use]
    pub fn at_once(coscheduling: Coscheduling, machine: Machine, params: &PolicyParams) -> Self {
        Self {
            coscheduling,
            pace: Pace::AtOnce,
            alternates: false,
            run_time: RunTime::at_once(),
            ..Self::new(machine, params)
        }
    }

    /// For the registry.
    #[must_use]
    pub fn boxed(machine: Machine, params: &PolicyParams) -> Box<dyn Policy> {
        Box::new(Self::new(machine, params))
    }

    /// Starts the jobs that can start, merges or fills rows, and activates a row.
    fn schedule(&mut self, now: SchedTime, actions: &mut Vec<Action>) {
        let others_may = self.start_urgent(now, actions);
        if !others_may {
            // Promises already cover the room that becomes free.
        } else if !self.book.is_empty() {
            self.start_among(now, actions);
        } else {
            self.start_prefix(actions);
            if self.backfills {
                self.backfill(now, actions);
            }
        }
        self.run_somebody(actions);
    }

    /// Starts the head of the queue while there is room for it in the matrix.
    fn start_prefix(&mut self, actions: &mut Vec<Action>) {
        while self.start_head(actions) {}
    }

    /// Starts the head of the queue, if the matrix has room for it and no other waiting job
    /// precedes it.
    fn start_head(&mut self, actions: &mut Vec<Action>) -> bool {
        let Some(head) = self.first_of_all().cloned() else { return false };
        let Some((row, placement)) = self.place(&head, actions) else { return false };
        self.partition.queue.remove(head.id);
        self.start(head.id, row, placement, actions);
        true
    }

    fn start(&mut self, job: JobId, row: Row, placement: Placement, actions: &mut Vec<Action>) {
        self.run_time.set_row(job, row);
        actions.push(Action::Start { job, placement, row });
    }

    /// Places a job in a live row, else in a new one. Before it opens a new row, it repacks the
    /// others if repacking is allowed.
    fn place(
        &mut self,
        request: &JobRequest,
        actions: &mut Vec<Action>,
    ) -> Option<(Row, Placement)> {
        let repacks = self.may_repack();
        let (matrix, scheme) = (&mut self.partition.matrix, self.packing.scheme());
        let live: Vec<Row> = matrix.rows().map(crate::MatrixRow::number).collect();
        let vacant = matrix.vacant_row();
        if repacks {
            let placed = scheme.place(matrix, request, &live);
            return placed
                .or_else(|| self.repack_with(request, actions))
                .or_else(|| scheme.place(&mut self.partition.matrix, request, vacant.as_slice()));
        }
        let mut rows = live;
        rows.extend(vacant);
        rows.sort_unstable();
        scheme.place(matrix, request, &rows)
    }

    /// Whether jobs may be repacked: only without reservations and without promised room.
    fn may_repack(&self) -> bool {
        self.repacks && self.book.is_empty() && !self.is_promised()
    }

    fn repack_with(
        &mut self,
        request: &JobRequest,
        actions: &mut Vec<Action>,
    ) -> Option<(Row, Placement)> {
        let mut moves = self.partition.matrix.repack(Some(request))?;
        let placed = moves.pop()?;
        self.announce(moves, actions);
        Some((placed.row, placed.placement))
    }

    fn announce(&mut self, moves: Vec<crate::Move>, actions: &mut Vec<Action>) {
        for crate::Move { job, placement, row } in moves {
            self.run_time.set_row(job, row);
            actions.push(Action::Migrate { job, placement, row });
        }
    }

    /// Starts jobs that do not delay the head of the queue. Jobs that cannot start, by their PEs
    /// and limits, are not examined.
    fn backfill(&mut self, now: SchedTime, actions: &mut Vec<Action>) {
        let queue = &self.partition.queue;
        let first = self.first_of_all().map(|head| head.id);
        let Some(head) = first.filter(|_| queue.len() > 1) else {
            return;
        };
        let Some(mut shadow) = self.shadow(now) else { return };
        let mut cursor = None;
        loop {
            let Partition { matrix, queue } = &self.partition;
            let gap = shadow.gap(matrix, self.pace, now);
            let next = queue.next_within(Pool::Common, Order::Queue, cursor, &gap);
            let Some((at, request)) = next else { return };
            let job = request.id;
            cursor = Some(at);
            if job != head {
                self.backfill_one(now, job, &mut shadow, actions);
            }
        }
    }

    fn shadow(&self, now: SchedTime) -> Option<Shadow> {
        self.shadow_of(now, self.first_of_all()?)
    }

    fn shadow_of(&self, now: SchedTime, head: &JobRequest) -> Option<Shadow> {
        let matrix = &self.partition.matrix;
        let end = |job: JobId| {
            let limit = matrix.request(job)?.time_limit?;
            let left = limit.saturating_sub(self.run_time.of(job));
            Some(latest_end(matrix, self.pace, now, left))
        };
        Shadow::of(matrix, head, end)
    }

    fn backfill_one(
        &mut self,
        now: SchedTime,
        job: JobId,
        shadow: &mut Shadow,
        actions: &mut Vec<Action>,
    ) {
        let Partition { matrix, queue } = &mut self.partition;
        let Some(request) = queue.get(job).cloned() else { return };
        let end = request.time_limit.map(|limit| latest_end(matrix, self.pace, now, limit));
        let in_time = end.is_some_and(|end| end <= shadow.at);
        let scheme = self.packing.scheme();
        let may_have = |number: &Row| match shadow.room {
            _ if in_time => true,
            Some((row, extra)) => *number != row || scheme.most_columns(request.pes()) <= extra,
            None => false,
        };
        let mut rows: Vec<Row> =
            matrix.rows().map(crate::MatrixRow::number).chain(matrix.vacant_row()).collect();
        rows.sort_unstable();
        rows.retain(may_have);
        // A job that asks for more than PEs may take whole nodes.
        let counted = request.is_plain() || in_time;
        let placed = counted.then(|| scheme.place(matrix, &request, &rows)).flatten();
        let Some((number, placement)) = placed else { return };
        if let Some((row, extra)) = &mut shadow.room
            && !in_time
            && *row == number
        {
            *extra -= matrix.columns(job).map_or(0, crate::ColumnSet::len);
        }
        queue.remove(job);
        self.start(job, number, placement, actions);
    }

    /// After a departure: merges rows that can be merged, or repacks all jobs.
    fn tidy(&mut self, actions: &mut Vec<Action>) {
        if self.may_repack() {
            let moves = self.partition.matrix.repack(None).unwrap_or_default();
            self.announce(moves, actions);
        }
        if self.unifies {
            self.partition.matrix.unify();
        }
    }

    /// If the active row was deleted, runs the next row at once: waiting for the edge would idle
    /// the machine.
    fn run_somebody(&mut self, actions: &mut Vec<Action>) {
        match self.partition.matrix.active() {
            None => self.rotate(actions),
            Some(row) => {
                self.fill(row, false);
                self.tell_rows(actions);
            }
        }
    }

    /// Activates the next live row, if it is not the active one.
    fn rotate(&mut self, actions: &mut Vec<Action>) {
        let matrix = &mut self.partition.matrix;
        let before = matrix.active();
        let after = matrix.advance();
        if let Some(row) = after {
            self.fill(row, true);
        }
        self.tell_rows(actions);
        let other = after.filter(|row| before != Some(*row));
        actions.extend(other.map(|row| Action::Activate { row }));
    }

    fn fill(&mut self, row: Row, turn: bool) {
        if self.alternates {
            self.partition.matrix.fill(row, turn);
        }
    }

    fn tell_rows(&mut self, actions: &mut Vec<Action>) {
        for RowChange { job, home, alternates } in self.partition.matrix.take_row_changes() {
            self.run_time.set_row(job, home);
            actions.push(Action::SetRows { job, home, alternates });
        }
    }

    fn shortage(&self, request: &JobRequest) -> Option<Shortage> {
        shortage(&self.partition.matrix, request)
    }
}

/// The shortage of a job in a matrix.
fn shortage(matrix: &Matrix, request: &JobRequest) -> Option<Shortage> {
    let machine = matrix.machine();
    if let Some(unavailable) = matrix.unavailable(request) {
        return Some(unavailable);
    }
    let shape = Shape::of(request);
    if matrix.vacant_row().is_some() {
        // Jobs of other rows may hold the memory.
        let shortfall = matrix.new_row_shortfall(shape)?;
        return Some(Shortage::Busy { shortfall, up_pes: machine.usable_pes() });
    }
    let mut closest = None;
    for row in matrix.rows() {
        let shortfall = matrix.row_shortfall(row.number(), shape)?;
        let missing = shortfall.needed - shortfall.have;
        if closest.is_none_or(|(_, _, least)| missing < least) {
            closest = Some((row.number(), shortfall, missing));
        }
    }
    closest.map(|(closest, shortfall, _)| Shortage::MatrixFull {
        limit: matrix.limit().get(),
        closest,
        shortfall,
    })
}

impl Policy for Gang {
    fn name(&self) -> &'static str {
        self.coscheduling.policy().unwrap_or(self.name)
    }

    fn coscheduling(&self) -> Coscheduling {
        self.coscheduling
    }

    fn requires(&self) -> &'static [Capability] {
        if self.repacks { &[Capability::Migration] } else { &[] }
    }

    fn heeds_precedence(&self) -> bool {
        true
    }

    fn handle(&mut self, now: SchedTime, event: Event) -> Vec<Action> {
        self.take(now, std::iter::once(event))
    }

    fn handle_together(&mut self, now: SchedTime, events: Vec<Event>) -> Vec<Action> {
        self.take(now, events.into_iter())
    }

    /// The latest start of the first job of the queue, if all jobs of the matrix run to their time
    /// limits. `None` if a job has no limit or nodes are reserved. `None` for all other jobs too:
    /// their turn comes once the jobs ahead have places.
    fn estimate(&self, now: SchedTime, job: JobId) -> Option<SchedTime> {
        let head = self.first_of_all().filter(|_| self.book.is_empty() && !self.is_promised());
        head.filter(|head| head.id == job)?;
        nameable(now, self.shadow(now)?.at)
    }

    fn estimate_all(&self, now: SchedTime) -> Vec<(JobId, SchedTime)> {
        let head = self.first_of_all().map(|head| head.id);
        head.and_then(|head| Some((head, self.estimate(now, head)?))).into_iter().collect()
    }

    fn pending(&self) -> Vec<JobId> {
        self.partition.pending()
    }

    fn pending_count(&self) -> usize {
        self.partition.queue.len()
    }

    fn running(&self) -> Vec<JobId> {
        self.partition.matrix.jobs().collect()
    }

    fn explain(&self, _now: SchedTime, job: JobId) -> Option<PendingReason> {
        let reason = if self.book.is_empty() {
            self.partition.explain(job, |request| self.shortage(request))
        } else {
            self.explain_among(job)
        };
        self.reason_of(job, reason)
    }

    fn explain_all(&self, _now: SchedTime) -> Vec<(JobId, PendingReason)> {
        let reasons = if self.book.is_empty() {
            self.partition.explain_all(|request| self.shortage(request))
        } else {
            self.explain_all_among()
        };
        self.reasons_of_all(reasons)
    }

    fn active_row(&self) -> Option<Row> {
        self.partition.matrix.active()
    }

    fn rows(&self) -> Vec<RowView> {
        let mut rows = self.partition.matrix.view();
        if self.pace == Pace::AtOnce {
            rows.iter_mut().for_each(|row| row.active = true);
        }
        rows
    }

    fn running_now(&self) -> Vec<JobId> {
        match self.pace {
            Pace::InTurn(_) => self.partition.matrix.running_now().collect(),
            Pace::AtOnce => self.running(),
        }
    }

    fn upcoming(&self, slices: usize) -> Vec<Row> {
        let matrix = &self.partition.matrix;
        if self.pace == Pace::AtOnce || (self.alternates && !matrix.is_settled()) {
            return Vec::new();
        }
        matrix.upcoming(slices)
    }

    fn rotation(&self) -> Option<Vec<u64>> {
        (self.pace != Pace::AtOnce).then(|| self.partition.matrix.rotation())
    }

    fn turns_passed(&mut self, now: SchedTime, rows: &[RowTurns]) {
        for &RowTurns { row, ran, places_on } in rows {
            self.run_time.pass(now, row, ran);
            // The next answer reports the jobs whose rows change.
            (0..places_on).for_each(|_| self.fill(row, true));
        }
    }

    fn next_edge_needed(&self) -> bool {
        self.pace != Pace::AtOnce && self.partition.matrix.row_count() > 1
    }

    fn wake_at(&self) -> Option<SchedTime> {
        self.book.next_turn()
    }

    fn communication_slice(&self) -> Option<Duration> {
        self.communication_slice
    }

    fn quantum(&self) -> Option<Duration> {
        match self.pace {
            Pace::InTurn(quantum) => Some(quantum.duration()),
            Pace::AtOnce => None,
        }
    }

    fn machine(&self) -> &Machine {
        self.partition.matrix.machine()
    }

    fn check(&self) -> Result<(), InvariantViolation> {
        self.partition.matrix.check()
    }
}
