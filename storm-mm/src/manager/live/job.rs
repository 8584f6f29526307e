//! A job that holds processing elements: the state that exists only while it does.

use super::output::{Output, Piece};
use super::parts::{Left, Lost, Parts};
use super::steps::{Launch, Steps};
use super::time::RunTime;
use super::told_class::ToldClass;
use crate::api::LaunchBreakdown;
use crate::manager::effect::{StageOutcome, Watch};
use crate::manager::pmi_fences::PmiFences;
use std::collections::BTreeMap;
use std::time::Duration;
use storm_primitives::{Instant, NodeId, NodeSet};
use storm_rm::message::RankExit;
use storm_rm::{JobId, JobIncarnation, JobSlot, PartitionId, Rank, RankClass, Row, RowSet};
use storm_sched::Placement;

/// A job on the machine.
#[derive(Clone, Debug)]
pub(in crate::manager) struct LiveJob {
    incarnation: JobIncarnation,
    slot: JobSlot,
    partition: PartitionId,
    place: Place,
    parts: Parts,
    steps: Steps,
    time: RunTime,
    output: Output,
    ranks: Ranks,
    fences: PmiFences,
}

/// The place of a job in the matrix.
#[derive(Clone, Debug)]
struct Place {
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

/// The reports of ranks.
#[derive(Clone, Debug, Default)]
struct Ranks {
    exits: BTreeMap<Rank, RankExit>,
    classes: BTreeMap<Rank, ToldClass>,
    /// Whether a rank communicates in slices.
    in_slices: bool,
}

/// A job that this manager places.
pub(in crate::manager) struct Placed {
    pub(in crate::manager) incarnation: JobIncarnation,
    pub(in crate::manager) slot: JobSlot,
    pub(in crate::manager) partition: PartitionId,
    pub(in crate::manager) row: Row,
    pub(in crate::manager) rows: RowSet,
    pub(in crate::manager) placement: Placement,
    /// The nodes of its place, and those of them that start ranks.
    pub(in crate::manager) nodes: (NodeSet, NodeSet),
}

/// A job that a former manager placed.
pub(in crate::manager) struct Restored {
    pub(in crate::manager) incarnation: JobIncarnation,
    pub(in crate::manager) slot: JobSlot,
    pub(in crate::manager) partition: PartitionId,
    pub(in crate::manager) row: Row,
    pub(in crate::manager) rows: RowSet,
    /// The job's elements, if its partition has room for the job.
    pub(in crate::manager) placement: Option<Placement>,
    /// The nodes of its place, and those of them that start ranks.
    pub(in crate::manager) nodes: (NodeSet, NodeSet),
    /// How the ranks of lost nodes ended whose parts were over before.
    pub(in crate::manager) parts_over: BTreeMap<NodeId, Vec<RankExit>>,
    pub(in crate::manager) ran: Duration,
    /// Whether its rows are active.
    pub(in crate::manager) active: bool,
}

impl LiveJob {
    /// The launch of a job begins.
    pub(in crate::manager) fn placed(now: Instant, placed: Placed) -> LiveJob {
        let Placed { incarnation, slot, partition, row, rows, placement, nodes } = placed;
        LiveJob {
            incarnation,
            slot,
            partition,
            place: Place { row, rows, placement: Some(placement), released: false, stopped: false },
            parts: Parts::placed(nodes),
            steps: Steps::at(now, Launch::Staging),
            time: RunTime::default(),
            output: Output::default(),
            ranks: Ranks::default(),
            fences: PmiFences::default(),
        }
    }

    /// A job continues under this manager. All its nodes whose parts are not over must return.
    pub(in crate::manager) fn restored(now: Instant, restored: Restored) -> LiveJob {
        let Restored { incarnation, slot, partition, row, rows, placement, nodes, .. } = restored;
        let over = restored.parts_over.keys().copied().collect();
        let exits = restored.parts_over.into_values().flatten();
        let exits = exits.map(|exit| (exit.rank, exit)).collect();
        let mut time = RunTime::stopped_after(restored.ran);
        time.set_active(now, restored.active);
        LiveJob {
            incarnation,
            slot,
            partition,
            place: Place { row, rows, placement, released: false, stopped: false },
            parts: Parts::restored(nodes, over),
            steps: Steps::at(now, Launch::Recovering),
            time,
            output: Output::default(),
            ranks: Ranks { exits, ..Ranks::default() },
            fences: PmiFences::resumed(),
        }
    }

    pub(in crate::manager) fn incarnation(&self) -> JobIncarnation {
        self.incarnation
    }

    pub(in crate::manager) fn slot(&self) -> JobSlot {
        self.slot
    }

    pub(in crate::manager) fn partition(&self) -> PartitionId {
        self.partition
    }

    /// The job's home row.
    pub(in crate::manager) fn row(&self) -> Row {
        self.place.row
    }

    pub(in crate::manager) fn rows(&self) -> RowSet {
        if self.place.stopped { RowSet::NONE } else { self.place.rows }
    }

    /// The job's elements, while its policy has the job.
    pub(in crate::manager) fn placement(&self) -> Option<&Placement> {
        self.place.placement.as_ref()
    }

    /// Whether the policy was notified that its elements are free.
    pub(in crate::manager) fn is_released(&self) -> bool {
        self.place.released
    }

    /// The nodes that start ranks of the job.
    pub(in crate::manager) fn nodes(&self) -> &NodeSet {
        self.parts.nodes()
    }

    /// All nodes of its place.
    pub(in crate::manager) fn place_nodes(&self) -> &NodeSet {
        self.parts.place()
    }

    /// Nodes whose part is over.
    pub(in crate::manager) fn over(&self) -> &NodeSet {
        self.parts.over()
    }

    /// Nodes that have not returned.
    pub(in crate::manager) fn unheard(&self) -> &NodeSet {
        self.parts.unheard()
    }

    pub(in crate::manager) fn launch(&self) -> Launch {
        self.steps.launch()
    }

    /// Whether its nodes have been ordered to launch the job.
    pub(in crate::manager) fn is_on_nodes(&self) -> bool {
        match self.steps.launch() {
            Launch::Staging | Launch::Staged => false,
            Launch::Recovering | Launch::Launched | Launch::Started => true,
        }
    }

    /// Whether its ranks execute or begin to, on nodes that are all there.
    pub(in crate::manager) fn is_launched(&self) -> bool {
        matches!(self.steps.launch(), Launch::Launched | Launch::Started)
    }

    pub(in crate::manager) fn is_recovering(&self) -> bool {
        self.steps.launch() == Launch::Recovering
    }

    /// Whether all nodes of a recovering job have returned, or are no longer waited for.
    pub(in crate::manager) fn all_are_back(&self) -> bool {
        self.is_recovering() && self.unheard().is_empty()
    }

    pub(in crate::manager) fn all_unheard_are_away(&self) -> bool {
        self.parts.all_unheard_are_away()
    }

    /// For a job that a former manager placed: the nodes that returned with their parts.
    pub(in crate::manager) fn inherited(&self) -> Option<&NodeSet> {
        self.parts.inherited()
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
        self.ranks.in_slices
    }

    /// The facts that the driver needs to watch its flags. A lost node whose part was over is left
    /// out.
    pub(in crate::manager) fn watch(&self, job: JobId) -> Watch {
        let (incarnation, slot, nodes) = (self.incarnation, self.slot, self.parts.with_flags());
        Watch { job, incarnation, slot, nodes }
    }

    /// Whether every node's part is over.
    pub(in crate::manager) fn is_over(&self) -> bool {
        self.parts.are_over()
    }

    /// Whether a node belongs to its place, and its part there is not over.
    pub(in crate::manager) fn is_placed_on(&self, node: NodeId) -> bool {
        self.parts.is_placed_on(node)
    }

    /// Whether a node has a part of the job that is not over.
    pub(in crate::manager) fn has_part_on(&self, node: NodeId) -> bool {
        self.parts.has(node)
    }

    /// The nodes that hold a part of the job and can receive commands.
    pub(in crate::manager) fn holders(&self) -> NodeSet {
        self.parts.holders()
    }

    /// The lost nodes that may still run ranks of the job, and until when.
    pub(in crate::manager) fn lost(&self) -> &Lost {
        self.parts.lost()
    }

    pub(in crate::manager) fn exits(&self) -> &BTreeMap<Rank, RankExit> {
        &self.ranks.exits
    }

    /// The reported classes of its ranks.
    pub(in crate::manager) fn classes(&self) -> &BTreeMap<Rank, ToldClass> {
        &self.ranks.classes
    }
}

/// The transitions.
impl LiveJob {
    /// The job's files are on its nodes.
    pub(in crate::manager) fn staged(&mut self, now: Instant, stage: StageOutcome) {
        self.steps.staged(now, stage);
    }

    /// The job's launch is issued. `active` is true if its row runs now.
    pub(in crate::manager) fn launched(&mut self, now: Instant, active: bool) {
        self.steps.launched(now);
        self.time.set_active(now, active);
    }

    /// All its ranks execute. Returns the times of its launch.
    pub(in crate::manager) fn started(&mut self, now: Instant) -> LaunchBreakdown {
        self.steps.started(now)
    }

    /// All its nodes are back, and none was ordered to launch the job: its launch begins again.
    pub(in crate::manager) fn begin_again(&mut self, now: Instant) {
        self.steps.begin_again(now);
        self.time = RunTime::default();
    }

    /// All its nodes are back, and its ranks have executed before. The nodes `lacking` have none.
    pub(in crate::manager) fn resumed(&mut self, lacking: &NodeSet) {
        self.steps.set(Launch::Started);
        self.parts.never_began(lacking);
    }

    /// Gets another home row and other rows. Returns whether the home row is another; `None` if
    /// nothing changes.
    pub(in crate::manager) fn set_rows(&mut self, home: Row, rows: RowSet) -> Option<bool> {
        let Place { row, rows: former, .. } = &mut self.place;
        if *row == home && *former == rows {
            return None;
        }
        *former = rows;
        Some(std::mem::replace(row, home) != home)
    }

    /// From now on the job's run time is counted if the job runs in this row and was launched.
    pub(in crate::manager) fn count_time(&mut self, now: Instant, active: Row) {
        let runs = self.is_on_nodes() && self.rows().contains(active);
        self.time.set_active(now, runs);
    }

    /// The job's processes are stopped. Returns its run time.
    pub(in crate::manager) fn suspend(&mut self, now: Instant) -> Duration {
        self.place.rows = RowSet::NONE;
        self.time.set_active(now, false);
        self.run_time(now)
    }

    /// The job's processes continue in these rows. Returns its run time.
    pub(in crate::manager) fn go_on(
        &mut self,
        now: Instant,
        rows: RowSet,
        active: Row,
    ) -> Duration {
        self.place.rows = rows;
        self.count_time(now, active);
        self.run_time(now)
    }

    /// An administrator stops the job's processes, or lets them continue where the policy has them.
    pub(in crate::manager) fn set_stopped(&mut self, stopped: bool) {
        self.place.stopped = stopped;
    }

    pub(super) fn leave_matrix(&mut self, now: Instant) {
        let place = &mut self.place;
        (place.released, place.placement, place.rows) = (true, None, RowSet::ALL);
        self.time.set_active(now, !self.place.stopped);
    }

    /// The job's elements are free. Returns whether they were free before.
    pub(in crate::manager) fn release(&mut self) -> bool {
        std::mem::replace(&mut self.place.released, true)
    }

    /// The job is to end. Returns the nodes that must end their parts: nodes on which the job never
    /// began have nothing to end.
    pub(in crate::manager) fn begin_end(&mut self) -> NodeSet {
        let lacking = self.parts.take_lacking();
        self.parts.never_began(&lacking);
        self.holders()
    }

    /// The ranks of a node have ended in this way. Returns whether the node is the first.
    pub(in crate::manager) fn part_over(
        &mut self,
        node: NodeId,
        exits: impl Iterator<Item = RankExit>,
    ) -> bool {
        self.ranks.exits.extend(exits.map(|exit| (exit.rank, exit)));
        self.parts.end(node)
    }

    /// A node is lost. Returns whether its part was over and it had not been lost since.
    pub(in crate::manager) fn forgets_end(&mut self, node: NodeId) -> bool {
        self.parts.forgets(node)
    }

    /// A node has no ranks of the job any more. `runs_until` is set if the ranks may continue until
    /// then.
    pub(in crate::manager) fn part_gone(&mut self, node: NodeId, runs_until: Option<Instant>) {
        self.parts.lose(node, runs_until);
    }

    /// The job continues elsewhere, and waits for a node.
    pub(in crate::manager) fn await_return(&mut self, node: NodeId, left: Left) {
        self.steps.set(Launch::Recovering);
        self.parts.await_return(node, left);
    }

    /// A node has returned. Returns whether it had left under this manager.
    pub(in crate::manager) fn came_back(&mut self, node: NodeId) -> bool {
        self.parts.came_back(node)
    }

    /// A node has returned and had never received its launch.
    pub(in crate::manager) fn lacks(&mut self, node: NodeId) {
        self.parts.lack(node);
    }

    pub(in crate::manager) fn take_lacking(&mut self) -> NodeSet {
        self.parts.take_lacking()
    }

    /// The nodes that have been waited for long enough.
    pub(in crate::manager) fn late_nodes(&self, now: Instant) -> NodeSet {
        self.parts.late(now)
    }

    /// The job's Node Managers hold messages of its ranks from now on. Returns the nodes whose Node
    /// Managers have ended before, and those of them that have not returned.
    pub(in crate::manager) fn join_slices(&mut self) -> (NodeSet, NodeSet) {
        self.ranks.in_slices = true;
        (self.parts.left(), self.parts.away())
    }

    /// The nodes `missing` are not waited for any longer. `fenced` is when their ranks have
    /// certainly ended, if the time of their keepers is unknown.
    pub(in crate::manager) fn give_up(&mut self, missing: &NodeSet, fenced: Instant) {
        self.parts.give_up(missing, fenced);
    }

    pub(super) fn fenced_until(&mut self, node: NodeId, until: Instant) {
        self.parts.fenced_until(node, until);
    }

    pub(super) fn fenced(&mut self, node: NodeId) {
        self.parts.fenced(node);
    }

    /// Output has arrived. Returns the part that had not arrived before.
    pub(in crate::manager) fn fresh_output(&mut self, piece: Piece) -> Piece {
        self.output.fresh(piece)
    }

    /// Output has arrived while the job starts. Returns the pieces to pass on.
    pub(in crate::manager) fn keep_early(&mut self, piece: Piece) -> Vec<Piece> {
        self.output.keep_early(piece)
    }

    /// The output that arrived while the job started.
    pub(in crate::manager) fn take_early(&mut self) -> Vec<Piece> {
        self.output.take_early()
    }

    /// The lost nodes that may still run ranks of the job, and until when.
    pub(in crate::manager) fn take_lost(&mut self) -> Lost {
        self.parts.take_lost()
    }

    /// The exits of its ranks, for its last event.
    pub(in crate::manager) fn take_exits(&mut self) -> Vec<RankExit> {
        std::mem::take(&mut self.ranks.exits).into_values().collect()
    }

    /// The classes of some of its ranks are reported.
    pub(in crate::manager) fn classes_told(
        &mut self,
        now: Instant,
        told: impl Iterator<Item = RankClass>,
    ) {
        self.ranks.classes.extend(told.map(|told| (told.rank, ToldClass::new(told, now))));
    }

    /// A rank has ended without having finalized.
    pub(in crate::manager) fn rank_left(&mut self, rank: Rank) {
        self.fences.left(rank);
    }

    /// A node is in a PMI barrier. Returns the barrier's pairs once all nodes are in the barrier.
    pub(in crate::manager) fn fence_arrived(
        &mut self,
        sequence: u64,
        node: NodeId,
        puts: Vec<(String, String)>,
    ) -> Option<Vec<(String, String)>> {
        self.fences.arrived(sequence, node, puts, self.parts.nodes())
    }

    pub(in crate::manager) fn fences(&self) -> &PmiFences {
        &self.fences
    }
}

#[cfg(test)]
impl LiveJob {
    /// Whether its run time is counted now.
    pub(in crate::manager) fn is_timed(&self) -> bool {
        self.time.is_counted()
    }

    pub(in crate::manager) fn placed_at(&self) -> Instant {
        self.steps.placed_at()
    }

    pub(in crate::manager) fn set_launch(&mut self, launch: Launch) {
        self.steps.set(launch);
    }
}
