//! The Ousterhout matrix: its rows take turns (the paper's time slots), its columns are PEs, and a
//! job holds the same columns in each of its rows.
//!
//! A job has a home row. It may be a guest in other rows where its columns are idle
//! (`matrix/alternates.rs`). Rows with disjoint columns can be merged (`matrix/unify.rs`).
//!
//! A row is deleted when its last job leaves. The other rows keep their numbers and their places in
//! the cyclic order, so the cursor never skips a live row. A new row gets the lowest free number
//! and runs after all rows that already wait for their turn.
//!
//! The packing scheme decides which row a job gets ([`crate::Packing`]).

use std::collections::{BTreeMap, BTreeSet};

use crate::matrix_row::Chosen;
use crate::memory_account::{HeldMemory, MemoryAccount};
use crate::row_order::RowOrder;
use crate::shape::Shape;
use crate::{
    ColumnSet, Fit, JobId, JobRequest, Machine, MatrixRow, MplLimit, NodeIndex, NodeState,
    Placement, Row,
};

mod alternates;
mod check;
mod closing;
mod park;
mod repack;
mod room;
mod unify;

pub use alternates::{MAX_EXAMINED, RowChange};
pub use check::InvariantViolation;
pub use repack::Move;

/// The reason why a job that already runs could not get its columns back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MatrixError {
    /// The job already holds columns.
    #[error("job {0} is already in the matrix")]
    JobPresent(JobId),
    /// The row's number is not below the multiprogramming limit.
    #[error("row {row} is beyond the limit of {limit} rows")]
    NoSuchRow {
        /// The row.
        row: Row,
        /// The most rows.
        limit: u32,
    },
    /// The placement belongs to another request, or is empty.
    #[error("{asked} processes were asked for, and {placed} are placed")]
    OtherSize {
        /// The number of processes of the request.
        asked: u32,
        /// The number of processes of the placement.
        placed: u32,
    },
    /// The columns lie beyond the machine, or another job holds them.
    #[error("the columns are not free in row {0}")]
    ColumnsTaken(Row),
}

/// The holdings of one job.
#[derive(Debug, Clone)]
pub(crate) struct Holding {
    pub(crate) request: JobRequest,
    /// The columns that the job holds in its home row.
    pub(crate) columns: ColumnSet,
    /// The columns among these that the job keeps busy.
    pub(crate) busy: ColumnSet,
    pub(crate) memory: Vec<HeldMemory>,
    pub(crate) home: Row,
    /// The rows in which the job is a guest.
    pub(crate) alternates: BTreeSet<Row>,
    /// Whether a node of the job stopped taking work while the job held it.
    pub(crate) on_hole: bool,
}

/// The matrix of one partition.
#[derive(Debug, Clone)]
pub struct Matrix {
    machine: Machine,
    limit: MplLimit,
    /// The rows by number. A row without jobs is a deleted one.
    rows: Vec<MatrixRow>,
    live: RowOrder,
    /// Boxed, because the tree moves its entries.
    jobs: BTreeMap<JobId, Box<Holding>>,
    memory: MemoryAccount,
    closing: closing::Closing,
    cursor: Row,
    active: bool,
    /// Jobs whose rows have changed since the last report, in the order of the changes.
    changed: Vec<JobId>,
    taken_ever_pes: u64,
    freed_ever_pes: u64,
}

impl Matrix {
    /// Returns an empty matrix over a machine, with at most `limit` rows.
    #[must_use]
    pub fn new(machine: Machine, limit: MplLimit) -> Self {
        Self {
            memory: MemoryAccount::new(&machine),
            machine,
            limit,
            rows: Vec::new(),
            live: RowOrder::default(),
            jobs: BTreeMap::new(),
            closing: closing::Closing::default(),
            cursor: Row(0),
            active: false,
            changed: Vec::new(),
            taken_ever_pes: 0,
            freed_ever_pes: 0,
        }
    }

    /// The machine whose PEs are the columns.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The memory that jobs hold, over all rows.
    #[must_use]
    pub fn memory(&self) -> &MemoryAccount {
        &self.memory
    }

    /// The most rows of the matrix.
    #[must_use]
    pub fn limit(&self) -> MplLimit {
        self.limit
    }

    /// The live rows by number.
    pub fn rows(&self) -> impl Iterator<Item = &MatrixRow> + '_ {
        self.live.rows().filter_map(|number| self.row(number))
    }

    /// The number of live rows: the multiprogramming level.
    #[must_use]
    pub fn row_count(&self) -> u32 {
        // At most `limit` rows are live.
        self.live.len() as u32
    }

    /// A live row.
    #[must_use]
    pub fn row(&self, number: Row) -> Option<&MatrixRow> {
        self.rows.get(number.0 as usize).filter(|row| row.is_live())
    }

    /// The jobs in the matrix, by id.
    pub fn jobs(&self) -> impl ExactSizeIterator<Item = JobId> + '_ {
        self.jobs.keys().copied()
    }

    /// Whether a job is in the matrix.
    #[must_use]
    pub fn contains(&self, job: JobId) -> bool {
        self.jobs.contains_key(&job)
    }

    /// The columns that a job holds in each of its rows.
    #[must_use]
    pub fn columns(&self, job: JobId) -> Option<&ColumnSet> {
        self.jobs.get(&job).map(|holding| &holding.columns)
    }

    /// The request of a job.
    #[must_use]
    pub fn request(&self, job: JobId) -> Option<&JobRequest> {
        self.jobs.get(&job).map(|holding| &holding.request)
    }

    /// The home row of a job.
    #[must_use]
    pub fn home(&self, job: JobId) -> Option<Row> {
        self.jobs.get(&job).map(|holding| holding.home)
    }

    /// The rows that a job runs in, its home row first.
    pub fn rows_of(&self, job: JobId) -> impl Iterator<Item = Row> + '_ {
        let home = |holding: &'_ Holding| std::iter::once(holding.home);
        let holding = self.jobs.get(&job).map(Box::as_ref);
        let others = holding.into_iter().flat_map(|holding| holding.alternates.iter().copied());
        holding.map(home).into_iter().flatten().chain(others)
    }

    /// The number that a new row would get: the lowest that is not live. `None` at the limit.
    #[must_use]
    pub fn vacant_row(&self) -> Option<Row> {
        let vacant = (0..self.limit.get()).map(Row);
        // Live rows ascend. The first number that differs from its index marks a gap.
        vacant
            .zip(self.live.rows().map(Some).chain(std::iter::repeat(None)))
            .find(|(number, live)| *live != Some(*number))
            .map(|(number, _)| number)
    }

    /// Places a job in a row, and opens the row if it is not live. Returns `None` without a change
    /// if the job does not fit, asks for nothing, or is in the matrix already, or if the row's
    /// number is not below the limit.
    pub fn place(&mut self, request: &JobRequest, number: Row, fit: Fit) -> Option<Placement> {
        if request.pes() == 0 || self.contains(request.id) {
            return None;
        }
        self.ensure_row(number)?;
        let row = self.rows.get_mut(number.0 as usize)?;
        let shape = Shape::of(request);
        let Chosen { columns, busy, ranks } =
            row.place(&self.machine, &self.memory, request.id, shape, fit)?;
        let placement = match ranks {
            Some(pes) => Placement::of_ranks(&self.machine, pes, request.pes_per_proc),
            None => Placement::on_columns(&self.machine, &columns, request.procs),
        };
        let memory = self.memory.take(&self.machine, request, placement.shares());
        self.enter(request, (columns, busy), number, memory);
        Some(placement)
    }

    /// Gives a plain job ([`JobRequest::is_plain`]) exactly these columns of a row. Its processes
    /// get the first of them. Returns `None` and changes nothing when there are too few columns,
    /// when a column is not free, or when [`Matrix::place`] would return `None` for another reason.
    pub fn place_on(
        &mut self,
        request: &JobRequest,
        number: Row,
        columns: &ColumnSet,
    ) -> Option<Placement> {
        let fits = request.is_plain() && request.procs > 0 && columns.len() >= request.procs;
        if !fits || self.contains(request.id) {
            return None;
        }
        self.ensure_row(number)?;
        let row = self.rows.get_mut(number.0 as usize)?;
        columns.columns().all(|pe| row.is_free(pe.0)).then_some(())?;
        let busy = columns.first(request.procs);
        row.hold(request.id, columns, &busy);
        self.enter(request, (columns.clone(), busy), number, Vec::new());
        Some(Placement::on_columns(&self.machine, columns, request.procs))
    }

    /// Takes columns for a job that already runs on them, after a restart of the Machine Manager.
    /// Their nodes need not take new work.
    ///
    /// # Errors
    /// A [`MatrixError`]; nothing changes then.
    pub fn restore(
        &mut self,
        request: &JobRequest,
        placement: &Placement,
        number: Row,
    ) -> Result<(), MatrixError> {
        let (job, asked, placed) = (request.id, request.procs, placement.procs());
        if self.contains(job) {
            return Err(MatrixError::JobPresent(job));
        }
        if asked != placed || asked == 0 {
            return Err(MatrixError::OtherSize { asked, placed });
        }
        let limit = self.limit.get();
        self.ensure_row(number).ok_or(MatrixError::NoSuchRow { row: number, limit })?;
        let row = &self.rows[number.0 as usize];
        let mut columns = ColumnSet::new();
        let mut on_hole = false;
        let mut next = 0;
        for pe in placement.pes() {
            let taken =
                pe.0 < next || pe.0 >= self.machine.pes() || row.taken().contains(pe.0 as usize);
            if taken {
                return Err(MatrixError::ColumnsTaken(number));
            }
            next = pe.0 + 1;
            on_hole |= !self.machine.is_usable(*pe);
            columns.push(pe.0..next);
        }
        if request.exclusive {
            columns = self.whole_nodes(placement, number)?;
        }
        self.rows[number.0 as usize].hold(job, &columns, &columns);
        let memory = self.memory.take(&self.machine, request, placement.shares());
        let busy = Shape::of(request).busy(&columns);
        self.enter(request, (columns, busy), number, memory);
        if let Some(holding) = self.jobs.get_mut(&job) {
            holding.on_hole = on_hole;
        }
        Ok(())
    }

    /// Removes a job from its rows and deletes rows that are left empty. If the active row is
    /// deleted, no row is active until [`Matrix::advance`]. Returns the columns that the job held,
    /// or `None` if it is not in the matrix.
    pub fn release(&mut self, job: JobId) -> Option<ColumnSet> {
        let holding = self.jobs.remove(&job)?;
        self.memory.give_back(&holding.memory);
        for number in &holding.alternates {
            self.rows[number.0 as usize].guests.dismiss(job, &holding.busy);
        }
        let row = &mut self.rows[holding.home.0 as usize];
        row.release(&self.machine, job, &holding.columns, holding.on_hole);
        self.freed_ever_pes += u64::from(holding.columns.len());
        if !row.is_live() {
            self.delete_row(holding.home);
        }
        self.unsettle();
        Some(holding.columns)
    }

    /// Changes the state of a node and of its columns in every row; jobs keep their columns.
    /// Returns the former state, or `None` if there is no such node.
    pub fn set_node_state(&mut self, node: NodeIndex, state: NodeState) -> Option<NodeState> {
        let before = self.machine.set_state(node, state)?;
        let columns = self.machine.node(node)?.columns();
        let usable = state == NodeState::Up;
        if usable == (before == NodeState::Up) {
            return Some(before);
        }
        for row in &mut self.rows {
            row.set_node(columns.clone(), usable);
        }
        if !usable {
            let holds = |holding: &Holding| {
                let touches = |range: &std::ops::Range<u32>| {
                    range.start < columns.end && columns.start < range.end
                };
                holding.columns.ranges().iter().any(touches)
            };
            for holding in self.jobs.values_mut().filter(|holding| holds(holding)) {
                holding.on_hole = true;
            }
        }
        Some(before)
    }

    /// The row that runs now.
    #[must_use]
    pub fn active(&self) -> Option<Row> {
        self.active.then_some(self.cursor)
    }

    /// The jobs that run now: those of the active row and its guests.
    pub fn running_now(&self) -> impl Iterator<Item = JobId> + '_ {
        let row = self.active().and_then(|number| self.row(number));
        row.into_iter().flat_map(|row| row.jobs().iter().chain(row.guests.jobs()).copied())
    }

    /// Moves the cursor to the next live row in cyclic order and returns that row. If only one row
    /// is live, it stays there. `None` when no row is live.
    pub fn advance(&mut self) -> Option<Row> {
        if self.active {
            self.live.put_last(self.cursor);
        }
        let next = self.live.next();
        self.active = next.is_some();
        self.cursor = next.unwrap_or(self.cursor);
        next
    }

    /// The rows that the next `times` calls of [`Matrix::advance`] would return; none while no row
    /// is active.
    #[must_use]
    pub fn upcoming(&self, times: usize) -> Vec<Row> {
        if !self.active {
            return Vec::new();
        }
        let others = self.live.in_turn().filter(|number| *number != self.cursor);
        let order: Vec<Row> = others.chain([self.cursor]).collect();
        order.into_iter().cycle().take(times).collect()
    }

    fn ensure_row(&mut self, number: Row) -> Option<()> {
        if number.0 >= self.limit.get() {
            return None;
        }
        for next in self.rows.len() as u32..=number.0 {
            self.rows.push(MatrixRow::new(Row(next), &self.machine));
        }
        Some(())
    }

    /// All columns of the nodes of a placement. Fails if another job of the row has some of them.
    fn whole_nodes(&self, placement: &Placement, number: Row) -> Result<ColumnSet, MatrixError> {
        let row = &self.rows[number.0 as usize];
        let mut columns = ColumnSet::new();
        for node in placement.nodes().filter_map(|index| self.machine.node(index)) {
            let own = node.columns();
            if row.taken().contains_any_in_range(own.start as usize..own.end as usize) {
                return Err(MatrixError::ColumnsTaken(number));
            }
            columns.push(own);
        }
        Ok(columns)
    }

    /// Records the columns that a job holds, and keeps busy, in a row that has taken it in.
    fn enter(
        &mut self,
        request: &JobRequest,
        (columns, busy): (ColumnSet, ColumnSet),
        number: Row,
        memory: Vec<HeldMemory>,
    ) {
        self.live.insert(number);
        self.taken_ever_pes += u64::from(columns.len());
        self.evict(number, &busy);
        let holding = Holding {
            request: request.clone(),
            columns,
            busy,
            memory,
            home: number,
            alternates: BTreeSet::new(),
            on_hole: false,
        };
        self.jobs.insert(request.id, Box::new(holding));
        self.unsettle();
    }

    /// A row has lost its last job. It also loses its guests and its place in the order.
    fn delete_row(&mut self, number: Row) {
        let guests: Vec<JobId> =
            self.rows[number.0 as usize].guests.jobs().iter().copied().collect();
        for guest in guests {
            self.dismiss(number, guest);
        }
        self.live.remove(number);
        self.active &= self.cursor != number;
    }
}
