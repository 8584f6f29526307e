//! Strobes: the row that is active, and the slices that nodes begin by themselves
//! ([decision 0091](../../../docs/decisions/0091-slices-by-the-nodes-clocks.md)).

use super::Core;
use super::Immediate;
use super::live_job::{Launch, LiveJob};
use super::partition::Partition;
use super::slice_order::NextEdge;
use std::time::Duration;
use storm_primitives::{Instant, NodeSet};
use storm_rm::{PartitionId, Row};
use storm_sched::Slot;

/// The most slices that a strobe orders: a byte or two of its message each.
const SLICES_MAX: u128 = 256;

impl Partition {
    /// The rows of the slices that a strobe now would order after its own.
    fn following(&self, span: Duration) -> Vec<Row> {
        let Some(quantum) = self.slice() else { return Vec::new() };
        let slices = span.as_nanos().checked_div(quantum.as_nanos()).unwrap_or(0);
        let further = slices.min(SLICES_MAX).saturating_sub(1) as usize;
        if further == 0 {
            return Vec::new();
        }
        self.policy.upcoming(further).into_iter().map(|slot| Row(slot.0)).collect()
    }
}

impl Core {
    /// The number of next edges that only pass from one slice that nodes begin by themselves to
    /// another, and need nothing else of the manager.
    pub fn slices_ahead(&self, partition: PartitionId) -> usize {
        let ahead = self.partitions[usize::from(partition.0)].slices_ahead();
        let waits = |live: &LiveJob| live.partition == partition && live.launch == Launch::Staged;
        let needed =
            |core: &Core| core.priorities_are_due(partition) || core.live.values().any(waits);
        if ahead == 0 || needed(self) { 0 } else { ahead }
    }

    /// The next edge of a partition; `None` while its time is not sliced. The caller may sleep
    /// until the edge is needed, or until [`Immediate::SlicesChanged`], if it
    /// [passes](Self::pass_slices) the edges before anything else happens.
    pub fn next_edge(&mut self, now: Instant, partition: PartitionId) -> Option<NextEdge> {
        let ahead = self.slices_ahead(partition);
        let entry = self.partition(partition);
        let slice = entry.slice();
        entry.slices.next_edge(now, slice, ahead)
    }

    /// The slice under way ends now, at its edge or later.
    pub fn cut_slice(&mut self, now: Instant, partition: PartitionId) {
        let entry = self.partition(partition);
        let slice = entry.slice();
        match entry.slices.end_slice(now, slice) {
            true => self.slice_edge(now, partition),
            false => self.late_slice_edge(now, partition),
        }
    }

    /// Passes the edges through which the manager slept, in order and with their own times, before
    /// anything else happens: nodes began the slices after them by themselves ([decision
    /// 0091](../../../docs/decisions/0091-slices-by-the-nodes-clocks.md)). Returns whether there
    /// was one.
    pub fn pass_slices(&mut self, now: Instant) -> bool {
        let mut any = false;
        for id in (0..self.partition_count()).map(PartitionId) {
            while let Some(edge) = self.slept_through(now, id)
                && self.pass_slice(edge, id)
            {
                any = true;
            }
        }
        any
    }

    fn slept_through(&mut self, now: Instant, partition: PartitionId) -> Option<Instant> {
        let entry = self.partition(partition);
        let slice = entry.slice();
        entry.slices.slept_through(now, slice)
    }

    fn pass_slice(&mut self, edge: Instant, partition: PartitionId) -> bool {
        let ahead = self.slices_ahead(partition);
        let passes = self.partition(partition).slices.pass(edge, ahead);
        if passes {
            self.slice_edge(edge, partition);
        }
        passes
    }

    /// The partitions whose next edge needs the manager, though it sleeps through it.
    pub fn slices_to_wake_for(&self) -> Vec<PartitionId> {
        let ids = (0..self.partition_count()).map(PartitionId);
        let sleeps = |id: &PartitionId| self.partitions[usize::from(id.0)].slices.sleeps();
        ids.filter(sleeps).filter(|id| self.slices_ahead(*id) == 0).collect()
    }

    /// Another row becomes active.
    pub(super) fn activate(&mut self, now: Instant, partition: PartitionId, slot: Slot) {
        let nodes = self.nodes_to_strobe(partition);
        let entry = self.partition(partition);
        let quantum = entry.policy.quantum();
        if !entry.slices.activate(now, Row(slot.0), &nodes, quantum) {
            let span = self.config.strobe_span;
            let following = self.partition(partition).following(span);
            self.strobe(now, partition, nodes, following);
        }
        self.charge_time(now, partition);
    }

    /// Compares the slices that nodes begin by themselves with the policy's present decisions. If
    /// they differ, or if jobs have other rows, the nodes are told to stay in the slice under way
    /// until the next strobe. So each strobe finds the same rows on all nodes of a job.
    pub(super) fn recall_slices(&mut self, now: Instant, partition: PartitionId) {
        let entry = self.partition(partition);
        if entry.slices.is_outdated(entry.slice(), |slices| entry.policy.upcoming(slices)) {
            let nodes = self.nodes_to_strobe(partition);
            self.strobe(now, partition, nodes, Vec::new());
        }
    }

    /// The nodes that hold jobs of the partition. A strobe does not matter to other nodes, unless
    /// they are ahead: a later launch there names the row that is active then.
    fn nodes_to_strobe(&self, partition: PartitionId) -> NodeSet {
        let here = self.live.values().filter(|live| live.partition == partition);
        self.up(&here.fold(NodeSet::new(), |nodes, live| nodes.union(&live.nodes)))
    }

    /// Tells nodes the active row, and the rows that follow.
    fn strobe(
        &mut self,
        now: Instant,
        partition: PartitionId,
        nodes: NodeSet,
        following: Vec<Row>,
    ) {
        let entry = &mut self.partitions[usize::from(partition.0)];
        let (quantum, up) = (entry.policy.quantum(), self.nodes.up());
        let strobe = entry.slices.strobe(now, partition, (nodes, up), (following, quantum));
        let Some((nodes, slices)) = strobe else { return };
        self.counters.strobes += 1;
        self.effects.immediate.push(Immediate::Strobe(nodes, slices));
    }

    /// From now on, run time is counted for the launched jobs whose row is active.
    pub(super) fn charge_time(&mut self, now: Instant, partition: PartitionId) {
        let row = self.partitions[usize::from(partition.0)].active();
        for live in self.live.values_mut().filter(|live| live.partition == partition) {
            let started =
                matches!(live.launch, Launch::Launched | Launch::Started | Launch::Recovering);
            live.set_active(now, started && live.rows.contains(row));
        }
    }
}
