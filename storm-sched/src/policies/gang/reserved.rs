//! Gang scheduling among reservations. In all rows, the columns of reserved nodes are closed to a
//! job that could still run when a reservation of others begins. A job runs in one of as many
//! slices as there are rows, so its latest end is computed as for the shadow ([`latest_end`]). A
//! job without a limit could run for ever.
//!
//! The jobs of an active reservation are a queue of their own. If the first job of a queue does not
//! fit, others pass it only if they will have ended when it can start. A job to which reservations
//! leave too few nodes holds back no other job.

use super::shadow::{Shadow, latest_end, longest_limit};
use super::{Gang, shortage};
use crate::pending_queue::Gap;
use crate::reservation::{Lack, Opening, Pool};
use crate::shape::Shape;
use crate::space::Order;
use crate::{Action, Ahead, JobId, JobRequest, Matrix, PendingReason, Row, SchedTime};

/// The end of a job that has no limit.
const NEVER: SchedTime = SchedTime::from_nanos(u64::MAX);

impl Gang {
    /// Starts the jobs that can start.
    pub(super) fn start_among(&mut self, now: SchedTime, actions: &mut Vec<Action>) {
        let apart: Vec<Pool> = self.book.under_way().collect();
        for pool in std::iter::once(Pool::Common).chain(apart) {
            self.start_of_pool(now, pool, actions);
        }
        self.partition.matrix.close_only(&[]);
    }

    fn start_of_pool(&mut self, now: SchedTime, pool: Pool, actions: &mut Vec<Action>) {
        let openings = self.book.openings(pool, self.partition.matrix.machine());
        // The shadow of the first job that does not fit.
        let mut shadow: Option<Shadow> = None;
        let mut cursor = None;
        loop {
            let gap = self.gap_among(&openings, shadow.as_ref(), now);
            let next = self.partition.queue.next_within(pool, Order::Queue, cursor, &gap);
            let Some((at, request)) = next.map(|(at, request)| (at, request.clone())) else {
                return;
            };
            cursor = Some(at);
            let until = self.until(now, &request);
            let harmless = shadow.as_ref().is_none_or(|shadow| until <= shadow.at);
            if !harmless {
                continue;
            }
            let matrix = &mut self.partition.matrix;
            matrix.close_only(&self.book.closed(matrix.machine(), &request, now, until));
            if let Some((row, placement)) = self.place(&request, actions) {
                self.partition.queue.remove(request.id);
                self.start(request.id, row, placement, actions);
            } else if shadow.is_none() && holds_others_back(&self.partition.matrix, &request) {
                shadow = self.shadow_of(now, &request).filter(|_| self.backfills);
                if shadow.is_none() {
                    return;
                }
            }
        }
    }

    /// The largest job that is worth examining. Until a job has to wait, jobs that do not fit now
    /// count too. After that, only jobs that could start count.
    fn gap_among(&self, openings: &[Opening], shadow: Option<&Shadow>, now: SchedTime) -> Gap {
        let matrix = &self.partition.matrix;
        let vacant = matrix.vacant_row();
        let step = |opening: &Opening| {
            let until = shadow.map_or(opening.until, |shadow| shadow.at.min(opening.until));
            // A row without jobs offers all PEs that are open.
            let idle = || matrix.idle_pes_beside(&opening.closed);
            let beside = |row: Row| matrix.free_pes_beside(row, &opening.closed);
            let rows = || matrix.rows().map(crate::MatrixRow::number).map(beside).max();
            let pes = match (shadow, vacant) {
                (Some(_), None) => rows().unwrap_or(0),
                (None, _) | (Some(_), Some(_)) => idle(),
            };
            (pes, longest_limit(matrix, self.pace, now, until))
        };
        Gap::of_steps(openings.iter().map(step))
    }

    /// Whether a waiting job keeps the jobs behind it waiting. A job to which reservations leave
    /// too few nodes does not: that can last for days.
    fn holds_back(&self, trial: &mut Matrix, request: &JobRequest) -> bool {
        let now = self.run_time.now();
        let until = self.until(now, request);
        trial.close_only(&self.book.closed(trial.machine(), request, now, until));
        let holds_back = holds_others_back(trial, request);
        trial.close_only(&[]);
        holds_back
    }

    /// The latest end of a job that starts now.
    pub(super) fn until(&self, now: SchedTime, request: &JobRequest) -> SchedTime {
        let end = |limit| latest_end(&self.partition.matrix, self.pace, now, limit);
        request.time_limit.map_or(NEVER, end)
    }

    /// Why a job waits among reservations.
    pub(super) fn explain_among(&self, job: JobId) -> Option<PendingReason> {
        let request = self.partition.queue.get(job)?;
        let pool = self.book.pool_of(request);
        let mut trial = self.partition.matrix.clone();
        let before = self.partition.queue.iter().take_while(|rival| rival.id != job);
        let rivals = before.filter(|rival| self.book.pool_of(rival) == pool);
        let mut rivals = rivals.filter(|rival| self.holds_back(&mut trial, rival));
        let first = rivals.next().map(|first| first.id);
        let ahead = first.map(|first| Ahead { first, others: rivals.count() });
        self.reason_among(&mut trial, request, ahead)
    }

    /// Why each job waits among reservations, in queue order.
    pub(super) fn explain_all_among(&self) -> Vec<(JobId, PendingReason)> {
        let mut pools: std::collections::BTreeMap<Pool, Ahead> = std::collections::BTreeMap::new();
        let mut trial = self.partition.matrix.clone();
        let mut reason = |request: &JobRequest| {
            let pool = self.book.pool_of(request);
            let ahead = pools.get(&pool).copied();
            if self.holds_back(&mut trial, request) {
                let one_more = |first: &mut Ahead| first.others += 1;
                let first = Ahead { first: request.id, others: 0 };
                pools.entry(pool).and_modify(one_more).or_insert(first);
            }
            Some((request.id, self.reason_among(&mut trial, request, ahead)?))
        };
        self.partition.queue.iter().filter_map(&mut reason).collect()
    }

    fn reason_among(
        &self,
        trial: &mut Matrix,
        request: &JobRequest,
        ahead: Option<Ahead>,
    ) -> Option<PendingReason> {
        let now = self.run_time.now();
        let run = (now, self.until(now, request));
        match (Lack::of(request, &self.book, trial, run, shortage), ahead) {
            (Lack::Reserved(reason), _) => Some(reason),
            (Lack::Room(shortage), Some(ahead)) => {
                Some(PendingReason::Priority { ahead, shortage })
            }
            (Lack::Room(shortage), None) => shortage.map(PendingReason::Resources),
        }
    }
}

/// Whether the nodes that are open to a job could take it if they were idle.
fn holds_others_back(matrix: &Matrix, request: &JobRequest) -> bool {
    matrix.empty_row_shortfall(Shape::of(request)).is_none()
}
