//! Strobes: the row that is active, and the slices that nodes begin by themselves
//! ([decision 0091](../../../docs/decisions/0091-slices-by-the-nodes-clocks.md)).

use super::Core;
use super::Immediate;
use super::live::Launch;
use storm_primitives::{Instant, NodeSet};
use storm_rm::{PartitionId, Row};
use storm_sched::Slot;

impl Core {
    /// The number of next edges that only pass from one slice that nodes begin by themselves to
    /// another. The caller that cuts the slices may sleep through these edges, if it passes them
    /// before it does anything else.
    pub fn slices_ahead(&self, partition: PartitionId) -> usize {
        let ahead = self.partitions[partition].slices_ahead();
        let waits = || self.live.of(partition).any(|(_, live)| live.launch() == Launch::Staged);
        if ahead == 0 || self.priorities_are_due(partition) || waits() {
            return 0;
        }
        ahead
    }

    /// Another row becomes active.
    pub(super) fn activate(&mut self, now: Instant, partition: PartitionId, slot: Slot) {
        let nodes = self.nodes_to_strobe(partition);
        let entry = self.partitions.get_mut(partition);
        if !entry.activate(now, Row(slot.0), &nodes) {
            let following = entry.following(self.config.strobe_span);
            self.strobe(now, partition, nodes, following);
        }
        self.charge_time(now, partition);
    }

    /// Compares the slices that nodes begin by themselves with the policy's present decisions. If
    /// they differ, or if jobs have other rows, the nodes are told to stay in the slice under way
    /// until the next strobe. So each strobe finds the same rows on all nodes of a job.
    pub(super) fn recall_slices(&mut self, now: Instant, partition: PartitionId) {
        if self.partitions[partition].slices_are_outdated() {
            let nodes = self.nodes_to_strobe(partition);
            self.strobe(now, partition, nodes, Vec::new());
        }
    }

    /// The nodes that hold jobs of the partition. A strobe does not matter to other nodes, unless
    /// they are ahead: a later launch there names the row that is active then.
    fn nodes_to_strobe(&self, partition: PartitionId) -> NodeSet {
        self.up(&self.live.nodes_of(partition))
    }

    /// Tells nodes the active row, and the rows that follow.
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
