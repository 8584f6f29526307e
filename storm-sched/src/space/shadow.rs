//! The shadow of a blocked job: its start by the estimates of running jobs, and the PEs that it
//! leaves over. Sources: Lifka 1995; Mu'alem and Feitelson 2001; A2a of the policy reference.

use std::time::Duration;

use crate::pending_queue::Gap;
use crate::reservation::Opening;
use crate::space::ledger::{Ledger, fits_row};
use crate::space::{Candidate, ROW};
use crate::{JobRequest, Matrix, SchedTime};

/// When a blocked job can start, and which PEs others may hold beyond that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shadow {
    at: SchedTime,
    spare_pes: u32,
}

impl Shadow {
    pub(crate) fn of(request: &JobRequest, matrix: &Matrix, ledger: &Ledger) -> Option<Self> {
        if !ledger.book().is_empty() {
            Self::among_reservations(request, matrix, ledger)
        } else if request.is_plain() {
            Self::of_count(request.procs, ledger)
        } else {
            Self::of_nodes(request, matrix, ledger)
        }
    }

    /// When the job can start.
    #[must_use]
    pub fn at(&self) -> SchedTime {
        self.at
    }

    /// The PEs that jobs may hold beyond that time without delaying the blocked job.
    #[must_use]
    pub fn spare_pes(&self) -> u32 {
        self.spare_pes
    }

    /// Whether a job that starts now does not delay the blocked job: either it has ended by then,
    /// or the PEs that it holds are spare. Admitting it uses up the spare PEs.
    pub fn admits(&mut self, job: &Candidate<'_>) -> bool {
        if job.end() <= self.at {
            return true;
        }
        let pes = job.request().procs;
        let spare = job.is_plain() && pes <= self.spare_pes;
        if spare {
            self.spare_pes -= pes;
        }
        spare
    }

    /// The largest job that is admitted if it starts now.
    pub(crate) fn gap(&self, ledger: &Ledger) -> Gap {
        // Sums of times end at the latest instant, so every job ends by then.
        let ever = self.at == SchedTime::from_nanos(u64::MAX);
        let window = if ever { Duration::MAX } else { self.at.since(ledger.now()) };
        Gap::new(ledger.free_pes(), window, self.spare_pes)
    }

    /// Like [`Shadow::gap`], for the idle PEs among reservations. The longer a job runs, the fewer
    /// PEs the reservations leave open.
    pub(crate) fn gap_among(&self, openings: &[Opening], ledger: &Ledger, matrix: &Matrix) -> Gap {
        let window = |until: SchedTime| match until.min(self.at) {
            at if at == SchedTime::from_nanos(u64::MAX) => Duration::MAX,
            at => at.since(ledger.now()),
        };
        let step = |opening: &Opening| {
            (matrix.free_pes_beside(ROW, &opening.closed), window(opening.until))
        };
        Gap::of_steps(openings.iter().map(step))
    }

    /// The earliest end at which this number of PEs is free. All PEs that become free in that
    /// instant count.
    fn of_count(pes: u32, ledger: &Ledger) -> Option<Self> {
        let mut free = ledger.free_pes() + ledger.away_free_pes();
        if let Some(spare_pes) = free.checked_sub(pes).filter(|_| ledger.away_free_pes() > 0) {
            // It starts as soon as the nodes that are away are back.
            return Some(Self { at: ledger.now(), spare_pes });
        }
        let mut ends = ledger.ends().after(ledger.now()).peekable();
        while let Some((at, freed)) = ends.next() {
            free += freed;
            let last = ends.peek().is_none_or(|(next, _)| *next != at);
            if last && free >= pes {
                return Some(Self { at, spare_pes: free - pes });
            }
        }
        None
    }

    /// The earliest end at which the nodes have room, with the jobs taken out one after the other.
    /// No PE counts as spare, because the PEs that the job leaves over are not computed.
    fn of_nodes(request: &JobRequest, matrix: &Matrix, ledger: &Ledger) -> Option<Self> {
        let mut trial = matrix.with_away_back();
        if fits_row(&trial, request) {
            return Some(Self { at: ledger.now(), spare_pes: 0 });
        }
        let mut ends = ledger.holdings().peekable();
        while let Some((job, end, _)) = ends.next() {
            trial.release(job);
            let last = ends.peek().is_none_or(|(_, next, _)| *next != end);
            if last && fits_row(&trial, request) {
                return Some(Self { at: end.max(ledger.now()), spare_pes: 0 });
            }
        }
        None
    }

    /// The earliest time at which the nodes have room that reservations then leave to the job. The
    /// time is an estimated end, or the start or end of a reservation. No PE counts as spare, as in
    /// [`Shadow::of_nodes`].
    fn among_reservations(request: &JobRequest, matrix: &Matrix, ledger: &Ledger) -> Option<Self> {
        let (now, book) = (ledger.now(), ledger.book());
        let length = ledger.estimate(request);
        let ends = || ledger.holdings().map(|(job, end, _)| (end.max(now), job));
        let mut times: Vec<SchedTime> =
            ends().map(|(end, _)| end).chain(book.turns()).filter(|at| *at >= now).collect();
        times.push(now);
        times.sort_unstable();
        times.dedup();
        let mut trial = matrix.with_away_back();
        let mut ends = ends().peekable();
        let fits = |at: &SchedTime| {
            while let Some((_, job)) = ends.next_if(|(end, _)| end <= at) {
                trial.release(job);
            }
            let closed = book.closed(trial.machine(), request, *at, *at + length);
            trial.close_only(&closed);
            fits_row(&trial, request)
        };
        times.into_iter().find(fits).map(|at| Self { at, spare_pes: 0 })
    }
}
