//! The steps of a job's place, as the result of their events.

use super::step_event::{EndedStep, StepEvent};
use super::{EndCause, PartEnd};
use jiff::Timestamp;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::NodeId;
use storm_rm::message::NodeRanks;
use storm_rm::{JobIncarnation, StepAsk, StepSize, StepSpec};

/// The number of ended steps of a job that are remembered, in the record and in the journal, apart
/// from those that ended within [`ENDED_STAY`]. Then the one that ended first is forgotten.
pub const ENDED_STEPS: usize = 1_000;
/// How long an ended step is remembered at least: a command whose connection broke asks for its
/// step again within this time, and must not get another.
pub const ENDED_STAY: Duration = Duration::from_secs(70);

/// The longest name of a program that is remembered: as long as a file's may be on Linux.
const NAME_CHARS: usize = 255;

/// The steps of the present run, apart from the first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepRecords {
    next: u32,
    live: BTreeMap<u32, StepRecord>,
    /// Ended steps in the order of their ends, with the times of these events.
    ended: VecDeque<(Timestamp, u32, EndedStep)>,
    /// The numbers of all these steps.
    asks: BTreeMap<StepAsk, u32>,
}

/// A step that is not over.
#[derive(Clone, Debug, PartialEq)]
pub struct StepRecord {
    /// Its run.
    pub run: JobIncarnation,
    /// The number by which its client finds it.
    pub ask: StepAsk,
    /// The elements and the memory that it has.
    pub size: StepSize,
    /// The program, with its surroundings.
    pub spec: Rc<StepSpec>,
    /// Its ranks on every node.
    pub ranks: Vec<NodeRanks>,
    /// When it began.
    pub began: Timestamp,
    /// When all its ranks executed.
    pub started: Option<Timestamp>,
    /// Why its processes are being ended.
    pub ending: Option<EndCause>,
    /// The nodes that are lost and whose parts were over before, and how these ended.
    pub parts_over: BTreeMap<NodeId, PartEnd>,
}

impl StepRecords {
    /// The number of the next step.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// The steps that are not over, by number.
    pub fn live(&self) -> impl Iterator<Item = (u32, &StepRecord)> {
        self.live.iter().map(|(number, step)| (*number, step))
    }

    /// A step that is not over.
    pub fn get(&self, number: u32) -> Option<&StepRecord> {
        self.live.get(&number)
    }

    /// The steps that are over and remembered.
    pub fn ended(&self) -> impl DoubleEndedIterator<Item = (u32, &EndedStep)> {
        self.ended.iter().map(|(_, number, step)| (*number, step))
    }

    /// A step that is over and remembered.
    pub fn ended_step(&self, number: u32) -> Option<&EndedStep> {
        let ended = self.ended.iter().rev().find(|(_, known, _)| *known == number);
        ended.map(|(_, _, step)| step)
    }

    /// The step that was asked for by this number.
    pub fn asked_by(&self, ask: StepAsk) -> Option<u32> {
        self.asks.get(&ask).copied()
    }

    /// Applies an event of a step.
    pub(super) fn apply(&mut self, at: Timestamp, number: u32, event: &StepEvent) {
        match event {
            StepEvent::Began { run, ask, size, spec, ranks } => {
                self.next = self.next.max(number.saturating_add(1));
                let (spec, ranks) = (spec.clone(), ranks.clone());
                let (run, ask, size) = (*run, *ask, *size);
                let (began, started, ending) = (at, None, None);
                let parts_over = BTreeMap::new();
                let step =
                    StepRecord { run, ask, size, spec, ranks, began, started, ending, parts_over };
                self.live.insert(number, step);
                self.asks.insert(ask, number);
            }
            StepEvent::Started => {
                if let Some(step) = self.live.get_mut(&number) {
                    step.started = Some(at);
                }
            }
            StepEvent::Ending { cause } => {
                if let Some(step) = self.live.get_mut(&number) {
                    step.ending = Some(cause.clone());
                }
            }
            StepEvent::PartOver { node, end } => {
                if let Some(step) = self.live.get_mut(&number) {
                    step.parts_over.insert(*node, end.clone());
                }
            }
            StepEvent::Ended { next, step, .. } => {
                self.next = self.next.max(*next);
                self.live.remove(&number);
                self.asks.insert(step.ask, number);
                self.ended.push_back((at, number, (**step).clone()));
                while self.ended.front().is_some_and(|(then, ..)| goes(self.ended.len(), *then, at))
                    && let Some((_, _, step)) = self.ended.pop_front()
                {
                    self.asks.remove(&step.ask);
                }
            }
        }
    }
}

/// Whether the first of so many ended steps is forgotten, which ended at `then`.
pub(crate) fn goes(steps: usize, then: Timestamp, now: Timestamp) -> bool {
    // A clock that was set back says nothing.
    let since = Duration::try_from(now.duration_since(then)).unwrap_or_default();
    steps > ENDED_STEPS && since > ENDED_STAY
}

impl StepRecord {
    /// The name of its program, as its user called it.
    pub fn name(&self) -> String {
        let called = self.spec.argv.first().map(|word| word.to_string_lossy().into_owned());
        let called = called.unwrap_or_default();
        let name = called.rsplit('/').next().unwrap_or_default();
        name.chars().take(NAME_CHARS).collect()
    }

    /// The number of its processes.
    pub fn procs(&self) -> u32 {
        self.ranks.iter().map(|share| share.count).sum()
    }
}
