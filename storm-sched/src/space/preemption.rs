//! Preemption under space sharing: jobs that get the PEs of others.
//!
//! A job precedes all jobs that it may preempt, waiting or running. If it does not fit, the running
//! jobs that it may preempt make room: lowest priority first, then the youngest, and no more jobs
//! than needed.
//! - Jobs to be suspended move at once to a row that never runs. They keep their columns and their
//!   memory. Their idle columns are given only to jobs that may preempt them.
//! - Jobs to be ended hold their PEs until they have ended. These PEs are promised to the job that
//!   waits for them.
//!
//! The discipline, not this module, decides among jobs that cannot preempt each other.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::job_map::JobMap;
use crate::making_room::{InVain, MAX_VICTIMS, depths, enough};
use crate::partition::Partition;
use crate::reservation::Pool;
use crate::space::ledger::fits_row;
use crate::space::{News, ROW, Space};
use crate::{
    Action, ColumnSet, EventError, JobId, JobRequest, Matrix, Pe, PreemptMode, QosId, Row,
};

/// The number of rows: the running one, and those of suspended jobs. The rows limit how many
/// suspended jobs can hold the same column.
pub(crate) const PARKING_ROWS: u32 = 16;

/// A job that waits for the ends of others.
#[derive(Debug, Clone)]
struct Claim {
    job: JobId,
    /// The PEs promised to the job. If counting does not decide, all PEs are promised.
    pes: u32,
    /// The victims that have not ended yet.
    victims: BTreeSet<JobId>,
}

/// A suspended job.
#[derive(Debug, Clone, Copy)]
struct Suspended {
    job: JobId,
    /// The time left of its estimate.
    left: Duration,
}

/// The preemptions under way.
#[derive(Debug, Clone, Default)]
pub(crate) struct Preemption {
    /// The order in which the jobs that may be preempted began: a larger number began later.
    began: JobMap<i64>,
    begun: i64,
    restored: i64,
    /// The suspended jobs, in the order in which they were suspended.
    suspended: Vec<Suspended>,
    claims: Vec<Claim>,
    /// The jobs that are being ended to make room for any other job.
    ending: BTreeSet<JobId>,
}

/// A running job that may make room.
#[derive(Debug, Clone, Copy)]
struct Victim {
    job: JobId,
    mode: PreemptMode,
    pes: u32,
}

impl Space {
    /// Whether PEs are promised to jobs, or kept for suspended jobs.
    pub(crate) fn is_preempting(&self) -> bool {
        !self.preemption.suspended.is_empty() || !self.preemption.claims.is_empty()
    }

    /// Stops keeping columns for suspended jobs.
    pub(super) fn lift(&mut self) {
        if !self.preemption.suspended.is_empty() {
            self.partition.matrix.withhold(ROW, &[]);
        }
    }

    /// Suspends a job that was taken over.
    pub(super) fn restore_suspended(&mut self, job: JobId) -> Result<(), EventError> {
        let runs = self.partition.matrix.home(job) == Some(ROW);
        match self.parking_for(job).filter(|_| runs) {
            Some(row) => {
                self.park(job, row);
                Ok(())
            }
            None => Err(EventError::NotSuspended { job }),
        }
    }

    /// Notes that a job has begun to run or was taken over. A job taken over counts as older than
    /// all jobs noted so far.
    pub(super) fn note_begin(&mut self, job: JobId, restored: bool) {
        let request = self.partition.matrix.request(job);
        let precedence = request.and_then(|request| request.precedence.as_ref());
        if precedence.is_none_or(|precedence| precedence.mode.is_none()) {
            return;
        }
        let Preemption { began, begun, restored: before, .. } = &mut self.preemption;
        let place = if restored {
            *before -= 1;
            *before
        } else {
            *begun += 1;
            *begun
        };
        began.insert(job, place);
    }

    /// Notes that a job holds nothing any more, or waits no more.
    pub(super) fn forget_preemption(&mut self, job: JobId) {
        if self.preemption.began.is_empty() && !self.is_preempting() {
            return;
        }
        let Preemption { began, suspended, claims, ending, .. } = &mut self.preemption;
        began.remove(&job);
        ending.remove(&job);
        suspended.retain(|one| one.job != job);
        claims.retain(|claim| claim.job != job);
        claims.iter_mut().for_each(|claim| {
            claim.victims.remove(&job);
        });
        self.count_promises();
    }

    /// Gives PEs to jobs with a promise, then to jobs that may preempt others, then back to
    /// suspended jobs.
    pub(crate) fn preempt(&mut self, news: &mut Vec<News>) {
        if !self.is_preempting() && !self.partition.queue.may_preempt() {
            return;
        }
        let mut changed = self.settle_claims();
        if self.partition.queue.may_preempt() {
            // The starts of jobs that became due in this very instant are decided again, after the
            // jobs that may preempt others.
            if self.ledger.undo_due() {
                news.push(News::Late);
            }
            changed |= self.serve_preemptors();
        }
        changed |= self.resume();
        self.keep_columns();
        if changed {
            news.push(News::Reordered);
        }
    }

    /// Keeps the columns of suspended jobs, and the promised PEs, from all jobs.
    pub(super) fn keep_columns(&mut self) {
        self.withhold_from(None);
        self.count_promises();
    }

    fn count_promises(&mut self) {
        let claims = &self.preemption.claims;
        let pes = claims.iter().map(|claim| claim.pes).fold(0, u32::saturating_add);
        let jobs = claims.iter().map(|claim| claim.job).collect();
        self.ledger.promise(jobs, pes);
        self.ledger.refresh(&self.partition.matrix);
    }

    /// Starts the jobs whose promised PEs are free, in order.
    fn settle_claims(&mut self) -> bool {
        let mut changed = false;
        while let Some(claim) = self.preemption.claims.first() {
            let (job, awaits) = (claim.job, !claim.victims.is_empty());
            self.withhold_from(Some(job));
            let Space { partition: Partition { matrix, queue }, ledger, .. } = self;
            let placed = queue.get(job).is_some_and(|request| ledger.place_now(matrix, request));
            if placed {
                queue.remove(job);
            } else if awaits {
                break;
            }
            // Without remaining victims, its PEs were given to another job. The job waits as
            // before.
            self.preemption.claims.remove(0);
            self.count_promises();
            changed = true;
        }
        changed
    }

    /// Lets jobs that may preempt others go before them. Jobs that no waiting job precedes come
    /// first, so that no job starts only to be stopped at once.
    fn serve_preemptors(&mut self) -> bool {
        let depths = depths(self.partition.queue.iter());
        let deepest = depths.values().max().copied().unwrap_or(0);
        let mut changed = false;
        // Each turn but the last takes a job out of the queue or makes a job due.
        for _ in 0..=self.partition.queue.len() {
            let served = (0..=deepest).filter(|depth| self.serve_those(*depth, &depths)).count();
            if served == 0 {
                break;
            }
            changed = true;
        }
        changed
    }

    /// Serves the jobs of a depth. A job is served only if it precedes all jobs ahead of it that
    /// lack room on the same nodes.
    fn serve_those(&mut self, depth: usize, depths: &BTreeMap<QosId, usize>) -> bool {
        let waiting: Vec<JobId> = self.partition.queue.iter().map(|request| request.id).collect();
        let mut vain = InVain::default();
        let mut changed = false;
        for job in waiting {
            let Some(request) = self.partition.queue.get(job) else { continue };
            let pool = self.book().pool_of(request);
            if self.ledger.is_due(job) || matches!(pool, Pool::Before(_)) {
                continue;
            }
            let request = request.clone();
            let turn = request.qos().is_some_and(|qos| depths.get(&qos) == Some(&depth));
            let first = turn && vain.is_under(pool, &request);
            self.enter(pool);
            if first && self.serve(&request) {
                changed = true;
            } else {
                vain.add(pool, &request);
            }
        }
        self.enter(Pool::Common);
        changed
    }

    /// Starts a job that may preempt others, or has others make room for it. False if it would not
    /// fit even then.
    fn serve(&mut self, request: &JobRequest) -> bool {
        let job = request.id;
        self.withhold_from(Some(job));
        self.count_promises();
        // A job that may preempt others does not wait for jobs that have outlived their estimates.
        let idle = !self.counts(request) || request.procs <= self.idle_pes();
        let fits = idle && self.candidate(job).is_some_and(|candidate| candidate.fits());
        if fits && (self.start(job) || self.ledger.is_due(job)) {
            return true;
        }
        let Some(victims) = self.victims_for(request) else { return false };
        self.make_room(request, victims);
        true
    }

    fn make_room(&mut self, request: &JobRequest, victims: Vec<Victim>) {
        let by = request.id;
        let mut awaited = BTreeSet::new();
        for Victim { job, mode, .. } in victims {
            match self.parking_for(job).filter(|_| mode == PreemptMode::Suspend) {
                Some(row) => self.park(job, row),
                None => {
                    awaited.insert(job);
                    self.ledger.ends_now(job);
                    self.preemption.ending.insert(job);
                }
            }
            self.ledger.act(Action::Preempt { job, mode, by });
        }
        self.withhold_from(Some(by));
        self.count_promises();
        if awaited.is_empty() && (self.start(by) || self.ledger.is_due(by)) {
            return;
        }
        let pes = if self.counts(request) { request.procs } else { u32::MAX };
        self.preemption.claims.push(Claim { job: by, pes, victims: awaited });
        self.count_promises();
    }

    /// Whether counting PEs is enough to decide whether a job fits. Among reservations, PEs are not
    /// all alike.
    fn counts(&self, request: &JobRequest) -> bool {
        request.is_plain() && !self.has_reservations()
    }

    /// The jobs that must make room for a job, no more than needed. `None` if the job would not fit
    /// even without all of them.
    fn victims_for(&self, request: &JobRequest) -> Option<Vec<Victim>> {
        let candidates = self.candidates_for(request);
        if self.counts(request) {
            let idle = self.idle_pes();
            return enough(candidates, |chosen| {
                let gained: u32 = chosen.iter().map(|victim| victim.pes).sum();
                idle + gained >= request.procs
            });
        }
        if !self.preemption.claims.is_empty() {
            return None;
        }
        let kept = self.kept_from(Some(request));
        enough(candidates, |chosen| {
            let mut trial = self.partition.matrix.clone();
            for Victim { job, mode, .. } in chosen {
                let row = parking(&trial, *job).filter(|_| *mode == PreemptMode::Suspend);
                match row {
                    Some(row) => {
                        trial.shift(*job, row);
                    }
                    None => {
                        trial.release(*job);
                    }
                }
            }
            trial.withhold(ROW, &kept);
            self.ledger.close_for(&mut trial, request);
            fits_row(&trial, request)
        })
    }

    /// The running jobs that may make room, in the order in which they are chosen.
    fn candidates_for(&self, request: &JobRequest) -> Vec<Victim> {
        let matrix = &self.partition.matrix;
        let machine = matrix.machine();
        let kept = self.kept_from(Some(request));
        let kept: BTreeSet<Pe> = kept.iter().flat_map(ColumnSet::columns).collect();
        // Columns that only suspended jobs could get are not a gain.
        let gain = |columns: &ColumnSet| {
            let gained = |pe: &Pe| machine.is_usable(*pe) && !kept.contains(pe);
            columns.columns().filter(gained).count() as u32
        };
        let mut ordered = BTreeMap::new();
        for job in matrix.jobs().filter(|job| matrix.home(*job) == Some(ROW)) {
            let Some(running) = matrix.request(job) else { continue };
            let mode = running.precedence.as_ref().and_then(|precedence| precedence.mode);
            let (Some(mode), Some(columns)) = (mode, matrix.columns(job)) else { continue };
            let may = request.is_over(running) && !self.preemption.ending.contains(&job);
            let can = mode != PreemptMode::Suspend || self.parking_for(job).is_some();
            if may && can {
                let began = self.preemption.began.get(&job).copied().unwrap_or(0);
                let place = (running.priority, std::cmp::Reverse(began), job);
                ordered.insert(place, Victim { job, mode, pes: gain(columns) });
            }
        }
        ordered.into_values().take(MAX_VICTIMS).collect()
    }

    /// The jobs that are being ended for a waiting job.
    pub(super) fn ending_for(&self, job: JobId) -> impl Iterator<Item = JobId> + '_ {
        let claim = self.preemption.claims.iter().find(|claim| claim.job == job);
        claim.into_iter().flat_map(|claim| claim.victims.iter().copied())
    }

    /// The suspended jobs whose idle columns are kept from a waiting job.
    pub(super) fn kept_for<'a>(
        &'a self,
        request: &'a JobRequest,
    ) -> impl Iterator<Item = JobId> + 'a {
        self.kept(Some(request)).map(|one| one.job)
    }

    /// The matrix as if nothing were kept for suspended jobs. `None` when no job is suspended.
    pub(super) fn without_kept(&self) -> Option<Matrix> {
        if self.preemption.suspended.is_empty() {
            return None;
        }
        let mut matrix = self.partition.matrix.clone();
        matrix.withhold(ROW, &[]);
        Some(matrix)
    }

    /// The PEs that no job holds and that are not promised.
    pub(super) fn idle_pes(&self) -> u32 {
        self.ledger.idle_pes(&self.partition.matrix)
    }

    fn parking_for(&self, job: JobId) -> Option<Row> {
        parking(&self.partition.matrix, job)
    }

    fn park(&mut self, job: JobId, row: Row) {
        let end = self.ledger.holding(job).map_or(self.now(), |(end, _)| end);
        if self.partition.matrix.shift(job, row) {
            self.ledger.released(job);
            let left = end.since(self.now());
            self.preemption.suspended.push(Suspended { job, left });
        }
    }

    /// Resumes suspended jobs whose columns are free, unless PEs are promised to a job. Jobs that
    /// no other precedes come first. No job resumes on columns for which a preceding job waits.
    fn resume(&mut self) -> bool {
        if self.preemption.suspended.is_empty() || !self.preemption.claims.is_empty() {
            return false;
        }
        self.partition.matrix.withhold(ROW, &[]);
        let before = self.preemption.suspended.len();
        let matrix = &self.partition.matrix;
        let depths = depths(requests_of(matrix, &self.preemption.suspended));
        let depth = |one: &Suspended| {
            let own = matrix.request(one.job).and_then(|request| request.precedence.as_ref());
            own.and_then(|own| depths.get(&own.qos)).copied().unwrap_or(0)
        };
        // Among equals, the order of their suspension counts.
        let mut ordered = self.preemption.suspended.clone();
        ordered.sort_by_key(depth);
        for one in ordered {
            let Suspended { job, left } = one;
            let may = self.ledger.may_go_on(&self.partition.matrix, job, left);
            if may && !self.is_waited_for(job) && self.partition.matrix.shift(job, ROW) {
                self.preemption.suspended.retain(|other| other.job != job);
                self.ledger.go_on(&self.partition.matrix, job, left);
                self.ledger.act(Action::Resume { job });
            }
        }
        self.preemption.suspended.len() < before
    }

    /// Whether a suspended job that precedes this job and may resume holds some of its columns.
    fn is_waited_for(&self, job: JobId) -> bool {
        self.over_and_stopped(job).next().is_some()
    }

    /// The suspended jobs that precede a job, may resume, and hold some of its columns.
    pub(super) fn over_and_stopped(&self, job: JobId) -> impl Iterator<Item = JobId> + '_ {
        let matrix = &self.partition.matrix;
        let own = matrix.request(job).zip(matrix.columns(job));
        let over = move |other: &&Suspended| {
            own.zip(matrix.request(other.job).zip(matrix.columns(other.job))).is_some_and(
                |((own, columns), (request, theirs))| {
                    request.is_over(own)
                        && columns.meets(theirs)
                        && self.ledger.may_go_on(matrix, other.job, other.left)
                },
            )
        };
        self.preemption.suspended.iter().filter(over).map(|other| other.job)
    }

    /// The time left of a suspended job's estimate. `None` when the job is not suspended.
    pub(super) fn left_of(&self, job: JobId) -> Option<Duration> {
        self.preemption.suspended.iter().find(|one| one.job == job).map(|one| one.left)
    }

    /// The jobs to which PEs are promised, in order.
    pub(super) fn promised_jobs(&self) -> impl Iterator<Item = JobId> + '_ {
        self.preemption.claims.iter().map(|claim| claim.job)
    }

    /// Withholds the idle columns of suspended jobs. If `job` is given, leaves out the columns of
    /// jobs that it may preempt.
    fn withhold_from(&mut self, job: Option<JobId>) {
        if self.preemption.suspended.is_empty() {
            return;
        }
        let kept = self.kept_from(job.and_then(|job| self.partition.queue.get(job)));
        self.partition.matrix.withhold(ROW, &kept);
    }

    /// The suspended jobs whose columns are withheld from a job: those that it may not preempt.
    /// Without a job, all suspended jobs. Jobs that cannot resume because of reservations are left
    /// out.
    fn kept<'a>(
        &'a self,
        request: Option<&'a JobRequest>,
    ) -> impl Iterator<Item = &'a Suspended> + 'a {
        let matrix = &self.partition.matrix;
        self.preemption.suspended.iter().filter(move |one| {
            let stopped = matrix.request(one.job);
            !request.zip(stopped).is_some_and(|(request, stopped)| request.is_over(stopped))
                && self.ledger.may_go_on(matrix, one.job, one.left)
        })
    }

    /// The columns of these jobs.
    fn kept_from(&self, request: Option<&JobRequest>) -> Vec<ColumnSet> {
        let columns = |one: &Suspended| self.partition.matrix.columns(one.job).cloned();
        self.kept(request).filter_map(columns).collect()
    }
}

/// The requests of suspended jobs.
fn requests_of<'a>(
    matrix: &'a Matrix,
    suspended: &'a [Suspended],
) -> impl Iterator<Item = &'a JobRequest> {
    suspended.iter().filter_map(|one| matrix.request(one.job))
}

/// The first row in which a suspended job can keep its columns.
fn parking(matrix: &Matrix, job: JobId) -> Option<Row> {
    (1..PARKING_ROWS).map(Row).find(|row| matrix.could_shift(job, *row))
}
