//! Checks the invariants of the matrix independently of its algorithms. Slow, for tests.

use std::collections::BTreeMap;

use crate::{JobId, Matrix, MatrixRow, NodeIndex, Pe, Row, SchedTime};

/// A broken invariant of [`Matrix`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvariantViolation {
    /// Two jobs hold one column of one row.
    #[error("row {row}, column {column}: held by jobs {first} and {second}")]
    ColumnShared {
        /// The row.
        row: Row,
        /// The column.
        column: Pe,
        /// One job.
        first: JobId,
        /// The other job.
        second: JobId,
    },
    /// A row's bits or list of jobs do not match the jobs' holdings.
    #[error("row {row}, column {column}: held by {holder:?}, marked taken: {taken}")]
    TakenWrong {
        /// The row.
        row: Row,
        /// The column.
        column: Pe,
        /// The job that holds the column.
        holder: Option<JobId>,
        /// Whether the row counts the column as taken.
        taken: bool,
    },
    /// The buddy tree offers a column that is taken or unusable, or hides a free one.
    #[error("row {row}, column {column}: wrongly free in the buddy tree: {free}")]
    FreeWrong {
        /// The row.
        row: Row,
        /// The column.
        column: Pe,
        /// The tree's opinion.
        free: bool,
    },
    /// A job was given a column of a node that takes no work.
    #[error("job {job} was given column {column}, whose node takes no work")]
    UnusableColumn {
        /// The job.
        job: JobId,
        /// The column.
        column: Pe,
    },
    /// A job and a row disagree about whether the job is in the row, or the job is in no row.
    #[error("job {job} and row {row} disagree about each other")]
    RowOfJob {
        /// The job.
        job: JobId,
        /// The row.
        row: Row,
    },
    /// Two jobs that run in one row have a rank on one column.
    #[error("row {row}: guest {guest} runs where {other} does")]
    GuestOverlaps {
        /// The row.
        row: Row,
        /// The guest.
        guest: JobId,
        /// The job in its way.
        other: JobId,
    },
    /// A row and its guest, or the job's own list of rows, disagree.
    #[error("row {row} and guest {guest} disagree about each other")]
    GuestOfRow {
        /// The row.
        row: Row,
        /// The guest.
        guest: JobId,
    },
    /// The jobs of a node have more memory than the node, or another amount than is recorded.
    #[error("{node}: its jobs have {actual_bytes} B of memory, {noted_bytes} B by the account")]
    Memory {
        /// The node.
        node: NodeIndex,
        /// The bytes that the jobs have.
        actual_bytes: u64,
        /// The bytes that the matrix has noted.
        noted_bytes: u64,
    },
    /// A live row is not listed, or a listed row has no jobs.
    #[error("row {row}: wrongly listed as live: {listed}")]
    LiveWrong {
        /// The row.
        row: Row,
        /// Whether the row is listed.
        listed: bool,
    },
    /// More rows than the multiprogramming limit.
    #[error("{rows} rows, and the limit is {limit}")]
    TooManyRows {
        /// Live rows.
        rows: u32,
        /// The limit.
        limit: u32,
    },
    /// The active row is not live.
    #[error("row {0} is active and has no jobs")]
    ActiveNotLive(Row),
    /// The ledger of a policy that counts PEs does not match the matrix.
    #[error("job {job} is booked with {booked_pes} PEs and holds {held_pes}")]
    BooksWrong {
        /// The job.
        job: JobId,
        /// PEs by the books.
        booked_pes: u32,
        /// PEs by the matrix.
        held_pes: u32,
    },
    /// More PEs are promised than there are.
    #[error("{missing} PEs more than there are were promised at {at}")]
    Overbooked {
        /// When.
        at: SchedTime,
        /// How many too many.
        missing: u64,
    },
    /// The columns taken minus those freed are not the columns that jobs hold.
    #[error("{taken} columns were taken and {freed} freed, and jobs hold {held}")]
    Unbalanced {
        /// Columns ever taken.
        taken: u64,
        /// Columns ever freed.
        freed: u64,
        /// Columns held now, over all rows.
        held: u64,
    },
}

impl Matrix {
    /// Checks every invariant of the matrix.
    ///
    /// # Errors
    /// The first that does not hold.
    pub fn check(&self) -> Result<(), InvariantViolation> {
        let limit = self.limit.get();
        if self.row_count() > limit {
            return Err(InvariantViolation::TooManyRows { rows: self.row_count(), limit });
        }
        if let Some(number) = self.active().filter(|number| self.row(*number).is_none()) {
            return Err(InvariantViolation::ActiveNotLive(number));
        }
        for row in &self.rows {
            self.check_row(row)?;
            self.check_guests(row)?;
        }
        self.check_jobs()?;
        self.check_memory()?;
        let held = self.jobs.values().map(|holding| u64::from(holding.columns.len())).sum();
        let (taken, freed) = (self.taken_ever_pes, self.freed_ever_pes);
        if taken != freed + held {
            return Err(InvariantViolation::Unbalanced { taken, freed, held });
        }
        Ok(())
    }

    fn check_row(&self, row: &MatrixRow) -> Result<(), InvariantViolation> {
        let number = row.number();
        let listed = self.live.contains(number);
        if listed != row.is_live() {
            return Err(InvariantViolation::LiveWrong { row: number, listed });
        }
        let mut holders: BTreeMap<Pe, JobId> = BTreeMap::new();
        for &job in row.jobs() {
            let holding = self.jobs.get(&job).filter(|holding| holding.home == number);
            let Some(holding) = holding else {
                return Err(InvariantViolation::RowOfJob { job, row: number });
            };
            for column in holding.columns.columns() {
                if let Some(first) = holders.insert(column, job) {
                    let second = job;
                    return Err(InvariantViolation::ColumnShared {
                        row: number,
                        column,
                        first,
                        second,
                    });
                }
            }
        }
        for column in (0..self.machine.pes()).map(Pe) {
            let holder = holders.get(&column).copied();
            let taken = row.taken().contains(column.0 as usize);
            let kept = row.withheld().contains(column.0 as usize);
            if taken != (holder.is_some() || kept) || (kept && holder.is_some()) {
                return Err(InvariantViolation::TakenWrong { row: number, column, holder, taken });
            }
            let free = row.is_free(column.0);
            if free != (!taken && self.machine.is_usable(column)) {
                return Err(InvariantViolation::FreeWrong { row: number, column, free });
            }
        }
        Ok(())
    }

    fn check_guests(&self, row: &MatrixRow) -> Result<(), InvariantViolation> {
        let number = row.number();
        let mut ranks: BTreeMap<Pe, JobId> = BTreeMap::new();
        for &guest in row.guests.jobs().iter().chain(row.jobs()) {
            let Some(holding) = self.jobs.get(&guest) else {
                return Err(InvariantViolation::GuestOfRow { row: number, guest });
            };
            if row.guests.contains(guest) && !holding.alternates.contains(&number) {
                return Err(InvariantViolation::GuestOfRow { row: number, guest });
            }
            for column in holding.busy.columns() {
                if let Some(other) = ranks.insert(column, guest) {
                    let (guest, other) = (other, guest);
                    return Err(InvariantViolation::GuestOverlaps { row: number, guest, other });
                }
            }
        }
        Ok(())
    }

    fn check_memory(&self) -> Result<(), InvariantViolation> {
        let mut actual: BTreeMap<NodeIndex, u64> = BTreeMap::new();
        for held in self.jobs.values().flat_map(|holding| &holding.memory) {
            *actual.entry(held.node).or_default() += held.bytes;
        }
        for (node, of_node) in (0..).map(NodeIndex).zip(self.machine.nodes()) {
            let actual_bytes = actual.get(&node).copied().unwrap_or(0);
            let noted_bytes = self.memory.held_bytes(node);
            let most = of_node.memory_bytes().unwrap_or(u64::MAX);
            if actual_bytes != noted_bytes || actual_bytes > most {
                return Err(InvariantViolation::Memory { node, actual_bytes, noted_bytes });
            }
        }
        Ok(())
    }

    fn check_jobs(&self) -> Result<(), InvariantViolation> {
        for (&job, holding) in &self.jobs {
            let number = holding.home;
            if !self.row(number).is_some_and(|row| row.jobs().contains(&job)) {
                return Err(InvariantViolation::RowOfJob { job, row: number });
            }
            let hosts =
                |number: &Row| self.row(*number).is_some_and(|row| row.guests.contains(job));
            if let Some(&number) = holding.alternates.iter().find(|number| !hosts(number)) {
                return Err(InvariantViolation::GuestOfRow { row: number, guest: job });
            }
            let hole = holding.columns.columns().find(|pe| !self.machine.is_usable(*pe));
            if let Some(column) = hole.filter(|_| !holding.on_hole) {
                return Err(InvariantViolation::UnusableColumn { job, column });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fit, JobRequest, Machine, MplLimit, NodeIndex, NodeState};

    /// Jobs 1 (2 columns) and 2 (3, rounded up to 4) in row 0, job 3 in row 1,
    /// on 4 nodes of 2 PEs.
    fn matrix() -> Matrix {
        let limit = MplLimit::try_from(3).unwrap();
        let mut matrix = Matrix::new(Machine::uniform(4, 2).unwrap(), limit);
        for (job, procs, row) in [(1, 2, 0), (2, 3, 0), (3, 8, 1)] {
            let request = JobRequest::new(JobId(job), procs);
            assert!(matrix.place(&request, Row(row), Fit::Block).is_some());
        }
        assert_eq!(matrix.advance(), Some(Row(0)));
        matrix.check().unwrap();
        matrix
    }

    /// The result of the check after the damage.
    fn after(damage: impl Fn(&mut Matrix)) -> InvariantViolation {
        let mut matrix = matrix();
        damage(&mut matrix);
        matrix.check().unwrap_err()
    }

    #[test]
    fn a_column_of_two_jobs_is_detected() {
        let seen = after(|matrix| {
            let columns = matrix.jobs[&JobId(1)].columns.clone();
            matrix.jobs.get_mut(&JobId(2)).unwrap().columns = columns;
        });
        assert!(matches!(seen, InvariantViolation::ColumnShared { .. }), "{seen}");
    }

    #[test]
    fn a_taken_column_without_a_holder_is_detected() {
        let seen =
            after(|matrix| matrix.jobs.get_mut(&JobId(1)).unwrap().columns = Default::default());
        assert!(matches!(seen, InvariantViolation::TakenWrong { taken: true, .. }), "{seen}");
    }

    #[test]
    fn free_columns_of_a_dead_node_are_detected() {
        let seen = after(|matrix| {
            matrix.machine.set_state(NodeIndex(1), NodeState::Down);
        });
        assert!(matches!(seen, InvariantViolation::FreeWrong { free: true, .. }), "{seen}");
    }

    #[test]
    fn a_job_placed_on_a_dead_node_is_detected() {
        let seen = after(|matrix| {
            matrix.set_node_state(NodeIndex(0), NodeState::Down);
            matrix.check().unwrap();
            matrix.jobs.get_mut(&JobId(1)).unwrap().on_hole = false;
        });
        assert!(matches!(seen, InvariantViolation::UnusableColumn { job: JobId(1), .. }), "{seen}");
    }

    #[test]
    fn a_job_without_a_row_is_detected() {
        let seen = after(|matrix| matrix.jobs.get_mut(&JobId(1)).unwrap().home = Row(2));
        assert!(matches!(seen, InvariantViolation::RowOfJob { job: JobId(1), .. }), "{seen}");
    }

    #[test]
    fn overlapping_or_unrecorded_guests_are_detected() {
        let admit = |matrix: &mut Matrix, row: usize, job: u64| {
            let busy = matrix.jobs[&JobId(job)].busy.clone();
            matrix.rows[row].guests.admit(JobId(job), &busy);
        };
        let seen = after(|matrix| admit(matrix, 1, 1));
        assert!(matches!(seen, InvariantViolation::GuestOfRow { guest: JobId(1), .. }), "{seen}");
        let seen = after(|matrix| {
            admit(matrix, 1, 1);
            matrix.jobs.get_mut(&JobId(1)).unwrap().alternates.insert(Row(1));
        });
        assert!(matches!(seen, InvariantViolation::GuestOverlaps { .. }), "{seen}");
        let seen = after(|matrix| {
            matrix.jobs.get_mut(&JobId(1)).unwrap().alternates.insert(Row(1));
        });
        assert!(matches!(seen, InvariantViolation::GuestOfRow { guest: JobId(1), .. }), "{seen}");
    }

    #[test]
    fn excess_or_unrecorded_memory_is_detected() {
        let held = || vec![crate::memory_account::HeldMemory { node: NodeIndex(0), bytes: 6 }];
        let seen = after(|matrix| matrix.jobs.get_mut(&JobId(3)).unwrap().memory = held());
        let expected =
            InvariantViolation::Memory { node: NodeIndex(0), actual_bytes: 6, noted_bytes: 0 };
        assert_eq!(seen, expected);
        let mut matrix = matrix();
        matrix.release(JobId(3)).unwrap();
        matrix.place(&JobRequest::new(JobId(3), 8).with_memory(3), Row(1), Fit::Block).unwrap();
        matrix.check().unwrap();
        matrix.machine.set_memory(NodeIndex(2), Some(5));
        let seen = matrix.check().unwrap_err();
        assert!(matches!(seen, InvariantViolation::Memory { node: NodeIndex(2), .. }), "{seen}");
    }

    #[test]
    fn an_unlisted_live_row_is_detected() {
        let seen = after(|matrix| {
            matrix.live.remove(Row(0));
        });
        assert_eq!(seen, InvariantViolation::LiveWrong { row: Row(0), listed: false });
    }

    #[test]
    fn a_row_beyond_the_limit_is_detected() {
        let seen = after(|matrix| matrix.limit = MplLimit::ONE);
        assert_eq!(seen, InvariantViolation::TooManyRows { rows: 2, limit: 1 });
    }

    #[test]
    fn an_active_row_without_jobs_is_detected() {
        let seen = after(|matrix| matrix.cursor = Row(2));
        assert_eq!(seen, InvariantViolation::ActiveNotLive(Row(2)));
    }

    #[test]
    fn columns_taken_and_not_freed_are_detected() {
        let seen = after(|matrix| matrix.taken_ever_pes += 1);
        let expected = InvariantViolation::Unbalanced { taken: 15, freed: 0, held: 14 };
        assert_eq!(seen, expected);
    }
}
