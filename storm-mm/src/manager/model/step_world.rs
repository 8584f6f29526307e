//! Further steps in the model's surroundings: their clients, and nodes that carry out orders about
//! them.

use super::invariants::check_all;
use super::world::{PartKey, USER, World, spec};
use crate::api::{ErrorCode, JobState, Peer};
use crate::job::{EndCause, StepRecords};
use crate::manager::{AskedStep, StageOutcome, StepOrder, StepOrderKind, StepRequest, Watch};
use storm_primitives::NodeId;
use storm_rm::message::{Command, ExitStatus};
use storm_rm::{JobId, JobIncarnation, Rank, StepAsk, StepLayout, StepRef, StepSize};

impl World {
    /// Asks for a step in the present run of a job.
    pub(super) fn ask_step(
        &mut self,
        job: JobId,
        ask: u64,
        size: StepSize,
    ) -> Result<AskedStep, ErrorCode> {
        self.ask_as(USER, job, (ask, size), false)
    }

    pub(super) fn ask_as(
        &mut self,
        peer: Peer,
        job: JobId,
        (ask, size): (u64, StepSize),
        shipped: bool,
    ) -> Result<AskedStep, ErrorCode> {
        let run = self.core.jobs.get(&job).map_or(JobIncarnation(0), |record| record.incarnation);
        let spec = spec(1, shipped, false).step;
        let (ask, layout) = (StepAsk(ask), StepLayout::default());
        let request = StepRequest { run, ask, size, layout, spec };
        let asked = self.act(|core, now| core.ask_for_step(now, peer, job, request));
        asked.map_err(|error| error.code)
    }

    /// Nodes carry out an order about a step.
    pub(super) fn order(&mut self, order: StepOrder) {
        let StepOrder { step: step @ StepRef { job, .. }, run, nodes, kind } = order;
        self.step_runs.insert(run);
        match kind {
            StepOrderKind::Stage { .. } => self.step_stages.push((job, run)),
            StepOrderKind::AbandonStaging => self.step_stages.retain(|stage| stage.1 != run),
            StepOrderKind::Launch(launch) => {
                let rows = self.core.live.get(job).map(|live| live.rows());
                for share in launch.ranks.iter().filter(|share| nodes.contains(share.node)) {
                    if !self.joined.contains(&share.node) {
                        continue;
                    }
                    let ranks = (0..share.count).map(|index| Rank(share.first.0 + index));
                    let part = (share.node, job, run);
                    self.faults.extend(self.losses.launched(part));
                    self.parts.insert(part, (ranks.collect(), false));
                    self.rows.extend(rows.map(|rows| (part, rows)));
                }
                let nodes = launch.ranks.iter().map(|share| share.node).collect();
                self.may_start(Watch { step, incarnation: run, slot: launch.slot, nodes });
            }
            StepOrderKind::Signal { signal } => {
                let command = Command::SignalJob { step, signal };
                self.signals.extend(nodes.iter().map(|node| (node, command.clone())));
            }
            StepOrderKind::Destroy => {
                let of_run = self
                    .parts
                    .iter_mut()
                    .filter(|((node, _, of), _)| *of == run && nodes.contains(*node));
                of_run.for_each(|(_, (_, doomed))| *doomed = true);
            }
            StepOrderKind::Release => {
                self.over.retain(|(node, _, of), _| *of != run || !nodes.contains(*node));
            }
        }
    }

    /// Nodes of the set had not received the launches of steps that were under way.
    pub(super) fn forget_starting_steps(&mut self, deaf: &impl Fn(NodeId) -> bool) {
        let first_runs = self.first_runs.clone();
        self.forget_steps(|(node, _, run)| {
            deaf(node) && first_runs.get(&node).is_some_and(|first| *first <= run)
        });
    }

    /// The keeper of a node had nothing yet of the steps that were being launched.
    pub(super) fn forget_starting_steps_of(&mut self, node: NodeId) {
        self.forget_steps(|part| part.0 == node);
    }

    /// Forgets these parts, if they are of steps that are being launched.
    fn forget_steps(&mut self, forgets: impl Fn(PartKey) -> bool) {
        let World { core, parts, .. } = self;
        parts.retain(|part, _| {
            let (_, job, run) = *part;
            let number = core.live.step_of_run(job, run);
            let known = number.and_then(|number| core.step_record((job, number)));
            let starts = known.is_some_and(|(_, step)| step.started.is_none());
            !(starts && forgets(*part))
        });
    }

    pub(super) fn step_staged(&mut self, index: usize, outcome: Result<StageOutcome, String>) {
        let (job, run) = self.step_stages.remove(index);
        self.act(|core, now| core.staged(now, job, run, outcome));
    }

    /// A user ends one step.
    pub(super) fn cancel_step(&mut self, job: JobId, number: u32) {
        self.act(|core, now| {
            core.end_step(now, (job, number), EndCause::Cancelled { uid: USER.uid });
            core.finish_if_over(now, job);
        });
    }

    /// All parts of a run end with this status.
    pub(super) fn end_run_of(&mut self, run: JobIncarnation, code: u8) {
        let parts: Vec<_> = self.parts.keys().filter(|part| part.2 == run).copied().collect();
        for part in parts {
            self.part_over(part, ExitStatus::Code(code));
            check_all(self);
        }
    }

    pub(super) fn steps_of(&self, job: JobId) -> StepRecords {
        self.record(job).steps.as_deref().cloned().unwrap_or_default()
    }

    pub(super) fn run_of(&self, job: JobId, number: u32) -> JobIncarnation {
        self.steps_of(job).get(number).expect("the step is not over").run
    }

    pub(super) fn ended_state(&self, job: JobId, number: u32) -> Option<JobState> {
        let steps = self.steps_of(job);
        let ended = steps.ended().find(|(ended, _)| *ended == number);
        ended.map(|(_, step)| step.outcome.state)
    }
}
