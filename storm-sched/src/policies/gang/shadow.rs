//! The shadow of the first job in the queue of the matrix: its latest start, and the room that
//! others may take until then.
//!
//! A row runs in one of as many slices as there are rows, and there are never more rows than the
//! multiprogramming limit. So a job that must run for another r has ended, at the latest, after
//! limit * (slices in r + 1) quanta. The shadow is the earliest of these ends at which the first
//! job fits a row. The definition is EASY's (A2a of the policy reference), for each row by itself.
//! A job may pass in three cases: it will have ended by then, it gets another row, or it leaves
//! enough columns of that row.
//!
//! If the first job asks for more than PEs (nodes, memory, features), only jobs that will have
//! ended pass. No job passes if no end is known: jobs have no time limit, or the missing nodes take
//! no work.

use std::time::Duration;

use super::Pace;
use crate::pending_queue::Gap;
use crate::{JobId, JobRequest, Matrix, Row, SchedTime};

/// The latest start of the first job of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shadow {
    pub(super) at: SchedTime,
    /// The row in which the first job can start then, and the columns that it leaves there. `None`
    /// when the row is not known.
    pub(super) room: Option<(Row, u32)>,
}

/// The latest end of a job that has to run for another `left`.
pub(super) fn latest_end(matrix: &Matrix, pace: Pace, now: SchedTime, left: Duration) -> SchedTime {
    let Pace::InTurn(quantum) = pace else { return now + left };
    let slice = quantum.duration();
    let slices = left.as_nanos().div_ceil(slice.as_nanos().max(1)) + 1;
    let slices = slices.saturating_mul(u128::from(matrix.limit().get()));
    let nanos = slices.saturating_mul(slice.as_nanos());
    now + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// The longest time limit of a job that would have ended by then: the inverse of [`latest_end`].
pub(super) fn longest_limit(
    matrix: &Matrix,
    pace: Pace,
    now: SchedTime,
    at: SchedTime,
) -> Duration {
    if at == SchedTime::from_nanos(u64::MAX) {
        // Sums of times stop at that instant.
        return Duration::MAX;
    }
    let Pace::InTurn(quantum) = pace else { return at.since(now) };
    let slice_ns = quantum.duration().as_nanos().max(1);
    let turns = at.since(now).as_nanos() / (slice_ns * u128::from(matrix.limit().get()));
    let limit_ns = slice_ns.saturating_mul(turns.saturating_sub(1));
    Duration::from_nanos(u64::try_from(limit_ns).unwrap_or(u64::MAX))
}

impl Shadow {
    /// The shadow of the first job of the queue, given the latest end of each job of the matrix.
    /// `None` when there is no such instant, or the job has room as soon as nodes that are away are
    /// back.
    pub(super) fn of(
        matrix: &Matrix,
        head: &JobRequest,
        end: impl Fn(JobId) -> Option<SchedTime>,
    ) -> Option<Self> {
        if matrix.machine().has_away() && matrix.with_away_back().has_room(head) {
            return None;
        }
        if head.is_plain() {
            Self::of_plain(matrix, head, end)
        } else {
            Self::simulated(matrix, head, end)
        }
    }

    /// The largest job that may pass. A job that will have ended may hold any row. Another may hold
    /// another row, or the part that the first job leaves.
    pub(super) fn gap(&self, matrix: &Matrix, pace: Pace, now: SchedTime) -> Gap {
        let beyond = |row: &crate::MatrixRow| match self.room {
            Some((number, extra)) if number == row.number() => row.free_pes().min(extra),
            Some(_) => row.free_pes(),
            None => 0,
        };
        let vacant = self.room.and(matrix.vacant_row());
        let vacant_pes = vacant.map(|_| matrix.machine().usable_pes());
        let spare_pes = matrix.rows().map(beyond).chain(vacant_pes).max().unwrap_or(0);
        let window = longest_limit(matrix, pace, now, self.at);
        Gap::new(matrix.widest_room_pes(), window, spare_pes)
    }

    /// Finds the shadow of a job that asks only for PEs, by counting columns.
    fn of_plain(
        matrix: &Matrix,
        head: &JobRequest,
        end: impl Fn(JobId) -> Option<SchedTime>,
    ) -> Option<Self> {
        let in_row = |row: &crate::MatrixRow| {
            let mut free = row.free_pes() + matrix.away_idle_pes(row.number());
            let mut ends = Vec::new();
            for &job in row.jobs() {
                let columns = matrix.columns(job)?;
                // No job gets columns of a node that takes no work and is not expected to.
                let expected = columns.columns().filter(|pe| matrix.machine().is_expected(*pe));
                ends.extend(end(job).map(|end| (end, expected.count() as u32)));
            }
            ends.sort_unstable();
            let mut ends = ends.into_iter().peekable();
            let mut at = None;
            while let Some((end, columns)) = ends.next() {
                free += columns;
                at = Some(end);
                // All jobs that end at one instant count together.
                let together = ends.peek().is_some_and(|(next, _)| *next == end);
                if free >= head.procs && !together {
                    break;
                }
            }
            let extra = free.checked_sub(head.procs)?;
            Some(Self { at: at?, room: Some((row.number(), extra)) })
        };
        matrix.rows().filter_map(in_row).min_by_key(|shadow| shadow.at)
    }

    /// Finds the shadow by ending jobs in a copy of the matrix until the first job fits.
    fn simulated(
        matrix: &Matrix,
        head: &JobRequest,
        end: impl Fn(JobId) -> Option<SchedTime>,
    ) -> Option<Self> {
        let known = |job: JobId| Some((end(job)?, job));
        let mut ends: Vec<(SchedTime, JobId)> = matrix.jobs().filter_map(known).collect();
        ends.sort_unstable();
        let mut copy = matrix.with_away_back();
        for (at, job) in ends {
            copy.release(job);
            if copy.has_room(head) {
                return Some(Self { at, room: None });
            }
        }
        None
    }
}
