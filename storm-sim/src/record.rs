//! The record of a simulated machine. Every fact passes through it to the invariants,
//! to the times of the jobs and strobes, and to the trace.

use crate::fact::strobe_of;
use crate::invariants::{self, Broken, Invariant, Violation};
use crate::{ChromeTrace, Fact, JobTimes};
use hdrhistogram::Histogram;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::{Poll, Waker};
use storm_mm::job::JobEventKind;
use storm_nm::modelled::HostAct;
use storm_primitives::sim::SimRuntime;
use storm_primitives::{Instant, NodeId, Runtime};
use storm_rm::message::Strobe;
use storm_rm::{JobId, JobIncarnation, PartitionId};

/// Significant digits of the histograms.
const DIGITS: u8 = 3;
/// The most strobes with skews that are measured at the same time. If there are more, the oldest is
/// counted with the nodes that have obeyed it so far.
const STROBES: usize = 64;

/// The record of one machine.
pub(crate) struct Record {
    runtime: SimRuntime,
    checks: bool,
    nodes: u32,
    state: RefCell<State>,
    /// The number of changes so far. `waiting` has the tasks that wait for the next change.
    news: Cell<u64>,
    waiting: RefCell<Vec<Waker>>,
    facts: Cell<u64>,
}

struct State {
    invariants: Vec<Box<dyn Invariant>>,
    violation: Option<Violation>,
    jobs: BTreeMap<JobId, JobTimes>,
    runs: BTreeMap<JobIncarnation, JobId>,
    unfinished: usize,
    strobes: BTreeMap<(PartitionId, u64), Skew>,
    switch_ns: Histogram<u64>,
    skew_ns: Histogram<u64>,
    trace: Option<ChromeTrace>,
}

/// From the first to the last node that obeyed one strobe.
struct Skew {
    first: Instant,
    last: Instant,
    nodes: u32,
}

/// The duties of a record in addition to remembering the jobs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordConfig {
    pub(crate) nodes: u32,
    pub(crate) pes: u32,
    pub(crate) checks: bool,
    pub(crate) traces: bool,
}

impl Record {
    pub(crate) fn new(runtime: SimRuntime, config: RecordConfig) -> Record {
        let RecordConfig { nodes, pes, checks, traces } = config;
        // Refused only for more than 5 digits.
        let histogram = || Histogram::new(DIGITS).expect("a constant that is accepted");
        let state = State {
            invariants: if checks { invariants::all(pes) } else { Vec::new() },
            violation: None,
            jobs: BTreeMap::new(),
            runs: BTreeMap::new(),
            unfinished: 0,
            strobes: BTreeMap::new(),
            switch_ns: histogram(),
            skew_ns: histogram(),
            trace: traces.then(|| ChromeTrace::new(nodes)),
        };
        Record {
            runtime,
            checks,
            nodes,
            state: RefCell::new(state),
            news: Cell::new(0),
            waiting: RefCell::default(),
            facts: Cell::new(0),
        }
    }

    /// Whether the invariants are checked.
    pub(crate) fn is_checking(&self) -> bool {
        self.checks
    }

    /// Takes note of a fact.
    pub(crate) fn note(&self, fact: Fact<'_>) {
        let now = self.runtime.now();
        self.facts.set(self.facts.get() + 1);
        let state = &mut *self.state.borrow_mut();
        state.check(now, &fact);
        if let Some(trace) = &mut state.trace {
            trace.note(now, &fact);
        }
        let important = match &fact {
            Fact::Journal(job, kind) => {
                state.job_event(now, *job, kind);
                true
            }
            Fact::Host(_, HostAct::Launch { job, .. }) => {
                if let Some(times) = state.jobs.get_mut(&job.step.job) {
                    times.launched.get_or_insert(now);
                }
                false
            }
            Fact::Host(_, HostAct::Classified { job, ranks }) => {
                if let Some(times) = state.jobs.get_mut(&job.step.job) {
                    times.classes.extend(ranks.iter().map(|told| (told.rank, told.class)));
                }
                false
            }
            Fact::Host(_, act) => {
                if let Some(strobe) = strobe_of(act) {
                    state.strobe(now, strobe, self.nodes);
                }
                false
            }
            Fact::Terminated(incarnation) => {
                let job = state.runs.get(incarnation);
                if let Some(times) = job.and_then(|job| state.jobs.get_mut(job)) {
                    times.terminated.get_or_insert(now);
                }
                true
            }
            Fact::ManagerDown => {
                state.strobes.clear();
                true
            }
            Fact::Acknowledged(_)
            | Fact::NodeBack(_)
            | Fact::ManagerUp
            | Fact::Compared(_)
            | Fact::NodeDown(_)
            | Fact::NodeUp(_)
            | Fact::Inflicted(..)
            | Fact::NodeManagerDown(_)
            | Fact::NodeManagerLate(_)
            | Fact::Configured(_)
            | Fact::Over => false,
        };
        if important || state.violation.is_some() {
            self.ring();
        }
    }

    /// Notes a failure that no invariant finds.
    pub(crate) fn fail(&self, what: &'static str, how: String) {
        let violation = Violation { invariant: what, at: self.runtime.now(), how: Broken(how) };
        self.state.borrow_mut().violation.get_or_insert(violation);
        self.ring();
    }

    fn ring(&self) {
        self.news.set(self.news.get() + 1);
        self.waiting.take().into_iter().for_each(Waker::wake);
    }

    /// Waits until the state of a job has changed, or an invariant was violated.
    pub(crate) async fn changed(&self) {
        let seen = self.news.get();
        poll_fn(|cx| {
            if self.news.get() != seen {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// The first violation.
    pub(crate) fn violation(&self) -> Option<Violation> {
        self.state.borrow().violation.clone()
    }

    /// Jobs that have not ended.
    pub(crate) fn unfinished(&self) -> usize {
        self.state.borrow().unfinished
    }

    /// Facts noted so far.
    pub(crate) fn facts(&self) -> u64 {
        self.facts.get()
    }

    pub(crate) fn job(&self, job: JobId) -> Option<JobTimes> {
        self.state.borrow().jobs.get(&job).cloned()
    }

    pub(crate) fn jobs(&self) -> BTreeMap<JobId, JobTimes> {
        self.state.borrow().jobs.clone()
    }

    /// Nanoseconds from the issue of a strobe to its switch on each node.
    pub(crate) fn switch_ns(&self) -> Histogram<u64> {
        self.state.borrow().switch_ns.clone()
    }

    /// Nanoseconds from the first to the last node that obeyed each strobe.
    pub(crate) fn skew_ns(&self) -> Histogram<u64> {
        let state = &mut *self.state.borrow_mut();
        while let Some((_, skew)) = state.strobes.pop_first() {
            skew.count(&mut state.skew_ns);
        }
        state.skew_ns.clone()
    }

    /// The trace, if one is kept.
    pub(crate) fn take_trace(&self) -> Option<ChromeTrace> {
        let mut trace = self.state.borrow_mut().trace.take()?;
        trace.close(self.runtime.now());
        Some(trace)
    }
}

impl State {
    fn check(&mut self, at: Instant, fact: &Fact<'_>) {
        for invariant in &mut self.invariants {
            if let Err(how) = invariant.note(fact)
                && self.violation.is_none()
            {
                self.violation = Some(Violation { invariant: invariant.name(), at, how });
            }
        }
    }

    fn job_event(&mut self, now: Instant, job: JobId, kind: &JobEventKind) {
        if let JobEventKind::Submitted { spec, .. } = kind {
            self.unfinished += 1;
            self.jobs.insert(job, JobTimes::submitted(spec.name.clone(), spec.procs, now));
            return;
        }
        let Some(times) = self.jobs.get_mut(&job) else { return };
        match kind {
            JobEventKind::Moved { row } => times.row = Some(*row),
            // No scenario submits an array, and the other events change nothing that is measured.
            JobEventKind::Submitted { .. }
            | JobEventKind::ArraySubmitted { .. }
            | JobEventKind::Held { .. }
            | JobEventKind::Released { .. }
            | JobEventKind::DependencyEnded { .. }
            | JobEventKind::DependencyNoted { .. }
            | JobEventKind::Ran { .. }
            | JobEventKind::Suspended { .. }
            | JobEventKind::Resumed { .. }
            | JobEventKind::OnElements { .. }
            | JobEventKind::PartOver { .. }
            | JobEventKind::FirstOver { .. }
            | JobEventKind::SignalledEarly { .. }
            | JobEventKind::StoppedBy { .. }
            | JobEventKind::ContinuedBy { .. }
            | JobEventKind::Changed { .. }
            | JobEventKind::Step { .. }
            | JobEventKind::UnderPolicy { .. }
            | JobEventKind::InReservation { .. } => {}
            JobEventKind::Ending { cause } => times.ending = Some(cause.to_string()),
            JobEventKind::Placed { incarnation, ranks, row, node_list } => {
                self.runs.insert(*incarnation, job);
                times.placed = Some(now);
                times.incarnation = Some(*incarnation);
                (times.row, times.nodes) = (Some(*row), ranks.len());
                times.node_list.clone_from(node_list);
            }
            JobEventKind::Started { breakdown } => {
                times.started = Some(now);
                times.breakdown = Some(*breakdown);
            }
            JobEventKind::Ended { outcome, .. } => {
                self.unfinished = self.unfinished.saturating_sub(1);
                times.ended = Some(now);
                times.state = Some(outcome.state);
                times.reason.clone_from(&outcome.reason);
            }
            JobEventKind::Requeued { .. } => times.queued_again(),
        }
    }

    fn strobe(&mut self, now: Instant, strobe: &Strobe, nodes: u32) {
        // The histogram grows with its values: recording cannot fail.
        let _ = self.switch_ns.record(now.as_nanos().saturating_sub(strobe.issued_ns));
        let key = (strobe.partition, strobe.number);
        let skew = self.strobes.entry(key).or_insert(Skew { first: now, last: now, nodes: 0 });
        skew.last = now;
        skew.nodes += 1;
        if skew.nodes == nodes {
            if let Some(skew) = self.strobes.remove(&key) {
                skew.count(&mut self.skew_ns);
            }
        } else if self.strobes.len() > STROBES
            && let Some((_, skew)) = self.strobes.pop_first()
        {
            skew.count(&mut self.skew_ns);
        }
    }
}

impl Skew {
    fn count(&self, histogram: &mut Histogram<u64>) {
        // The histogram grows with its values: recording cannot fail.
        let _ = histogram.record((self.last - self.first).as_nanos() as u64);
    }
}

/// The node that a fact is about, for the trace.
pub(crate) fn strobe_fact<'a>(fact: &Fact<'a>) -> Option<(NodeId, &'a Strobe)> {
    match fact {
        Fact::Host(node, act) => strobe_of(act).map(|strobe| (*node, strobe)),
        _ => None,
    }
}
