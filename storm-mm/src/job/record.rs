//! The record of one job: the result of its events.

use super::{
    DependencyNote, EndCause, Hold, JobEvent, JobEventKind, Outcome, PartEnd, StepEvent,
    StepRecords, Terms,
};
use crate::api::{LaunchBreakdown, LogEntry, Service};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{NodeId, NodeSet};
use storm_rm::message::{NodeRanks, RankExit};
use storm_rm::{ArraySpec, ArrayTask, FirstStep, JobId, JobIncarnation, JobSpec, Row};
use storm_sched::ReservationId;

/// Where a job is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The job waits for processing elements.
    Pending,
    /// The job has its elements; its files are on their way or its ranks are being started.
    Starting,
    /// All its ranks execute.
    Running,
    /// The job's processes are being ended.
    Ending(EndCause),
    /// The job is over.
    Ended(Outcome),
}

/// A job. Changes only by [`apply`](Self::apply).
#[derive(Clone, Debug, PartialEq)]
pub struct JobRecord {
    /// The job's number.
    pub id: JobId,
    /// The request; the jobs of an array share one request.
    pub spec: Rc<JobSpec>,
    /// The job's place in its array.
    pub task: Option<ArrayTask>,
    /// The hold that keeps it from starting until it is released.
    pub hold: Option<Hold>,
    /// The jobs that it depends on and that have ended: whether they were COMPLETED.
    pub ended_before: BTreeMap<JobId, bool>,
    /// The jobs that it depends on and that have begun, or ended without beginning: when.
    pub begun_before: BTreeMap<JobId, Timestamp>,
    /// For each array of which the job with the same index has ended: whether that job was
    /// COMPLETED.
    pub corresponding_ended: BTreeMap<JobId, bool>,
    /// When its first run began.
    pub begun: Option<Timestamp>,
    /// The name of the job's partition.
    pub partition: String,
    /// The job's phase.
    pub phase: Phase,
    /// The present or latest run, numbered over the runs of all jobs; 0 before the first run.
    pub incarnation: JobIncarnation,
    /// How often the job was placed.
    pub runs: u32,
    /// The processes for which every node has room, once placed. [`step_ranks`](Self::step_ranks)
    /// are those that start.
    pub ranks: Vec<NodeRanks>,
    /// The job's row, once placed.
    pub row: Option<Row>,
    /// The nodes of its present run that are lost and whose parts were over before, and how these
    /// ended.
    pub parts_over: BTreeMap<NodeId, PartEnd>,
    /// Whether the first step of its present run is over while others are being ended.
    pub first_over: bool,
    /// The steps of its present or latest run, apart from the first, if it started any.
    pub steps: Option<Box<StepRecords>>,
    /// The job's nodes by name, once placed.
    pub node_list: String,
    /// The nodes of its last run, if the job waits to run again and those nodes may still hold the
    /// job.
    pub former_nodes: NodeSet,
    /// When the job was submitted.
    pub submitted: Timestamp,
    /// When its present or latest run was placed.
    pub placed: Option<Timestamp>,
    /// When its ranks started.
    pub started: Option<Timestamp>,
    /// How long it had run at the journal's latest entry about its run time.
    pub ran: Duration,
    /// The time of that entry; the run's start if there is none since.
    pub ran_at: Option<Timestamp>,
    /// The job's elements of its nodes, if the journal has the elements: ranges without their ends.
    pub elements: Option<Vec<(NodeId, u32, u32)>>,
    /// The job for which its processes are suspended.
    pub suspended_for: Option<JobId>,
    /// The administrator who has stopped its processes.
    pub stopped_by: Option<u32>,
    /// Whether it waits again, ahead of the jobs that have not begun: another job got its
    /// processing elements, or its launch was cut off.
    pub comes_first: bool,
    /// How many launches in a row were cut off by the end of a Node Manager.
    pub cut_launches: u32,
    /// Whether the present run was sent the signal ahead of its time limit.
    pub signalled_early: bool,
    /// When the job ended.
    pub ended: Option<Timestamp>,
    /// The parts of its launch's time.
    pub breakdown: Option<LaunchBreakdown>,
    /// How its ranks ended.
    pub exits: Vec<RankExit>,
    /// The account that is charged, and its urgency.
    pub service: Rc<Service>,
    /// The policy under which it ended, if its partition is configured with another.
    pub sched: Option<String>,
    /// The reservation that it was submitted to, which may be over, by number and name.
    pub reservation: Option<(ReservationId, String)>,
    /// The events of its life, in order.
    pub log: Vec<LogEntry>,
}

/// The most entries of a job's log: users can cause entries as often as they like.
const MAX_LOG: usize = 128;
/// The first entries, which always stay.
const LOG_BEGIN: usize = 8;

impl JobRecord {
    /// The records that a first event makes: one for a submission, all jobs for that of an array,
    /// none for another event.
    pub fn from_first(id: JobId, event: &JobEvent) -> Vec<JobRecord> {
        let (spec, partition, service, is_array) = match &event.kind {
            JobEventKind::Submitted { spec, partition, service } => {
                (spec, partition, service, false)
            }
            JobEventKind::ArraySubmitted { spec, partition, service } => {
                (spec, partition, service, true)
            }
            JobEventKind::Placed { .. }
            | JobEventKind::Started { .. }
            | JobEventKind::Ending { .. }
            | JobEventKind::Ended { .. }
            | JobEventKind::Requeued { .. }
            | JobEventKind::Ran { .. }
            | JobEventKind::Held { .. }
            | JobEventKind::Released { .. }
            | JobEventKind::DependencyEnded { .. }
            | JobEventKind::DependencyNoted { .. }
            | JobEventKind::Moved { .. }
            | JobEventKind::InReservation { .. }
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
            | JobEventKind::UnderPolicy { .. } => return Vec::new(),
        };
        let made = |id, task| JobRecord {
            service: service.clone(),
            ..JobRecord::submitted(event, id, task, spec, partition)
        };
        if !is_array {
            return vec![made(id, None)];
        }
        let indices = spec.needs.array.as_ref().map(|array| array.indices(ArraySpec::MAX_TASKS));
        let indices = indices.and_then(Result::ok).unwrap_or_default();
        let task = |(offset, index)| {
            // A damaged journal may have the highest number there is.
            let task = JobId(id.0.checked_add(offset)?);
            Some(made(task, Some(ArrayTask { array: id, index })))
        };
        (1..).zip(indices).filter_map(task).collect()
    }

    fn submitted(
        event: &JobEvent,
        id: JobId,
        task: Option<ArrayTask>,
        spec: &Rc<JobSpec>,
        partition: &str,
    ) -> JobRecord {
        let mut record = JobRecord {
            id,
            spec: spec.clone(),
            task,
            hold: spec.needs.hold.then_some(Hold::User),
            ended_before: BTreeMap::new(),
            begun_before: BTreeMap::new(),
            corresponding_ended: BTreeMap::new(),
            begun: None,
            partition: partition.to_owned(),
            phase: Phase::Pending,
            incarnation: JobIncarnation(0),
            runs: 0,
            ranks: Vec::new(),
            row: None,
            parts_over: BTreeMap::new(),
            first_over: false,
            steps: None,
            node_list: String::new(),
            former_nodes: NodeSet::new(),
            submitted: event.at,
            placed: None,
            started: None,
            ran: Duration::ZERO,
            ran_at: None,
            elements: None,
            suspended_for: None,
            stopped_by: None,
            comes_first: false,
            cut_launches: 0,
            signalled_early: false,
            ended: None,
            breakdown: None,
            exits: Vec::new(),
            service: Rc::default(),
            reservation: None,
            sched: None,
            log: Vec::new(),
        };
        let of = task.map(|task| format!("as {task}, ")).unwrap_or_default();
        record.note(event, "submitted", format!("{of}waits for partition {partition}"));
        record
    }

    /// Applies a later event.
    pub fn apply(&mut self, event: &JobEvent) {
        match &event.kind {
            JobEventKind::Submitted { .. } | JobEventKind::ArraySubmitted { .. } => {}
            JobEventKind::Placed { incarnation, ranks, row, node_list } => {
                (self.incarnation, self.row) = (*incarnation, Some(*row));
                self.place(event, ranks, node_list);
            }
            JobEventKind::Started { breakdown } => self.start(event, *breakdown),
            JobEventKind::Ending { cause } => {
                self.phase = Phase::Ending(cause.clone());
                self.note(event, "ending", cause.to_string());
            }
            JobEventKind::Ended { outcome, exits, ran } => {
                (self.ran, self.suspended_for, self.stopped_by) = (*ran, None, None);
                self.exits.clone_from(exits);
                self.end(event, outcome);
            }
            JobEventKind::Requeued { cause } => self.wait_again(event, cause),
            JobEventKind::Ran { time } => {
                let counts = !self.is_stopped();
                (self.ran, self.ran_at) = (*time, counts.then_some(event.at));
            }
            JobEventKind::SignalledEarly { signal } => {
                self.signalled_early = true;
                self.note(event, "signalled", self.told_early_signal(*signal));
            }
            JobEventKind::InReservation { id, name } => {
                self.reservation = Some((*id, name.clone()));
                self.note(event, "reserved", format!("waits for reservation {name}"));
            }
            JobEventKind::Moved { row } => {
                self.row = Some(*row);
                self.note(event, "moved", format!("to row {}", row.0));
            }
            JobEventKind::OnElements { elements } => self.elements = Some(elements.clone()),
            JobEventKind::UnderPolicy { sched } => self.sched = Some(sched.clone()),
            JobEventKind::PartOver { node, end } => {
                self.parts_over.insert(*node, end.clone());
            }
            JobEventKind::FirstOver { exits } => self.first_is_over(event, exits),
            JobEventKind::Step { number, event: of_step } => self.step(event, *number, of_step),
            JobEventKind::Suspended { by, time } => {
                self.suspended_for = Some(*by);
                self.stops(event, *time, format!("for job {by}"));
            }
            JobEventKind::Resumed { time } => {
                self.suspended_for = None;
                self.goes_on(event, *time, format!("on {}", self.node_list));
            }
            JobEventKind::StoppedBy { uid, time } => {
                self.stopped_by = Some(*uid);
                self.stops(event, *time, format!("by user {uid}"));
            }
            JobEventKind::ContinuedBy { uid, time } => {
                self.stopped_by = None;
                self.goes_on(event, *time, format!("by user {uid}"));
            }
            JobEventKind::Changed { uid, terms, what, waits_anew } => {
                self.change(terms, *waits_anew);
                self.note(event, "changed", format!("by user {uid}: {what}"));
            }
            JobEventKind::Held { hold } => self.held(event, *hold),
            JobEventKind::Released { uid } => self.released(event, *uid),
            JobEventKind::DependencyEnded { on, completed } => {
                self.dependency_ended(event, *on, *completed);
            }
            JobEventKind::DependencyNoted { on, note } => self.dependency_noted(event, *on, *note),
        }
    }

    fn place(&mut self, event: &JobEvent, ranks: &[NodeRanks], node_list: &str) {
        self.ranks = ranks.to_vec();
        self.node_list = node_list.to_owned();
        self.begin_run(event.at);
        let row = self.row.unwrap_or_default();
        self.note(event, "placed", format!("on {node_list}, row {}", row.0));
    }

    fn change(&mut self, terms: &Terms, waits_anew: bool) {
        if waits_anew {
            self.forget_dependencies();
        }
        terms.put(self);
    }

    fn start(&mut self, event: &JobEvent, breakdown: LaunchBreakdown) {
        self.phase = Phase::Running;
        self.cut_launches = 0;
        self.started = Some(event.at);
        self.begun.get_or_insert(event.at);
        self.ran_at = (!self.is_stopped()).then_some(event.at);
        self.breakdown = Some(breakdown);
        self.note(event, "started", format!("in {:.1} ms", breakdown.total_ms));
    }

    fn released(&mut self, event: &JobEvent, uid: u32) {
        self.hold = None;
        self.note(event, "released", format!("by user {uid}"));
    }

    fn dependency_ended(&mut self, event: &JobEvent, on: JobId, completed: bool) {
        self.ended_before.insert(on, completed);
        self.note(event, "dependency", format!("job {on} {}", how_ended(completed)));
    }

    fn step(&mut self, event: &JobEvent, number: u32, of_step: &StepEvent) {
        self.steps.get_or_insert_default().apply(event.at, number, of_step);
    }

    /// All parts of the first step are over, and its nodes need not return.
    fn first_is_over(&mut self, event: &JobEvent, exits: &[RankExit]) {
        self.first_over = true;
        for share in self.step_ranks().collect::<Vec<_>>() {
            let exits = exits.iter().filter(|exit| share.has(exit.rank)).cloned().collect();
            self.parts_over.insert(share.node, PartEnd { exits, fences: Vec::new() });
        }
        self.note(event, "steps", "the first step is over, and the others are ended".to_owned());
    }

    /// Its processes are stopped.
    fn stops(&mut self, event: &JobEvent, ran: Duration, why: String) {
        (self.ran, self.ran_at) = (ran, None);
        self.note(event, "suspended", why);
    }

    /// A cause for which its processes were stopped is over. Its time counts from now on, unless
    /// the job has not started or there is another cause.
    fn goes_on(&mut self, event: &JobEvent, ran: Duration, why: String) {
        let counts = self.started.is_some() && !self.is_stopped();
        (self.ran, self.ran_at) = (ran, counts.then_some(event.at));
        self.note(event, "resumed", why);
    }

    fn told_early_signal(&self, signal: i32) -> String {
        let asked = self.spec.early_signal;
        let whom = match (self.spec.first, asked.is_some_and(|asked| asked.script_only)) {
            (FirstStep::Script, true) => "its script",
            (FirstStep::Script, false) => "its steps: without B: it is not for the script",
            (FirstStep::Program, false) => "its processes",
            (FirstStep::Program, true) => "nothing, since it has no script",
        };
        format!("signal {signal} ahead of the time limit, to {whom}")
    }

    fn end(&mut self, event: &JobEvent, outcome: &Outcome) {
        self.ended = Some(event.at);
        let reason = outcome.reason.as_deref().unwrap_or("all ranks ended");
        let text = format!("{}, exit {}: {reason}", outcome.state, outcome.exit_code);
        self.note(event, "ended", text);
        self.phase = Phase::Ended(outcome.clone());
        self.parts_over.clear();
        self.forget_dependencies();
    }

    /// A run begins, and the place of the last run is out of date.
    fn begin_run(&mut self, at: Timestamp) {
        self.phase = Phase::Starting;
        self.placed = Some(at);
        self.runs += 1;
        self.former_nodes = NodeSet::new();
        self.comes_first = false;
        self.elements = None;
        self.signalled_early = false;
        self.steps = None;
        self.first_over = false;
        self.parts_over.clear();
    }

    /// A run is over, and the job waits for the next run.
    fn wait_again(&mut self, event: &JobEvent, cause: &EndCause) {
        self.phase = Phase::Pending;
        (self.suspended_for, self.stopped_by) = (None, None);
        let sequel = cause.sequel();
        if let Some(launches) = sequel.launches_cut(self.started.is_some()) {
            self.cut_launches = launches;
        }
        self.comes_first = sequel.comes_first();
        self.former_nodes = match sequel.has_ended_everywhere(self.spec.requeue) {
            true => NodeSet::new(),
            // Steps may have run on any node of the place.
            false if self.steps.is_some() => self.nodes(),
            false => self.step_nodes(),
        };
        self.ranks.clear();
        self.parts_over.clear();
        self.elements = None;
        self.row = None;
        self.node_list.clear();
        self.started = None;
        self.ran = Duration::ZERO;
        self.ran_at = None;
        self.breakdown = None;
        self.note(event, "requeued", cause.to_string());
    }

    fn held(&mut self, event: &JobEvent, hold: Hold) {
        self.hold = Some(hold);
        let by = match hold {
            Hold::User => "by its user",
            Hold::Admin => "by an administrator",
        };
        self.note(event, "held", by.to_owned());
    }

    fn dependency_noted(&mut self, event: &JobEvent, on: JobId, note: DependencyNote) {
        match note {
            DependencyNote::Begun { at } => {
                self.begun_before.insert(on, at);
                self.note(event, "dependency", format!("job {on} has begun, or has ended without"));
            }
            DependencyNote::CorrespondingEnded { completed } => {
                self.corresponding_ended.insert(on, completed);
                let (how, index) = (how_ended(completed), self.task.map_or(0, |task| task.index));
                self.note(event, "dependency", format!("job {on}_{index} {how}"));
            }
        }
    }

    /// Frees the memory of dependencies, which may be thousands.
    fn forget_dependencies(&mut self) {
        self.ended_before.clear();
        self.begun_before.clear();
        self.corresponding_ended.clear();
    }

    fn note(&mut self, event: &JobEvent, name: &str, text: String) {
        if self.log.len() >= MAX_LOG {
            // The beginning and the latest entries stay; an entry notes that the entries between
            // were left out.
            let left_out = self.log.drain(LOG_BEGIN..LOG_BEGIN + MAX_LOG / 2).next_back();
            let time = left_out.map_or(event.at, |entry| entry.time);
            let text = "entries up to here are left out".to_owned();
            self.log.insert(LOG_BEGIN, LogEntry { time, event: "log".to_owned(), text });
        }
        self.log.push(LogEntry { time: event.at, event: name.to_owned(), text });
    }
}

fn how_ended(completed: bool) -> &'static str {
    if completed { "is completed" } else { "has ended, not completed" }
}
