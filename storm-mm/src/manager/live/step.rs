//! A live step: the part of a job's state that belongs to what runs in its place.

use super::output::{Output, Piece};
use super::parts::Parts;
use super::progress::{Launch, Progress, Unexpected};
use super::slices::JobSlices;
use super::told_class::ToldClass;
use crate::job::PartEnd;
use crate::manager::pmi_fences::PmiFences;
use std::collections::BTreeMap;
use std::time::Duration;
use storm_primitives::{Instant, NodeId, NodeSet};
use storm_rm::message::{NodeRanks, RankExit};
use storm_rm::{JobIncarnation, JobSlot, Rank, RankClass};

/// A step on the machine.
#[derive(Clone, Debug)]
pub(in crate::manager) struct LiveStep {
    run: JobIncarnation,
    slot: JobSlot,
    pub(super) parts: Parts,
    pub(super) progress: Progress,
    pub(super) slices: JobSlices,
    output: Output,
    ranks: Ranks,
    fences: PmiFences,
    /// How long the place had run when the launch was issued.
    launched_after: Duration,
    /// Whether a client follows the step. A first step does not depend on its client.
    has_client: bool,
    /// The place's run time until which a step without a client waits for the client.
    client_due: Duration,
    /// The place's run time at which a step has reached its time limit.
    limit: Option<Duration>,
}

/// The reports of ranks.
#[derive(Clone, Debug, Default)]
struct Ranks {
    exits: BTreeMap<Rank, RankExit>,
    classes: BTreeMap<Rank, ToldClass>,
}

impl LiveStep {
    /// The launch of a step on these nodes begins.
    pub(super) fn placed(
        now: Instant,
        (run, slot): (JobIncarnation, JobSlot),
        nodes: NodeSet,
    ) -> LiveStep {
        LiveStep {
            run,
            slot,
            parts: Parts::placed(nodes),
            progress: Progress::at(now, Launch::Staging),
            slices: JobSlices::default(),
            output: Output::default(),
            ranks: Ranks::default(),
            fences: PmiFences::default(),
            launched_after: Duration::ZERO,
            has_client: true,
            client_due: Duration::ZERO,
            limit: None,
        }
    }

    /// A step of a former manager continues. `over` are the parts that ended before their nodes
    /// were lost.
    pub(super) fn restored(
        now: Instant,
        (run, slot): (JobIncarnation, JobSlot),
        nodes: NodeSet,
        over: BTreeMap<NodeId, PartEnd>,
    ) -> LiveStep {
        let parts_over = over.keys().copied().collect();
        let mut exits = BTreeMap::new();
        let fences = over.into_iter().map(|(node, end)| {
            exits.extend(end.exits.into_iter().map(|exit| (exit.rank, exit)));
            (node, end.fences)
        });
        let fences = PmiFences::resumed(fences);
        LiveStep {
            run,
            slot,
            parts: Parts::restored(nodes, parts_over),
            progress: Progress::at(now, Launch::Recovering),
            slices: JobSlices::default(),
            output: Output::default(),
            ranks: Ranks { exits, ..Ranks::default() },
            fences,
            launched_after: Duration::ZERO,
            has_client: false,
            client_due: Duration::ZERO,
            limit: None,
        }
    }

    pub(in crate::manager) fn run(&self) -> JobIncarnation {
        self.run
    }

    pub(in crate::manager) fn slot(&self) -> JobSlot {
        self.slot
    }

    /// Whether its nodes have been ordered to launch the step.
    pub(super) fn is_on_nodes(&self) -> bool {
        match self.progress.launch() {
            Launch::Staging | Launch::Staged => false,
            Launch::Recovering | Launch::Launched | Launch::Started => true,
        }
    }

    pub(in crate::manager) fn exits(&self) -> &BTreeMap<Rank, RankExit> {
        &self.ranks.exits
    }

    pub(super) fn classes(&self) -> &BTreeMap<Rank, ToldClass> {
        &self.ranks.classes
    }

    pub(in crate::manager) fn launched_after(&self) -> Duration {
        self.launched_after
    }

    pub(in crate::manager) fn has_client(&self) -> bool {
        self.has_client
    }

    pub(in crate::manager) fn client_due(&self) -> Duration {
        self.client_due
    }

    pub(in crate::manager) fn limit(&self) -> Option<Duration> {
        self.limit
    }

    /// The pairs of a PMI barrier, if it is the last that is done and all its pairs are known.
    pub(in crate::manager) fn fence_outcome(&self, sequence: u64) -> Option<Vec<(String, String)>> {
        self.fences.outcome(sequence, self.parts.nodes())
    }

    /// The rank that others wait for in vain in a PMI barrier. `first_of` is the first rank of a
    /// node.
    pub(in crate::manager) fn missing(
        &self,
        first_of: impl Fn(NodeId) -> Option<Rank>,
    ) -> Option<Rank> {
        let left = self.fences.missing();
        left.or_else(|| self.fences.missing_node(self.parts.over()).and_then(first_of))
    }

    /// How the part of a node ended, for the journal.
    pub(in crate::manager) fn part_end(&self, share: &NodeRanks) -> PartEnd {
        let exits = self.ranks.exits.values().filter(|exit| share.has(exit.rank));
        PartEnd { exits: exits.cloned().collect(), fences: self.fences.parts_of(share.node) }
    }

    /// The output that arrived before the run counted as begun.
    pub(super) fn early_output(&self) -> &[Piece] {
        self.output.early()
    }
}

/// The transitions.
impl LiveStep {
    /// The ranks of a node have ended in this way. Returns whether the node is the first.
    pub(super) fn part_over(
        &mut self,
        node: NodeId,
        exits: impl Iterator<Item = RankExit>,
    ) -> bool {
        self.ranks.exits.extend(exits.map(|exit| (exit.rank, exit)));
        self.parts.end(node)
    }

    /// Output has arrived, of which a part may have arrived before. Returns the pieces to pass on:
    /// if the step starts, none until they are too much.
    pub(super) fn output(&mut self, piece: Piece, starts: bool) -> Vec<Piece> {
        let piece = self.output.fresh(piece);
        match (piece.data.is_empty(), starts) {
            (true, _) => Vec::new(),
            (false, true) => self.output.keep_early(piece),
            (false, false) => vec![piece],
        }
    }

    pub(super) fn take_early(&mut self) -> Vec<Piece> {
        self.output.take_early()
    }

    pub(super) fn classes_told(&mut self, now: Instant, told: impl Iterator<Item = RankClass>) {
        self.ranks.classes.extend(told.map(|told| (told.rank, ToldClass::new(told, now))));
    }

    /// The launch is issued, in a place that has run for `after`.
    pub(super) fn launched(&mut self, now: Instant, after: Duration) -> Result<(), Unexpected> {
        self.progress.launched(now)?;
        self.launched_after = after;
        Ok(())
    }

    pub(super) fn set_client(&mut self, has_client: bool) {
        self.has_client = has_client;
    }

    /// The step has no client, and waits for one until its place has run for `due`.
    pub(super) fn await_client(&mut self, due: Duration) {
        (self.has_client, self.client_due) = (false, due);
    }

    pub(super) fn set_limit(&mut self, limit: Duration) {
        self.limit = Some(limit);
    }

    pub(super) fn rank_left(&mut self, node: NodeId, rank: Rank) {
        self.fences.left(node, rank);
    }

    pub(super) fn fence_arrived(
        &mut self,
        sequence: u64,
        node: NodeId,
        puts: Vec<(String, String)>,
    ) -> Option<Vec<(String, String)>> {
        self.fences.arrived(sequence, node, puts, self.parts.nodes())
    }
}
