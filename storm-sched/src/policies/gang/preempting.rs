//! Preemption under gang scheduling: jobs that make room for others (`docs/decisions/0047`).
//!
//! A job precedes all jobs that it may preempt, waiting or running. If no row has room for it,
//! running jobs make room. They must be jobs that it may preempt and that may be requeued or
//! cancelled. The lowest priority goes first, then the youngest, and no more jobs than needed. They
//! hold their places until they have ended. Until then, no job starts that would make the promised
//! job wait.
//!
//! This module suspends no job. The matrix stops jobs at each slice edge anyway, and a job that is
//! stopped for longer would still hold its memory and its row. So a job that can only be suspended
//! makes no room under gang scheduling.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::Gang;
use crate::making_room::{InVain, MAX_VICTIMS, depths, enough};
use crate::partition::Partition;
use crate::reservation::Pool;
use crate::shape::Shape;
use crate::{
    Action, Ahead, JobId, JobRequest, Matrix, NodeIndex, PendingReason, PreemptMode, QosId, Row,
    SchedTime,
};

/// The preemptions under way.
#[derive(Debug, Clone, Default)]
pub(super) struct Preemption {
    /// The jobs that were promised room, in the order of the promises. They wait for the ends of
    /// others.
    promised: Vec<JobId>,
    /// The jobs that are being ended to make room for any other job.
    ending: BTreeSet<JobId>,
    /// The jobs that the nodes could take, but for which not enough others can make room.
    vain: Vec<JobId>,
}

/// A running job that may make room.
#[derive(Debug, Clone, Copy)]
struct Victim {
    job: JobId,
    mode: PreemptMode,
}

impl Gang {
    /// Whether waiting jobs may go before others.
    pub(super) fn is_urgent(&self) -> bool {
        let Preemption { promised, vain, .. } = &self.preemption;
        self.partition.queue.may_preempt() || !promised.is_empty() || !vain.is_empty()
    }

    /// Whether a job was promised room.
    pub(super) fn is_promised(&self) -> bool {
        !self.preemption.promised.is_empty()
    }

    /// The job to start before all others: a job that precedes the head of the queue and could not
    /// start, else the head.
    pub(super) fn first_of_all(&self) -> Option<&JobRequest> {
        let head = self.partition.queue.head()?;
        Some(self.in_vain_over(head).unwrap_or(head))
    }

    fn in_vain_over(&self, request: &JobRequest) -> Option<&JobRequest> {
        let waiting = self.preemption.vain.iter().filter_map(|job| self.partition.queue.get(*job));
        waiting.into_iter().find(|other| other.id != request.id && other.is_over(request))
    }

    /// Starts jobs that were promised room, and lets jobs that may preempt others go first. Returns
    /// false if all other jobs must wait meanwhile.
    pub(super) fn start_urgent(&mut self, now: SchedTime, actions: &mut Vec<Action>) -> bool {
        // Each turn but the last takes a job out of the queue.
        for _ in 0..=self.partition.queue.len() {
            if !self.is_urgent() {
                break;
            }
            self.settle(now, actions);
            self.serve_all(now, actions);
            // The job behind the head may be the next to precede others.
            if self.is_promised() || !self.book.is_empty() || !self.start_head(actions) {
                break;
            }
        }
        !self.is_promised()
    }

    /// Starts the jobs whose promised room is free, in order.
    fn settle(&mut self, now: SchedTime, actions: &mut Vec<Action>) {
        let Partition { matrix, queue } = &self.partition;
        self.preemption.ending.retain(|job| matrix.contains(*job));
        self.preemption.promised.retain(|job| queue.contains(*job));
        // Each turn but the last removes a promise.
        for _ in 0..=self.preemption.promised.len() {
            while let Some(job) = self.preemption.promised.first().copied()
                && let Some(request) = self.partition.queue.get(job).cloned()
                && self.start_now(now, &request, actions)
            {
                self.preemption.promised.remove(0);
            }
            if !self.drop_promises(now) {
                return;
            }
        }
    }

    /// Returns promised jobs to the queue that would not fit even after all ends under way. False
    /// when there are none.
    fn drop_promises(&mut self, now: SchedTime) -> bool {
        if !self.is_promised() {
            return false;
        }
        let mut outlook = self.outlook(&self.partition.matrix);
        let mut promised = std::mem::take(&mut self.preemption.promised);
        let before = promised.len();
        promised.retain(|job| self.put_in(&mut outlook, now, *job));
        self.preemption.promised = promised;
        self.preemption.promised.len() < before
    }

    /// Lets jobs that may preempt others go before them. Jobs that no waiting job precedes come
    /// first, so that no job starts only to be stopped at once.
    fn serve_all(&mut self, now: SchedTime, actions: &mut Vec<Action>) {
        self.preemption.vain.clear();
        if !self.partition.queue.may_preempt() {
            return;
        }
        let depths = depths(self.partition.queue.iter());
        let deepest = depths.values().max().copied().unwrap_or(0);
        // Each turn but the last takes a job out of the queue or promises it room.
        for _ in 0..=self.partition.queue.len() {
            self.preemption.vain.clear();
            let mut served = false;
            for depth in 0..=deepest {
                served |= self.serve_those(now, (depth, &depths), actions);
            }
            if !served {
                return;
            }
        }
    }

    /// Serves the jobs of a depth. A job is served only if it precedes all jobs ahead of it that
    /// lack room on the same nodes.
    fn serve_those(
        &mut self,
        now: SchedTime,
        (depth, depths): (usize, &BTreeMap<QosId, usize>),
        actions: &mut Vec<Action>,
    ) -> bool {
        let promised: BTreeSet<JobId> = self.preemption.promised.iter().copied().collect();
        let mut waiting = self.partition.pending();
        waiting.retain(|job| !promised.contains(job));
        let (mut ahead, mut served) = (InVain::default(), false);
        for job in waiting {
            let Some(request) = self.partition.queue.get(job) else { continue };
            let pool = self.book.pool_of(request);
            let begun = !matches!(pool, Pool::Before(_));
            let turn = request.qos().and_then(|qos| depths.get(&qos)) == Some(&depth);
            let first = begun && turn && ahead.is_under(pool, request);
            let request = first.then(|| request.clone());
            if request.as_ref().is_some_and(|request| self.serve(now, request, actions)) {
                served = true;
                continue;
            }
            if let Some(request) = self.partition.queue.get(job).filter(|_| begun) {
                ahead.add(pool, request);
            }
            if request.is_some_and(|request| self.holds_lower_back(&request)) {
                self.preemption.vain.push(job);
            }
        }
        served
    }

    /// Whether a job that lacks room keeps the jobs that it may preempt from starting. A job does
    /// not if nodes that it needs take no work. Among reservations no job does.
    fn holds_lower_back(&self, request: &JobRequest) -> bool {
        let fits = self.partition.matrix.empty_row_shortfall(Shape::of(request)).is_none();
        self.book.is_empty() && fits
    }

    /// Starts a job that may preempt others, or has others make room for it. False if it would not
    /// fit even then.
    fn serve(&mut self, now: SchedTime, request: &JobRequest, actions: &mut Vec<Action>) -> bool {
        if self.spares_promised(now, request) && self.start_now(now, request, actions) {
            return true;
        }
        let Some(victims) = self.victims_for(now, request) else { return false };
        let by = request.id;
        for Victim { job, mode } in victims {
            self.preemption.ending.insert(job);
            actions.push(Action::Preempt { job, mode, by });
        }
        self.preemption.promised.push(by);
        true
    }

    /// Starts a job if there is room for it now.
    fn start_now(
        &mut self,
        now: SchedTime,
        request: &JobRequest,
        actions: &mut Vec<Action>,
    ) -> bool {
        let closed = self.closed_to(now, request);
        self.partition.matrix.close_only(&closed);
        let placed = self.place(request, actions);
        self.partition.matrix.close_only(&[]);
        let Some((row, placement)) = placed else { return false };
        self.partition.queue.remove(request.id);
        self.start(request.id, row, placement, actions);
        true
    }

    /// Whether the promised jobs would still have their room if this job started.
    fn spares_promised(&self, now: SchedTime, request: &JobRequest) -> bool {
        if !self.is_promised() {
            return true;
        }
        let mut trial = self.partition.matrix.clone();
        self.put_in(&mut trial, now, request.id)
            && self.all_promised_fit(&mut self.outlook(&trial), now)
    }

    /// The matrix after the end of all jobs that are being ended.
    fn outlook(&self, matrix: &Matrix) -> Matrix {
        let mut outlook = matrix.clone();
        for job in &self.preemption.ending {
            outlook.release(*job);
        }
        outlook
    }

    /// Gives the promised jobs their places in an outlook. False when one of them does not fit.
    fn all_promised_fit(&self, outlook: &mut Matrix, now: SchedTime) -> bool {
        self.preemption.promised.iter().all(|job| self.put_in(outlook, now, *job))
    }

    /// Gives a waiting job a place in a copy of the matrix.
    fn put_in(&self, trial: &mut Matrix, now: SchedTime, job: JobId) -> bool {
        let Some(request) = self.partition.queue.get(job) else { return false };
        trial.close_only(&self.closed_to(now, request));
        let mut rows: Vec<Row> = trial.rows().map(crate::MatrixRow::number).collect();
        rows.extend(trial.vacant_row());
        rows.sort_unstable();
        let placed = self.packing.scheme().place(trial, request, &rows);
        trial.close_only(&[]);
        placed.is_some()
    }

    /// The nodes that reservations keep from a job.
    fn closed_to(&self, now: SchedTime, request: &JobRequest) -> Vec<NodeIndex> {
        if self.book.is_empty() {
            return Vec::new();
        }
        let until = self.until(now, request);
        self.book.closed(self.partition.matrix.machine(), request, now, until)
    }

    /// The jobs that must make room for a job, besides those that already do so: no more than
    /// needed. `None` if the job would not fit even without all of them.
    fn victims_for(&self, now: SchedTime, request: &JobRequest) -> Option<Vec<Victim>> {
        let candidates = self.candidates_for(request);
        let nobody_ends = self.preemption.ending.is_empty();
        if candidates.is_empty() && nobody_ends {
            return None;
        }
        let mut outlook = self.outlook(&self.partition.matrix);
        if !self.all_promised_fit(&mut outlook, now) {
            return None;
        }
        let closed = self.closed_to(now, request);
        let fits = |chosen: &[Victim]| {
            let mut trial = outlook.clone();
            for victim in chosen {
                trial.release(victim.job);
            }
            trial.close_only(&closed);
            trial.has_room(request)
        };
        if fits(&[]) {
            return (!nobody_ends).then(Vec::new);
        }
        // If fewer jobs make room, the promised room may be elsewhere.
        enough(candidates, fits).filter(|chosen| fits(chosen))
    }

    /// The running jobs that may make room, in the order in which they are chosen.
    fn candidates_for(&self, request: &JobRequest) -> Vec<Victim> {
        let matrix = &self.partition.matrix;
        let mut ordered = BTreeMap::new();
        for job in matrix.jobs().filter(|job| !self.preemption.ending.contains(job)) {
            let Some(running) = matrix.request(job).filter(|running| request.is_over(running))
            else {
                continue;
            };
            let mode = running.precedence.as_ref().and_then(|precedence| precedence.mode);
            if let Some(mode) = mode.filter(|mode| *mode != PreemptMode::Suspend) {
                let place = (running.priority, Reverse(self.run_time.began(job)), job);
                ordered.insert(place, Victim { job, mode });
            }
        }
        ordered.into_values().take(MAX_VICTIMS).collect()
    }

    /// Why a job waits, given the reason that it would have without preemption.
    pub(super) fn reason_of(
        &self,
        job: JobId,
        reason: Option<PendingReason>,
    ) -> Option<PendingReason> {
        let Preemption { promised, vain, .. } = &self.preemption;
        match reason {
            // The job precedes the jobs ahead of it in the queue, so only the shortage counts.
            Some(PendingReason::Priority { shortage: Some(shortage), .. })
                if promised.contains(&job) || vain.contains(&job) =>
            {
                Some(PendingReason::Resources(shortage))
            }
            Some(reason) => Some(reason),
            None => {
                let ahead = self.ahead_of(self.partition.queue.get(job)?)?;
                Some(PendingReason::Priority { ahead, shortage: None })
            }
        }
    }

    /// The jobs that keep another waiting although there is room.
    fn ahead_of(&self, request: &JobRequest) -> Option<Ahead> {
        let job = request.id;
        let mut promised = self.preemption.promised.iter().filter(|first| **first != job);
        let first = promised.next().copied();
        let first = first.or_else(|| self.in_vain_over(request).map(|first| first.id));
        match first {
            Some(first) => Some(Ahead { first, others: promised.count() }),
            // Reservations have come near since the last decision, so the first job of the queue no
            // longer holds back others.
            None => self.partition.queue.ahead_of(job),
        }
    }

    /// [`Gang::reason_of`] for all waiting jobs, in queue order.
    pub(super) fn reasons_of_all(
        &self,
        reasons: Vec<(JobId, PendingReason)>,
    ) -> Vec<(JobId, PendingReason)> {
        if !self.is_urgent() && self.book.is_empty() {
            return reasons;
        }
        let mut reasons = reasons.into_iter().peekable();
        let reason = |request: &JobRequest| {
            let own = reasons.next_if(|(job, _)| *job == request.id).map(|(_, reason)| reason);
            Some((request.id, self.reason_of(request.id, own)?))
        };
        self.partition.queue.iter().filter_map(reason).collect()
    }
}
