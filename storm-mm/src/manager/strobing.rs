//! Strobes: the active row, and the slices that nodes begin by themselves ([decision
//! 0091](../../../docs/decisions/0091-slices-by-the-nodes-clocks.md)).

use super::Core;
use super::Immediate;
use super::live::Launch;
use super::partitions::NextEdge;
use storm_primitives::{Instant, NodeSet};
use storm_rm::{PartitionId, Row};

impl Core {
    /// The number of next edges that only pass from one slice that nodes begin by themselves to
    /// another, and need nothing else of the manager.
    pub fn slices_ahead(&self, partition: PartitionId) -> usize {
        let ahead = self.partitions[partition].slices_ahead();
        let waits = || self.live.of(partition).any(|(_, live)| live.launch() == Launch::Staged);
        if ahead == 0 || self.priorities_are_due(partition) || waits() {
            return 0;
        }
        ahead
    }

    /// The next edge of a partition; `None` while its time is not sliced. The caller may sleep
    /// until the edge is needed, or until [`Immediate::SlicesChanged`], if it
    /// [passes](Self::pass_slices) the edges before anything else happens.
    pub fn next_edge(&mut self, now: Instant, partition: PartitionId) -> Option<NextEdge> {
        let ahead = self.slices_ahead(partition);
        self.partitions.next_edge(now, partition, ahead)
    }

    /// The slice under way ends now, at its edge or later.
    pub fn cut_slice(&mut self, now: Instant, partition: PartitionId) {
        match self.partitions.end_slice(now, partition) {
            true => self.slice_edge(now, partition),
            false => self.late_slice_edge(now, partition),
        }
    }

    /// Passes the edges through which the manager slept, in order and with their own times, before
    /// anything else happens. Nodes began the slices after these edges by themselves ([decision
    /// 0091](../../../docs/decisions/0091-slices-by-the-nodes-clocks.md)). Returns whether there
    /// was such an edge.
    pub fn pass_slices(&mut self, now: Instant) -> bool {
        let mut any = false;
        for id in self.partitions.ids() {
            while let Some(edge) = self.partitions.slept_through(now, id)
                && self.pass_slice(edge, id)
            {
                any = true;
            }
        }
        any
    }

    fn pass_slice(&mut self, edge: Instant, partition: PartitionId) -> bool {
        let ahead = self.slices_ahead(partition);
        let passes = self.partitions.pass(partition, edge, ahead);
        if passes {
            self.slice_edge(edge, partition);
        }
        passes
    }

    /// The partitions whose next edge needs the manager, though the manager sleeps through that
    /// edge.
    pub fn slices_to_wake_for(&self) -> Vec<PartitionId> {
        let sleeps = |id: &PartitionId| self.partitions[*id].slices().sleeps();
        let ids = self.partitions.ids().filter(sleeps);
        ids.filter(|id| self.slices_ahead(*id) == 0).collect()
    }

    /// Another row becomes active.
    pub(super) fn activate(&mut self, now: Instant, partition: PartitionId, row: Row) {
        let nodes = self.nodes_to_strobe(partition);
        if !self.partitions.activate(now, partition, row, &nodes) {
            let following = self.partitions[partition].following(self.config.strobe_span);
            self.strobe(now, partition, nodes, following);
        }
        self.charge_time(now, partition);
    }

    /// Compares the slices that nodes begin by themselves with the policy's present decisions. If
    /// they differ, or if jobs have other rows, the nodes are ordered to stay in the slice under
    /// way until the next strobe. Each strobe therefore finds the same rows on all nodes of a job.
    pub(super) fn recall_slices(&mut self, now: Instant, partition: PartitionId) {
        if self.partitions[partition].slices_are_outdated() {
            let nodes = self.nodes_to_strobe(partition);
            self.strobe(now, partition, nodes, Vec::new());
        }
    }

    /// The nodes that hold jobs of the partition. A strobe does not matter to other nodes, unless
    /// they are ahead: a later launch there names the active row of its time.
    fn nodes_to_strobe(&self, partition: PartitionId) -> NodeSet {
        self.up(&self.live.nodes_of(partition))
    }

    /// Sends nodes the active row, and the rows that follow.
    fn strobe(
        &mut self,
        now: Instant,
        partition: PartitionId,
        nodes: NodeSet,
        following: Vec<Row>,
    ) {
        let nodes = (nodes, self.nodes.up());
        if let Some((nodes, slices)) = self.partitions.strobe(now, partition, nodes, following) {
            self.effects.immediate.push(Immediate::Strobe(nodes, slices));
        }
    }

    /// From now on, run time is counted for the launched jobs whose row is active.
    pub(super) fn charge_time(&mut self, now: Instant, partition: PartitionId) {
        self.live.count_time(now, partition, self.partitions[partition].active());
    }
}
