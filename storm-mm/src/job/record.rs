//! One job: what its events made of it.

use super::{EndCause, JobEvent, JobEventKind, Outcome};
use crate::api::{JobState, LaunchBreakdown, LogEntry};
use jiff::Timestamp;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::NodeSet;
use storm_rm::message::{NodeRanks, RankExit};
use storm_rm::{JobId, JobIncarnation, JobSpec, Row};

/// Where a job is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It waits for processing elements.
    Pending,
    /// It has them; its files are on their way or its ranks are being started.
    Starting,
    /// All its ranks execute.
    Running,
    /// Its processes are being ended.
    Ending(EndCause),
    /// It is over.
    Ended(Outcome),
}

/// A job. Changes only by [`apply`](Self::apply).
#[derive(Clone, Debug, PartialEq)]
pub struct JobRecord {
    /// Its number.
    pub id: JobId,
    /// What was asked for.
    pub spec: Rc<JobSpec>,
    /// The name of its partition.
    pub partition: String,
    /// Where it is in its life.
    pub phase: Phase,
    /// The present or latest run, numbered over the runs of all jobs; 0 before the
    /// first.
    pub incarnation: JobIncarnation,
    /// How often it was placed.
    pub runs: u32,
    /// Its ranks on every node, once placed.
    pub ranks: Vec<NodeRanks>,
    /// Its row, once placed.
    pub row: Option<Row>,
    /// Its nodes by name, once placed.
    pub node_list: String,
    /// Those of its last run, once it is to run again.
    pub former_nodes: NodeSet,
    /// When it was submitted.
    pub submitted: Timestamp,
    /// When its ranks started.
    pub started: Option<Timestamp>,
    /// How long it had run when the journal was told last; of a job with a time limit in
    /// a partition whose time is shared.
    pub ran: Duration,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// Where the time of its launch went.
    pub breakdown: Option<LaunchBreakdown>,
    /// How its ranks ended.
    pub exits: Vec<RankExit>,
    /// What happened, in order.
    pub log: Vec<LogEntry>,
}

impl JobRecord {
    /// The record that its first event makes, if it is a submission.
    pub fn from_first(id: JobId, event: &JobEvent) -> Option<JobRecord> {
        let JobEventKind::Submitted { spec, partition } = &event.kind else { return None };
        let mut record = JobRecord {
            id,
            spec: spec.clone(),
            partition: partition.clone(),
            phase: Phase::Pending,
            incarnation: JobIncarnation(0),
            runs: 0,
            ranks: Vec::new(),
            row: None,
            node_list: String::new(),
            former_nodes: NodeSet::new(),
            submitted: event.at,
            started: None,
            ran: Duration::ZERO,
            ended: None,
            breakdown: None,
            exits: Vec::new(),
            log: Vec::new(),
        };
        record.note(event, "submitted", format!("waits for partition {partition}"));
        Some(record)
    }

    /// Applies a later event.
    pub fn apply(&mut self, event: &JobEvent) {
        match &event.kind {
            JobEventKind::Submitted { .. } | JobEventKind::NodesDrained { .. } => {}
            JobEventKind::Placed { incarnation, ranks, row, node_list } => {
                self.phase = Phase::Starting;
                self.incarnation = *incarnation;
                self.runs += 1;
                self.ranks.clone_from(ranks);
                self.row = Some(*row);
                self.node_list.clone_from(node_list);
                self.former_nodes = NodeSet::new();
                self.note(event, "placed", format!("on {node_list}, row {}", row.0));
            }
            JobEventKind::Started { breakdown } => {
                self.phase = Phase::Running;
                self.started = Some(event.at);
                self.breakdown = Some(*breakdown);
                self.note(event, "started", format!("in {:.1} ms", breakdown.total_ms));
            }
            JobEventKind::Ending { cause } => {
                self.phase = Phase::Ending(cause.clone());
                self.note(event, "ending", cause.to_string());
            }
            JobEventKind::Ended { outcome, exits } => {
                self.ended = Some(event.at);
                self.exits.clone_from(exits);
                let reason = outcome.reason.as_deref().unwrap_or("all ranks ended");
                let text = format!("{}, exit {}: {reason}", outcome.state, outcome.exit_code);
                self.note(event, "ended", text);
                self.phase = Phase::Ended(outcome.clone());
            }
            JobEventKind::Requeued { cause } => {
                self.phase = Phase::Pending;
                self.former_nodes = self.ranks.iter().map(|share| share.node).collect();
                self.ranks.clear();
                self.row = None;
                self.node_list.clear();
                self.started = None;
                self.ran = Duration::ZERO;
                self.breakdown = None;
                self.note(event, "requeued", cause.to_string());
            }
            JobEventKind::Ran { time } => self.ran = *time,
            JobEventKind::Moved { row } => self.row = Some(*row),
        }
    }

    /// The state as users see it.
    pub fn state(&self) -> JobState {
        match &self.phase {
            Phase::Pending | Phase::Starting => JobState::Pending,
            Phase::Running | Phase::Ending(_) => JobState::Running,
            Phase::Ended(outcome) => outcome.state,
        }
    }

    fn note(&mut self, event: &JobEvent, name: &str, text: String) {
        self.log.push(LogEntry { time: event.at, event: name.to_owned(), text });
    }
}
