//! A job that holds processing elements: its place on the machine, and the steps in the place.

use super::output::Piece;
use super::place_ledger::{PlaceLedger, Room};
use super::place_nodes::{Left, Lost, PlaceNodes};
use super::place_steps::RestoredStep;
use super::progress::{Launch, Unexpected};
use super::step::LiveStep;
use super::time::RunTime;
use super::told_class::ToldClass;
use crate::job::PartEnd;
use crate::manager::effect::Watch;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Instant, NodeId, NodeSet};
use storm_rm::message::{NodeRanks, RankExit};
use storm_rm::{
    FirstStep, JobIncarnation, JobSlot, PartitionId, Rank, Row, RowSet, StepAsk, StepRef, StepSpec,
};
use storm_sched::Placement;

/// The place of a job on the machine.
#[derive(Clone, Debug)]
pub(in crate::manager) struct LivePlace {
    partition: PartitionId,
    matrix: InMatrix,
    pub(super) nodes: PlaceNodes,
    time: RunTime,
    /// The step with which the job ends. Its run is that of the place.
    pub(super) first: LiveStep,
    /// Whether the first step is a script, which starts further ones.
    is_script: bool,
    /// A place in the arrays of flags that a further step has next.
    pub(super) spare: Option<JobSlot>,
    /// The steps that the job has started in its place, by number.
    pub(super) further: BTreeMap<u32, LiveStep>,
    pub(super) ledger: PlaceLedger,
    /// Specifications of the steps that wait for room.
    pub(super) waiting: BTreeMap<StepAsk, Rc<StepSpec>>,
}

/// The place of a job in the matrix.
#[derive(Clone, Debug)]
struct InMatrix {
    /// The home row.
    row: Row,
    /// The rows that the job runs in.
    rows: RowSet,
    /// The elements, while the policy has the job.
    placement: Option<Placement>,
    /// Whether the policy was notified that the elements are free.
    released: bool,
    /// Whether an administrator has stopped the processes, whatever the policy orders.
    stopped: bool,
}

/// A job that this manager places.
pub(in crate::manager) struct Placed {
    pub(in crate::manager) incarnation: JobIncarnation,
    pub(in crate::manager) slot: JobSlot,
    pub(in crate::manager) first: FirstStep,
    /// The place in the arrays of flags for a further step.
    pub(in crate::manager) spare: Option<JobSlot>,
    pub(in crate::manager) partition: PartitionId,
    pub(in crate::manager) row: Row,
    pub(in crate::manager) rows: RowSet,
    pub(in crate::manager) placement: Placement,
    /// The nodes of its place, and those of them that start ranks.
    pub(in crate::manager) nodes: (NodeSet, NodeSet),
    /// The room in its place for further steps, node by node.
    pub(in crate::manager) rooms: Vec<Room>,
}

/// A job that a former manager placed.
pub(in crate::manager) struct Restored {
    pub(in crate::manager) incarnation: JobIncarnation,
    pub(in crate::manager) slot: JobSlot,
    pub(in crate::manager) first: FirstStep,
    pub(in crate::manager) partition: PartitionId,
    pub(in crate::manager) row: Row,
    pub(in crate::manager) rows: RowSet,
    /// The job's elements, if its partition has room for the job.
    pub(in crate::manager) placement: Option<Placement>,
    /// The nodes of its place, and those of them that start ranks.
    pub(in crate::manager) nodes: (NodeSet, NodeSet),
    /// Until when its nodes are waited for.
    pub(in crate::manager) expected: Instant,
    /// How the parts of lost nodes ended that were over before.
    pub(in crate::manager) parts_over: BTreeMap<NodeId, PartEnd>,
    pub(in crate::manager) ran: Duration,
    /// Whether an administrator has stopped it.
    pub(in crate::manager) stopped: bool,
    /// Whether its rows are active.
    pub(in crate::manager) active: bool,
    /// The room in its place for further steps, and those steps.
    pub(in crate::manager) rooms: Vec<Room>,
    pub(in crate::manager) steps: Vec<RestoredStep>,
}

impl LivePlace {
    /// The launch of a job begins.
    pub(super) fn placed(now: Instant, placed: Placed) -> LivePlace {
        let is_script = placed.first == FirstStep::Script;
        let Placed {
            incarnation, slot, spare, partition, row, rows, placement, nodes, rooms, ..
        } = placed;
        let (place, first) = nodes;
        LivePlace {
            partition,
            matrix: InMatrix {
                row,
                rows,
                placement: Some(placement),
                released: false,
                stopped: false,
            },
            nodes: PlaceNodes::placed(place),
            time: RunTime::default(),
            first: LiveStep::placed(now, (incarnation, slot), first),
            is_script,
            spare,
            further: BTreeMap::new(),
            ledger: PlaceLedger::new(rooms),
            waiting: BTreeMap::new(),
        }
    }

    /// A job continues under this manager. All its nodes must return, except those with no part of
    /// any step that is not over.
    pub(super) fn restored(now: Instant, restored: Restored) -> LivePlace {
        let Restored { incarnation, slot, partition, row, rows, placement, nodes, .. } = restored;
        let (place, first) = nodes;
        let over: NodeSet = restored.parts_over.keys().copied().collect();
        let at_work = restored.steps.iter().flat_map(RestoredStep::nodes_at_work);
        let gone = over.difference(&at_work.collect());
        let mut time = RunTime::stopped_after(restored.ran);
        let stopped = restored.stopped;
        time.set_active(now, restored.active && !stopped);
        let mut ledger = PlaceLedger::new(restored.rooms);
        let further = restored.steps.into_iter().map(|step| {
            ledger.restore(step.ask, &step.size, &step.ranks);
            let nodes = step.ranks.iter().map(|share| share.node).collect();
            let names = (step.run, step.slot);
            (step.number, LiveStep::restored(now, names, nodes, step.parts_over))
        });
        let further = further.collect();
        LivePlace {
            partition,
            matrix: InMatrix { row, rows, placement, released: false, stopped },
            nodes: PlaceNodes::restored(place, gone, restored.expected),
            time,
            first: LiveStep::restored(now, (incarnation, slot), first, restored.parts_over),
            is_script: restored.first == FirstStep::Script,
            spare: None,
            further,
            ledger,
            waiting: BTreeMap::new(),
        }
    }

    pub(in crate::manager) fn incarnation(&self) -> JobIncarnation {
        self.first.run()
    }

    pub(in crate::manager) fn slot(&self) -> JobSlot {
        self.first.slot()
    }

    /// Whether the place has no place in the arrays of flags for a further step, and needs one.
    pub(super) fn lacks_spare(&self) -> bool {
        self.is_script && self.spare.is_none() && self.further.is_empty()
    }

    pub(in crate::manager) fn partition(&self) -> PartitionId {
        self.partition
    }

    /// The job's home row.
    pub(in crate::manager) fn row(&self) -> Row {
        self.matrix.row
    }

    pub(in crate::manager) fn rows(&self) -> RowSet {
        if self.matrix.stopped { RowSet::NONE } else { self.matrix.rows }
    }

    /// The job's elements, while its policy has the job.
    pub(in crate::manager) fn placement(&self) -> Option<&Placement> {
        self.matrix.placement.as_ref()
    }

    /// Whether the policy was notified that its elements are free.
    pub(in crate::manager) fn is_released(&self) -> bool {
        self.matrix.released
    }

    /// The nodes that start ranks of the first step.
    pub(in crate::manager) fn nodes(&self) -> &NodeSet {
        self.first.parts.nodes()
    }

    /// All nodes of the place.
    pub(in crate::manager) fn place_nodes(&self) -> &NodeSet {
        self.nodes.nodes()
    }

    /// Nodes whose part of the first step is over.
    pub(in crate::manager) fn over(&self) -> &NodeSet {
        self.first.parts.over()
    }

    /// Nodes that have not returned.
    pub(in crate::manager) fn unheard(&self) -> &NodeSet {
        self.nodes.unheard()
    }

    pub(in crate::manager) fn launch(&self) -> Launch {
        self.first.progress.launch()
    }

    /// Whether its nodes have been ordered to launch the first step.
    pub(in crate::manager) fn is_on_nodes(&self) -> bool {
        self.first.is_on_nodes()
    }

    /// Whether its ranks execute or begin to, on nodes that are all there.
    pub(in crate::manager) fn is_launched(&self) -> bool {
        matches!(self.launch(), Launch::Launched | Launch::Started)
    }

    pub(in crate::manager) fn is_recovering(&self) -> bool {
        self.launch() == Launch::Recovering
    }

    /// Whether all nodes of a recovering job have returned, or are no longer waited for.
    pub(in crate::manager) fn all_are_back(&self) -> bool {
        self.is_recovering() && self.unheard().is_empty()
    }

    pub(in crate::manager) fn all_unheard_are_away(&self) -> bool {
        self.nodes.all_unheard_are_away()
    }

    /// The nodes that have been waited for long enough.
    pub(in crate::manager) fn late_nodes(&self, now: Instant) -> NodeSet {
        self.nodes.late(now)
    }

    /// When the next node has been waited for long enough.
    pub(in crate::manager) fn next_late(&self) -> Option<Instant> {
        self.nodes.next_late()
    }

    /// For a job that a former manager placed: the nodes that returned with their parts.
    pub(in crate::manager) fn inherited(&self) -> Option<&NodeSet> {
        self.first.parts.inherited()
    }

    /// The job's run time, without the time for which it was stopped.
    pub(in crate::manager) fn run_time(&self, now: Instant) -> Duration {
        self.time.at(now)
    }

    /// The earliest instant at which its run time can reach `limit`, or when to check again if it
    /// is stopped.
    pub(in crate::manager) fn earliest(&self, now: Instant, limit: Duration) -> Instant {
        self.time.earliest(now, limit)
    }

    /// Whether the job communicates in slices: its Node Managers hold a part of its state.
    pub(in crate::manager) fn is_in_slices(&self) -> bool {
        self.first.slices.joined
    }

    /// Whether the node was told to hand over its part of the slices, and is not back.
    pub(in crate::manager) fn is_handed_over(&self, node: NodeId) -> bool {
        self.first.slices.is_handed(node)
    }

    /// Whether no slice may begin on its nodes: it communicates in slices, and one of its nodes is
    /// among those that leave, is away, or has not said that it continues.
    pub(in crate::manager) fn stands(&self, leaving: &NodeSet) -> bool {
        let slices = &self.first.slices;
        let lacks = |nodes: &NodeSet| nodes.iter().any(|node| self.has_part_on(node));
        slices.joined && (self.is_recovering() || lacks(slices.handed()) || lacks(leaving))
    }

    /// The facts that the driver needs to watch its flags. A lost node whose part was over is left
    /// out.
    pub(in crate::manager) fn watch(&self, step: StepRef) -> Watch {
        let nodes = self.first.parts.with_flags();
        Watch { step, incarnation: self.incarnation(), slot: self.slot(), nodes }
    }

    /// Whether every node's part is over.
    pub(in crate::manager) fn is_over(&self) -> bool {
        self.first.parts.are_over()
    }

    /// Whether a node belongs to its place, and its part there is not over.
    pub(in crate::manager) fn is_placed_on(&self, node: NodeId) -> bool {
        let has_step = || self.further.values().any(|step| step.parts.has(node));
        self.nodes.has(node) && (!self.over().contains(node) || has_step())
    }

    /// Whether a node has a part of the job that is not over.
    pub(in crate::manager) fn has_part_on(&self, node: NodeId) -> bool {
        self.first.parts.has(node)
    }

    /// The nodes that hold a part of the job and can receive commands.
    pub(in crate::manager) fn holders(&self) -> NodeSet {
        self.nodes().difference(self.over()).difference(self.unheard())
    }

    /// The nodes that hold a part of any step and can receive commands.
    pub(in crate::manager) fn holders_of_all(&self) -> NodeSet {
        let steps = self.further.values();
        steps.fold(self.holders(), |nodes, step| nodes.union(&self.holders_of(step)))
    }

    /// The lost nodes that may still run ranks of the job, and until when.
    pub(in crate::manager) fn lost(&self) -> &Lost {
        self.nodes.lost()
    }

    pub(in crate::manager) fn exits(&self) -> &BTreeMap<Rank, RankExit> {
        self.first.exits()
    }

    /// The reported classes of its ranks.
    pub(in crate::manager) fn classes(&self) -> &BTreeMap<Rank, ToldClass> {
        self.first.classes()
    }

    /// The pairs of a PMI barrier of its first step, if they are known.
    pub(in crate::manager) fn fence_outcome(&self, sequence: u64) -> Option<Vec<(String, String)>> {
        self.first.fence_outcome(sequence)
    }

    /// The rank of its first step that others wait for in vain.
    pub(in crate::manager) fn missing(
        &self,
        first_of: impl Fn(NodeId) -> Option<Rank>,
    ) -> Option<Rank> {
        self.first.missing(first_of)
    }

    /// How the part of its first step on a node ended, for the journal.
    pub(in crate::manager) fn part_end(&self, share: &NodeRanks) -> PartEnd {
        self.first.part_end(share)
    }

    /// The output that arrived before the run counted as begun.
    pub(in crate::manager) fn early_output(&self) -> &[Piece] {
        self.first.early_output()
    }
}

/// The transitions that concern more than the first step.
impl LivePlace {
    /// The launch is issued. `active` is true if the job's row runs now.
    pub(super) fn launched(&mut self, now: Instant, active: bool) -> Result<(), Unexpected> {
        self.first.progress.launched(now)?;
        self.time.set_active(now, active);
        Ok(())
    }

    /// All its nodes are back, and none was ordered to launch the job: its launch begins again.
    pub(super) fn begin_again(&mut self, now: Instant) -> Result<(), Unexpected> {
        self.first.progress.begin_again(now)?;
        self.time = RunTime::default();
        Ok(())
    }

    /// All its nodes are back, and its ranks have executed before. The nodes `lacking` have none.
    pub(super) fn resumed(&mut self, lacking: &NodeSet) -> Result<(), Unexpected> {
        self.first.progress.resumed()?;
        self.first.parts.lose(lacking);
        Ok(())
    }

    pub(super) fn set_rows(&mut self, home: Row, rows: RowSet) -> Option<bool> {
        let InMatrix { row, rows: former, .. } = &mut self.matrix;
        if *row == home && *former == rows {
            return None;
        }
        *former = rows;
        Some(std::mem::replace(row, home) != home)
    }

    /// From now on the job's run time is counted if the job runs in this row and was launched.
    pub(super) fn count_time(&mut self, now: Instant, active: Row) {
        let runs = self.is_on_nodes() && self.rows().contains(active);
        self.time.set_active(now, runs);
    }

    pub(super) fn suspend(&mut self, now: Instant) -> Duration {
        self.matrix.rows = RowSet::NONE;
        self.time.set_active(now, false);
        self.run_time(now)
    }

    pub(super) fn go_on(&mut self, now: Instant, rows: RowSet, active: Row) -> Duration {
        self.matrix.rows = rows;
        self.count_time(now, active);
        self.run_time(now)
    }

    pub(super) fn set_stopped(&mut self, now: Instant, stopped: bool, active: Row) -> Duration {
        self.matrix.stopped = stopped;
        self.count_time(now, active);
        self.run_time(now)
    }

    pub(super) fn leave_matrix(&mut self, now: Instant) {
        let matrix = &mut self.matrix;
        (matrix.released, matrix.placement, matrix.rows) = (true, None, RowSet::ALL);
        self.time.set_active(now, !self.matrix.stopped);
    }

    /// The job's elements are free. Returns whether they were free before.
    pub(super) fn release(&mut self) -> bool {
        std::mem::replace(&mut self.matrix.released, true)
    }

    pub(super) fn begin_end(&mut self) -> NodeSet {
        let lacking = self.first.parts.take_lacking();
        self.first.parts.lose(&lacking);
        self.holders()
    }

    pub(super) fn part_gone(&mut self, node: NodeId, runs_until: Option<Instant>) {
        self.nodes.lose(node, runs_until);
        self.lose_parts(&NodeSet::single(node));
    }

    pub(super) fn await_return(&mut self, node: NodeId, left: Left) -> Result<(), Unexpected> {
        self.first.progress.awaited()?;
        let steps = self.further.values_mut();
        let mut steps = steps.filter(|step| step.is_on_nodes() && step.parts.has(node));
        steps.try_for_each(|step| step.progress.awaited())?;
        self.nodes.await_return(node, left);
        Ok(())
    }

    /// A node has returned. Returns whether it had left under this manager.
    pub(super) fn came_back(&mut self, node: NodeId) -> bool {
        self.first.parts.came_back(node);
        let steps = self.further.values_mut();
        steps.filter(|step| step.parts.has(node)).for_each(|step| step.parts.came_back(node));
        self.nodes.came_back(node)
    }

    /// The job's Node Managers hold messages of its ranks from now on. Returns the nodes whose Node
    /// Managers have ended before without handing over, and those of them that have not returned.
    pub(super) fn join_slices(&mut self) -> (NodeSet, NodeSet) {
        let slices = &mut self.first.slices;
        slices.joined = true;
        (slices.lost_of(&self.nodes.left()), slices.lost_of(&self.nodes.away()))
    }

    pub(super) fn give_up(&mut self, missing: &NodeSet, fenced: Instant) {
        self.nodes.give_up(missing, fenced);
        self.lose_parts(missing);
    }

    fn lose_parts(&mut self, nodes: &NodeSet) {
        self.first.parts.lose(nodes);
        self.further.values_mut().for_each(|step| step.parts.lose(nodes));
    }
}

#[cfg(test)]
impl LivePlace {
    /// Whether its run time is counted now.
    pub(in crate::manager) fn is_timed(&self) -> bool {
        self.time.is_counted()
    }

    pub(in crate::manager) fn placed_at(&self) -> Instant {
        self.first.progress.placed_at()
    }
}
