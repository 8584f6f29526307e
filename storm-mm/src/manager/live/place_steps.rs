//! The steps that a job starts in its place: they wait for room, run, and end.

use super::LiveJobs;
use super::layout::Layout;
use super::output::Piece;
use super::place::LivePlace;
use super::place_ledger::{PlaceLedger, Room};
use super::progress::{Launch, Unexpected};
use super::step::LiveStep;
use crate::job::PartEnd;
use crate::manager::effect::{StageOutcome, Watch};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Instant, NodeId, NodeSet};
use storm_rm::message::{NodeRanks, RankExit};
use storm_rm::{
    JobId, JobIncarnation, JobSlot, PartitionId, Rank, RankClass, StepAsk, StepRef, StepSize,
    StepSpec,
};

/// A step that has its elements and its place in the arrays of flags.
pub(in crate::manager) struct Granted {
    pub(in crate::manager) run: JobIncarnation,
    pub(in crate::manager) ask: StepAsk,
    pub(in crate::manager) size: StepSize,
    pub(in crate::manager) spec: Rc<StepSpec>,
    pub(in crate::manager) ranks: Vec<NodeRanks>,
}

/// A further step that a former manager started.
pub(in crate::manager) struct RestoredStep {
    pub(in crate::manager) number: u32,
    pub(in crate::manager) run: JobIncarnation,
    pub(in crate::manager) slot: JobSlot,
    pub(in crate::manager) ask: StepAsk,
    pub(in crate::manager) size: StepSize,
    pub(in crate::manager) ranks: Vec<NodeRanks>,
    /// How its parts on lost nodes ended that were over before.
    pub(in crate::manager) parts_over: BTreeMap<NodeId, PartEnd>,
}

impl RestoredStep {
    /// The nodes with a part that is not over.
    pub(super) fn nodes_at_work(&self) -> impl Iterator<Item = NodeId> {
        let nodes = self.ranks.iter().map(|share| share.node);
        nodes.filter(|node| !self.parts_over.contains_key(node))
    }
}

/// The lack of a waiting step, if it is not elements.
pub(in crate::manager) enum StepObstacle {
    /// The place has its most steps, so many.
    MostSteps(usize),
    /// These nodes of the place are away.
    Away(NodeSet),
    /// All places in the arrays of flags are taken.
    Flags,
}

impl LivePlace {
    pub(in crate::manager) fn ledger(&self) -> &PlaceLedger {
        &self.ledger
    }

    /// A further step.
    pub(in crate::manager) fn step(&self, number: u32) -> Option<&LiveStep> {
        self.further.get(&number)
    }

    /// The numbers of the further steps.
    pub(in crate::manager) fn steps(&self) -> Vec<u32> {
        self.further.keys().copied().collect()
    }

    /// Whether a step that was asked for by this number waits.
    pub(in crate::manager) fn awaits_step(&self, ask: StepAsk) -> bool {
        self.waiting.contains_key(&ask)
    }

    /// The programs of the steps that wait.
    pub(in crate::manager) fn waiting_specs(&self) -> impl Iterator<Item = &StepSpec> {
        self.waiting.values().map(|spec| &**spec)
    }

    /// Whether further steps are not over, or wait.
    pub(in crate::manager) fn has_steps(&self) -> bool {
        !self.further.is_empty() || !self.waiting.is_empty()
    }

    #[cfg(test)]
    pub(in crate::manager) fn spare(&self) -> Option<storm_rm::JobSlot> {
        self.spare
    }

    /// Whether steps wait.
    pub(in crate::manager) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The step that would be granted now.
    #[cfg(test)]
    pub(in crate::manager) fn fits_now(&self, is_up: impl Fn(NodeId) -> bool) -> Option<StepAsk> {
        if self.has_most_steps() {
            return None;
        }
        let is_there = |node| is_up(node) && !self.unheard().contains(node);
        self.ledger.clone().grant_next(is_there).map(|(ask, ..)| ask)
    }

    /// Whether the place has as many steps as it may have at once.
    fn has_most_steps(&self) -> bool {
        self.further.len() >= self.ledger.steps_at_once()
    }

    /// The further step of this run.
    pub(in crate::manager) fn step_of_run(&self, run: JobIncarnation) -> Option<u32> {
        let steps = self.further.iter();
        steps.filter(|(_, step)| step.run() == run).map(|(number, _)| *number).next()
    }

    /// The further steps in this state of their launch.
    pub(in crate::manager) fn steps_at(&self, launch: Launch) -> Vec<u32> {
        let steps = self.further.iter();
        let steps = steps.filter(|(_, step)| step.progress.launch() == launch);
        steps.map(|(number, _)| *number).collect()
    }

    /// The nodes that hold a part of a step and can receive commands.
    pub(in crate::manager) fn holders_of(&self, step: &LiveStep) -> NodeSet {
        step.parts.nodes().difference(step.parts.over()).difference(self.unheard())
    }
}

impl LiveStep {
    pub(in crate::manager) fn launch(&self) -> Launch {
        self.progress.launch()
    }

    pub(in crate::manager) fn nodes(&self) -> &NodeSet {
        self.parts.nodes()
    }

    pub(in crate::manager) fn has_part_on(&self, node: NodeId) -> bool {
        self.parts.has(node)
    }

    /// For a step that a former manager placed: the nodes that returned with their parts.
    pub(in crate::manager) fn inherited(&self) -> Option<&NodeSet> {
        self.parts.inherited()
    }

    pub(in crate::manager) fn is_over(&self) -> bool {
        self.parts.are_over()
    }

    /// The facts that the driver needs to watch its flags.
    pub(in crate::manager) fn watch(&self, step: StepRef) -> Watch {
        let nodes = self.parts.with_flags();
        Watch { step, incarnation: self.run(), slot: self.slot(), nodes }
    }
}

/// The transitions of further steps.
impl LiveJobs {
    /// The further step of this run.
    pub(in crate::manager) fn step_of_run(&self, job: JobId, run: JobIncarnation) -> Option<u32> {
        self.get(job)?.step_of_run(run)
    }

    /// A further step of a job.
    pub(in crate::manager) fn step(&self, job: JobId, number: u32) -> Option<&LiveStep> {
        self.get(job)?.step(number)
    }

    /// The jobs of which steps wait for a place in the arrays of flags, by their numbers. A job is
    /// among them again if it lacks a place again.
    pub(in crate::manager) fn take_step_waiters(&mut self) -> BTreeSet<JobId> {
        std::mem::take(&mut self.step_waiters)
    }

    /// The jobs of which steps wait, by their numbers.
    pub(in crate::manager) fn with_waiting_steps(
        &self,
    ) -> impl Iterator<Item = (JobId, &LivePlace)> {
        self.iter().filter(|(_, place)| place.has_waiting())
    }

    /// Nodes of a job's place have told of their memory. `steps` are the steps that are not over.
    pub(in crate::manager) fn recount<'a>(
        &mut self,
        job: JobId,
        rooms: Vec<Room>,
        steps: impl Iterator<Item = (StepAsk, StepSize, &'a [NodeRanks])>,
    ) {
        if let Some(place) = self.jobs.get_mut(&job) {
            place.ledger.with_rooms(rooms, steps);
        }
    }

    /// Further steps that have their files and wait for an edge, of a partition's jobs.
    pub(in crate::manager) fn staged_steps(&self, partition: PartitionId) -> Vec<(JobId, u32)> {
        let steps = self.of(partition).flat_map(|(job, place)| {
            place.steps_at(Launch::Staged).into_iter().map(move |number| (job, number))
        });
        steps.collect()
    }

    /// A step waits until it fits.
    pub(in crate::manager) fn wait_for_room(
        &mut self,
        job: JobId,
        (ask, size, layout): (StepAsk, StepSize, Layout),
        spec: Rc<StepSpec>,
    ) {
        if let Some(place) = self.jobs.get_mut(&job) {
            place.ledger.wait(ask, size, layout);
            place.waiting.insert(ask, spec);
        }
    }

    /// A step waits no longer. Returns whether it did.
    pub(in crate::manager) fn leave_step(&mut self, job: JobId, ask: StepAsk) -> bool {
        let Some(place) = self.jobs.get_mut(&job) else { return false };
        place.waiting.remove(&ask);
        place.ledger.leave(ask)
    }

    /// No step of a job waits any longer. Returns those that did.
    pub(in crate::manager) fn leave_steps(&mut self, job: JobId) -> Vec<StepAsk> {
        let Some(place) = self.jobs.get_mut(&job) else { return Vec::new() };
        place.waiting.clear();
        place.ledger.leave_all()
    }

    /// The first waiting step of a job that fits gets its elements and a place in the arrays of
    /// flags, and its launch begins under this number. `None` if none fits, or no place is free.
    pub(in crate::manager) fn grant_step(
        &mut self,
        now: Instant,
        (job, number): (JobId, u32),
        is_up: impl Fn(NodeId) -> bool,
    ) -> Option<Granted> {
        let place = self.jobs.get_mut(&job)?;
        if place.waiting.is_empty() || place.has_most_steps() {
            return None;
        }
        if place.spare.is_none() && self.slots.is_empty() {
            self.step_waiters.insert(job);
            return None;
        }
        let unheard = place.nodes.unheard().clone();
        let is_there = |node| is_up(node) && !unheard.contains(node);
        let (ask, size, ranks) = place.ledger.grant_next(is_there)?;
        let spec = place.waiting.remove(&ask)?;
        let slot = place.spare.take().or_else(|| self.slots.take())?;
        let run = JobIncarnation(self.next_run);
        self.next_run += 1;
        let nodes = ranks.iter().map(|share| share.node).collect();
        place.further.insert(number, LiveStep::placed(now, (run, slot), nodes));
        Some(Granted { run, ask, size, spec, ranks })
    }

    /// The files of a step are on its nodes.
    pub(in crate::manager) fn step_staged(
        &mut self,
        now: Instant,
        (job, number): (JobId, u32),
        stage: StageOutcome,
    ) {
        self.advance_step(job, number, |step| step.progress.staged(now, stage));
    }

    /// The launch of a step is issued.
    pub(in crate::manager) fn step_launched(&mut self, now: Instant, (job, number): (JobId, u32)) {
        let after = self.get(job).map_or(Duration::ZERO, |place| place.run_time(now));
        self.advance_step(job, number, |step| step.launched(now, after));
    }

    /// All ranks of a step execute. Returns whether they did not before.
    pub(in crate::manager) fn step_started(
        &mut self,
        now: Instant,
        (job, number): (JobId, u32),
    ) -> bool {
        let step = self.step_mut(job, number);
        step.is_some_and(|step| step.progress.started(now).is_ok())
    }

    /// All nodes of a step are back, and none was ordered to launch the step: its launch begins
    /// again.
    pub(in crate::manager) fn step_begins_again(
        &mut self,
        now: Instant,
        (job, number): (JobId, u32),
    ) {
        self.advance_step(job, number, |step| step.progress.begin_again(now));
    }

    /// All nodes of a step are back, and its ranks have executed before.
    pub(in crate::manager) fn step_resumed(&mut self, (job, number): (JobId, u32)) {
        self.advance_step(job, number, |step| step.progress.resumed());
    }

    /// The ranks of a node have ended in this way. Returns whether the node is the first.
    pub(in crate::manager) fn step_part_over(
        &mut self,
        (job, number): (JobId, u32),
        node: NodeId,
        exits: impl Iterator<Item = RankExit>,
    ) -> Option<bool> {
        Some(self.step_mut(job, number)?.part_over(node, exits))
    }

    /// A node is lost. Returns the steps whose part there was over, and that were not returned
    /// before.
    pub(in crate::manager) fn step_ends_forgotten_by(&mut self, node: NodeId) -> Vec<(JobId, u32)> {
        let steps = self.jobs.iter_mut().flat_map(|(job, place)| {
            place.further.iter_mut().map(|(number, step)| ((*job, *number), step))
        });
        steps.filter_map(|(name, step)| step.parts.forgets(node).then_some(name)).collect()
    }

    /// A client follows a step.
    pub(in crate::manager) fn step_has_client(&mut self, (job, number): (JobId, u32)) {
        if let Some(step) = self.step_mut(job, number) {
            step.set_client(true);
        }
    }

    /// No client follows a step any more. The step waits for one until its place has run for
    /// `patience` more.
    pub(in crate::manager) fn step_awaits_client(
        &mut self,
        now: Instant,
        (job, number): (JobId, u32),
        patience: Duration,
    ) {
        let Some(ran) = self.get(job).map(|place| place.run_time(now)) else { return };
        if let Some(step) = self.step_mut(job, number) {
            step.await_client(ran + patience);
        }
    }

    /// A step may run for as long as its place runs for `left` more.
    pub(in crate::manager) fn set_step_limit(
        &mut self,
        now: Instant,
        (job, number): (JobId, u32),
        left: Duration,
    ) {
        let Some(ran) = self.get(job).map(|place| place.run_time(now)) else { return };
        if let Some(step) = self.step_mut(job, number) {
            step.set_limit(ran + left);
        }
    }

    /// The reason why a waiting step has no room, apart from the elements that others have.
    pub(in crate::manager) fn step_obstacle(
        &self,
        job: JobId,
        ask: StepAsk,
        is_up: impl Fn(NodeId) -> bool,
    ) -> Option<StepObstacle> {
        let place = self.get(job)?;
        let is_away = |node: &NodeId| !is_up(*node) || place.unheard().contains(*node);
        let away: NodeSet = place.place_nodes().iter().filter(is_away).collect();
        if place.has_most_steps() {
            Some(StepObstacle::MostSteps(place.ledger.steps_at_once()))
        } else if !place.ledger.fits_if_all_were_there(ask) {
            None
        } else if !away.is_empty() {
            Some(StepObstacle::Away(away))
        } else if place.spare.is_none() && self.slots.is_empty() {
            Some(StepObstacle::Flags)
        } else {
            None
        }
    }

    /// Output of a step has arrived, of which a part may have arrived before. Returns the pieces
    /// to pass on. They do not wait for the start: a step whose launch is cut off is not done
    /// again.
    pub(in crate::manager) fn step_output(
        &mut self,
        (job, number): (JobId, u32),
        piece: Piece,
    ) -> Vec<Piece> {
        let step = self.step_mut(job, number);
        step.map(|step| step.output(piece, false)).unwrap_or_default()
    }

    /// A node is in a PMI barrier of a step. Returns the barrier's pairs once all nodes are in it.
    pub(in crate::manager) fn step_fence_arrived(
        &mut self,
        (job, number): (JobId, u32),
        sequence: u64,
        (node, puts): (NodeId, Vec<(String, String)>),
    ) -> Option<Vec<(String, String)>> {
        self.step_mut(job, number)?.fence_arrived(sequence, node, puts)
    }

    /// A rank of a step has ended without having finalized.
    pub(in crate::manager) fn step_rank_left(
        &mut self,
        (job, number): (JobId, u32),
        (node, rank): (NodeId, Rank),
    ) {
        if let Some(step) = self.step_mut(job, number) {
            step.rank_left(node, rank);
        }
    }

    /// The classes of some ranks of a step are reported.
    pub(in crate::manager) fn step_classes_told(
        &mut self,
        now: Instant,
        (job, number): (JobId, u32),
        told: impl Iterator<Item = RankClass>,
    ) {
        if let Some(step) = self.step_mut(job, number) {
            step.classes_told(now, told);
        }
    }

    /// A node has no ranks of a step any more, or never got its launch.
    pub(in crate::manager) fn step_part_gone(&mut self, (job, number): (JobId, u32), node: NodeId) {
        if let Some(step) = self.step_mut(job, number) {
            step.parts.lose(&NodeSet::single(node));
        }
    }

    /// A node has returned and had never received the launch of a step.
    pub(in crate::manager) fn step_lacks(&mut self, (job, number): (JobId, u32), node: NodeId) {
        if let Some(step) = self.step_mut(job, number) {
            step.parts.lack(node);
        }
    }

    /// The nodes that have returned and had never received the launch of a step, once.
    pub(in crate::manager) fn take_step_lacking(&mut self, (job, number): (JobId, u32)) -> NodeSet {
        let step = self.step_mut(job, number);
        step.map(|step| step.parts.take_lacking()).unwrap_or_default()
    }

    /// A step is to end. The parts that its nodes never got are over. Returns the nodes that must
    /// end theirs.
    pub(in crate::manager) fn begin_step_end(&mut self, (job, number): (JobId, u32)) -> NodeSet {
        let lacking = self.take_step_lacking((job, number));
        if let Some(step) = self.step_mut(job, number) {
            step.parts.lose(&lacking);
        }
        let place = self.get(job);
        let step = place.and_then(|place| Some(place.holders_of(place.step(number)?)));
        step.unwrap_or_default()
    }

    /// The elements of a step are free, though reports of its ranks' ends may be on their way.
    pub(in crate::manager) fn free_elements(&mut self, job: JobId, ask: StepAsk) {
        if let Some(place) = self.jobs.get_mut(&job) {
            place.ledger.end(ask);
        }
    }

    /// A step is over: its elements and its place in the arrays of flags are free.
    pub(in crate::manager) fn end_step(
        &mut self,
        (job, number): (JobId, u32),
        ask: StepAsk,
    ) -> Option<LiveStep> {
        let place = self.jobs.get_mut(&job)?;
        let step = place.further.remove(&number)?;
        place.ledger.end(ask);
        // The last one of a script keeps its place for the next.
        if place.lacks_spare() {
            place.spare = Some(step.slot());
        } else {
            self.slots.put_back(step.slot());
        }
        Some(step)
    }

    fn step_mut(&mut self, job: JobId, number: u32) -> Option<&mut LiveStep> {
        self.jobs.get_mut(&job)?.further.get_mut(&number)
    }

    fn advance_step(
        &mut self,
        job: JobId,
        number: u32,
        advance: impl FnOnce(&mut LiveStep) -> Result<(), Unexpected>,
    ) {
        if let Some(Err(unexpected)) = self.step_mut(job, number).map(advance) {
            tracing::error!(%job, number, %unexpected, "the manager took a step's launch out of turn");
        }
    }
}
