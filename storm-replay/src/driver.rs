//! Virtual time: the next event, and the policy's answers.
//!
//! The order of events reproduces the published values (A2a of the policy reference). At one time,
//! all submissions come first, in the order of the log. Then come the ends of jobs in the order of
//! their starts, with one pass of the policy for each event. The end of a slice comes last. A start
//! takes no time.

use storm_sched::metrics::Capacity;
use storm_sched::{
    Action, ColumnSet, Coscheduling, Event, EventError, JobId, Placement, Policy, SchedTime,
};

use crate::continuous::Continuous;
use crate::running::{Instant, Running, Started};
use crate::schedule::{Busy, Schedule, Start};
use crate::sliced::Sliced;
use crate::{JobIndex, Trace, TraceJob};

/// Events between two calls of the watcher.
const WATCHED_EVENTS: u64 = 4_096;
/// The most slices in a row in which no job runs although jobs hold processors. Beyond it, the
/// policy has forgotten them.
const MAX_IDLE_EDGES: u64 = 1_000_000;
/// The latest time of a replay: 292 years, half of the range of [`SchedTime`], so that no sum of
/// times overflows.
const END_OF_TIME: SchedTime = SchedTime::from_nanos(u64::MAX / 2);

/// When the policy decides on the events of one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EventOrder {
    /// The policy decides after each event, as for the published values.
    #[default]
    PerEvent,
    /// The policy decides when all events of the instant are in.
    Batched,
}

/// The settings of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplayOptions {
    /// The events of one instant.
    pub order: EventOrder,
    /// Keep the processors of each job: [`Start::columns`].
    pub keep_columns: bool,
    /// Keep how many processors were busy when: [`Schedule::busy`].
    pub keep_busy: bool,
}

/// A callback that gets the number of ended jobs now and then.
pub type Watch<'a> = &'a mut dyn FnMut(u64);

/// Why a replay did not come to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The policy refused an event.
    #[error("the policy refused an event of job {number} of the log")]
    Refused {
        /// The job's number in the log.
        number: i64,
        /// Why.
        #[source]
        why: EventError,
    },
    /// The policy started a job that was not waiting.
    #[error("the policy started job {job}, which did not wait")]
    NotWaiting {
        /// The policy's number of the job.
        job: JobId,
    },
    /// Jobs wait or hold processors, and nothing will happen any more.
    #[error("{waiting} jobs wait and {running} hold processors, and none of them would ever run")]
    Stuck {
        /// Jobs that wait.
        waiting: u64,
        /// Jobs that hold processors.
        running: u64,
    },
    /// Jobs share processors as the operating systems of the nodes see fit.
    #[error(
        "under {policy} jobs run at once on the same processors, and how long each then takes is \
         not in the log"
    )]
    NotModelled {
        /// The policy.
        policy: &'static str,
    },
    /// The queue lasts longer than time.
    #[error("after 292 years {left} jobs have not ended: is the machine far too small?")]
    EndOfTime {
        /// Jobs.
        left: u64,
    },
}

/// Replays a trace on an idle machine under a policy, to the end of the last job.
///
/// # Errors
/// If the last job never ends, or the policy lets the jobs of several rows run at once.
pub fn replay(
    trace: &Trace,
    policy: &mut dyn Policy,
    options: ReplayOptions,
    watch: Watch<'_>,
) -> Result<Schedule, ReplayError> {
    if policy.coscheduling() != Coscheduling::Strobed {
        return Err(ReplayError::NotModelled { policy: policy.name() });
    }
    match policy.quantum() {
        Some(quantum) => Driver::new(trace, policy, options, Sliced::new(quantum)).run(watch),
        None => Driver::new(trace, policy, options, Continuous::default()).run(watch),
    }
}

struct Driver<'a, R> {
    trace: &'a Trace,
    policy: &'a mut dyn Policy,
    options: ReplayOptions,
    running: R,
    capacity: Capacity,
    now: SchedTime,
    /// Jobs submitted.
    submitted: u32,
    /// Jobs ended.
    ended: u64,
    /// For each job, its position among the starts.
    start_of: Vec<Option<u32>>,
    starts: Vec<Start>,
    busy: Vec<Busy>,
}

impl<'a, R: Running> Driver<'a, R> {
    fn new(
        trace: &'a Trace,
        policy: &'a mut dyn Policy,
        options: ReplayOptions,
        running: R,
    ) -> Self {
        let jobs = trace.jobs().len();
        Self {
            trace,
            policy,
            options,
            running,
            capacity: Capacity::new(trace.pes()),
            now: trace.jobs().first().map_or(SchedTime::ZERO, |job| job.submit),
            submitted: 0,
            ended: 0,
            start_of: vec![None; jobs],
            starts: Vec::with_capacity(jobs),
            busy: Vec::new(),
        }
    }

    fn run(mut self, watch: Watch<'_>) -> Result<Schedule, ReplayError> {
        let jobs = self.trace.jobs().len() as u64;
        let mut idle_edges = 0;
        let mut ended = Vec::new();
        let mut watched = 0;
        while self.ended < jobs {
            let submit = self.next_submit();
            let wake = self.next_wake();
            let Some(next) = submit.into_iter().chain(self.running.next()).chain(wake).min() else {
                return Err(self.stuck());
            };
            if next > END_OF_TIME {
                return Err(ReplayError::EndOfTime { left: jobs - self.ended });
            }
            let (busy_pes, before) = (self.running.busy_pes(), self.mark());
            self.capacity.passes(busy_pes, next.since(self.now), 1);
            self.running.pass(next);
            self.now = next;
            self.keep_busy(before);
            let others = self.instant(&mut ended)? | self.woken(wake)?;
            let edge = self.running.edge(next);
            if edge {
                self.tell(Event::SliceEdge, None, true)?;
            }
            idle_edges = if others || busy_pes > 0 { 0 } else { idle_edges + 1 };
            if idle_edges > MAX_IDLE_EDGES {
                return Err(self.stuck());
            }
            // The next event from outside.
            let next_submit = self.next_submit().into_iter().chain(self.next_wake()).min();
            let before = self.mark();
            let policy = &mut *self.policy;
            let instant = Instant { now: next, edge, others, policy, next_submit };
            self.now = self.running.settle(instant, &mut self.capacity);
            self.keep_busy(before);
            if self.ended >= watched + WATCHED_EVENTS {
                watched = self.ended;
                watch(watched);
            }
        }
        Ok(Schedule {
            starts: self.starts,
            capacity: self.capacity,
            busy: self.busy,
            job_events: 2 * jobs,
            time_sharing: self.running.time_sharing(),
        })
    }

    /// The time, and the busy capacity until then.
    fn mark(&self) -> (SchedTime, u128) {
        (self.now, self.capacity.busy_pe_ns())
    }

    /// Records the busy processors since a mark, if they are to be recorded.
    fn keep_busy(&mut self, (from, before_pe_ns): (SchedTime, u128)) {
        if !self.options.keep_busy || from == self.now {
            return;
        }
        let pe_ns = self.capacity.busy_pe_ns() - before_pe_ns;
        self.busy.push(Busy { from, to: self.now, pe_ns });
    }

    /// Processes the submissions and ends of this instant. Returns whether there were any.
    fn instant(&mut self, ended: &mut Vec<JobIndex>) -> Result<bool, ReplayError> {
        let mut any = false;
        let mut batch = Vec::new();
        while self.next_submit().is_some_and(|submit| submit <= self.now) {
            let job = JobIndex(self.submitted);
            self.submitted += 1;
            any = true;
            let Some(request) = self.trace.request(job) else { break };
            self.capacity.enters(request.procs);
            self.take(Event::Submit(request), job, &mut batch)?;
        }
        ended.clear();
        self.running.ended(self.now, ended);
        for &job in ended.iter() {
            any = true;
            self.ended += 1;
            let started = self.start_of[job.position()].map(|start| start as usize);
            if let Some(start) = started.and_then(|start| self.starts.get_mut(start)) {
                start.end = self.now;
            }
            self.take(Event::Finished(job.id()), job, &mut batch)?;
        }
        if !batch.is_empty() {
            let actions = self.policy.handle_together(self.now, batch);
            self.carry_out(actions, None, false)?;
        }
        Ok(any)
    }

    /// Passes an event to the policy, or keeps it for later.
    fn take(
        &mut self,
        event: Event,
        job: JobIndex,
        batch: &mut Vec<Event>,
    ) -> Result<(), ReplayError> {
        match self.options.order {
            EventOrder::PerEvent => self.tell(event, Some(job), false),
            EventOrder::Batched => {
                batch.push(event);
                Ok(())
            }
        }
    }

    fn tell(
        &mut self,
        event: Event,
        job: Option<JobIndex>,
        on_edge: bool,
    ) -> Result<(), ReplayError> {
        let actions = self.policy.handle(self.now, event);
        self.carry_out(actions, job, on_edge)
    }

    fn carry_out(
        &mut self,
        actions: Vec<Action>,
        of: Option<JobIndex>,
        on_edge: bool,
    ) -> Result<(), ReplayError> {
        for action in actions {
            match action {
                Action::Start { job, placement, .. } => {
                    let columns = self.options.keep_columns.then(|| placement.columns());
                    self.start(job, columns)?;
                }
                Action::Activate { .. } => self.running.activated(on_edge),
                // A move takes no time.
                Action::Migrate { job, placement, .. } => self.moved(job, &placement),
                // The driver asks for the running jobs once the policy is done.
                Action::SetRows { .. } => {}
                // No job of a trace has a precedence.
                Action::Preempt { .. } | Action::Resume { .. } => {}
                Action::Refused(why) => {
                    let number =
                        of.and_then(|job| self.trace.job(job)).map_or(-1, |job| job.number);
                    return Err(ReplayError::Refused { number, why });
                }
            }
        }
        Ok(())
    }

    fn start(&mut self, job: JobId, columns: Option<ColumnSet>) -> Result<(), ReplayError> {
        let not_waiting = ReplayError::NotWaiting { job };
        let Some(index) = JobIndex::of(job).filter(|index| index.0 < self.submitted) else {
            return Err(not_waiting);
        };
        let order = self.starts.len() as u32;
        let start_of = &mut self.start_of[index.position()];
        if start_of.is_some() {
            return Err(not_waiting);
        }
        *start_of = Some(order);
        // Every index below the number of submitted jobs is a job of the trace.
        let Some(&TraceJob { run, procs, .. }) = self.trace.job(index) else {
            return Err(not_waiting);
        };
        let (start, end) = (self.now, self.now);
        self.starts.push(Start { job: index, start, end, columns, moves: Vec::new() });
        self.capacity.leaves(procs);
        self.running.start(self.now, Started { job: index, order, run, procs });
        Ok(())
    }

    fn moved(&mut self, job: JobId, placement: &Placement) {
        if !self.options.keep_columns {
            return;
        }
        let start = JobIndex::of(job).and_then(|job| *self.start_of.get(job.position())?);
        if let Some(start) = start.and_then(|start| self.starts.get_mut(start as usize)) {
            start.moves.push((self.now, placement.columns()));
        }
    }

    /// When the policy wants to be woken next.
    fn next_wake(&self) -> Option<SchedTime> {
        self.policy.wake_at().filter(|at| *at > self.now)
    }

    /// Wakes the policy if its time has come. Returns whether it was woken.
    fn woken(&mut self, wake: Option<SchedTime>) -> Result<bool, ReplayError> {
        let due = wake.is_some_and(|at| at <= self.now);
        if due {
            self.tell(Event::Wake, None, false)?;
        }
        Ok(due)
    }

    fn next_submit(&self) -> Option<SchedTime> {
        self.trace.job(JobIndex(self.submitted)).map(|job| job.submit)
    }

    fn stuck(&self) -> ReplayError {
        let waiting = self.capacity.waiting_jobs();
        ReplayError::Stuck { waiting, running: self.starts.len() as u64 - self.ended }
    }
}
