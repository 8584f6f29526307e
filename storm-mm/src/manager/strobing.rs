//! Strobes: the row that is active, and the slices that nodes begin by themselves
//! ([decision 0091](../../../docs/decisions/0091-slices-by-the-nodes-clocks.md)).

use super::Core;
use super::Immediate;
use super::live_job::{Launch, LiveJob};
use super::partition::Partition;
use std::time::Duration;
use storm_primitives::{Instant, NodeId, NodeSet};
use storm_rm::message::{Slices, Strobe};
use storm_rm::{PartitionId, Row};
use storm_sched::Slot;

/// The most slices that a strobe orders: a byte or two of its message each.
const SLICES_MAX: u128 = 256;

/// Slices that nodes begin by themselves.
pub(super) struct Ordered {
    slices: Slices,
    nodes: NodeSet,
}

impl Ordered {
    /// Whether these nodes begin the slice of this number, with this row, without a further strobe.
    fn has(&self, number: u64, row: Row, nodes: &NodeSet, quantum: Option<Duration>) -> bool {
        let index = number.checked_sub(self.slices.strobe.number);
        let index = index.and_then(|index| usize::try_from(index).ok());
        let ordered = index.and_then(|index| self.slices.strobe_of(index));
        ordered.is_some_and(|strobe| strobe.row == row)
            && nodes.is_subset(&self.nodes)
            && quantum.is_some_and(|quantum| nanos(quantum) == self.slices.quantum_ns)
    }

    /// The rows after the slice of this number.
    fn after(&self, number: u64) -> &[Row] {
        let past = number.saturating_sub(self.slices.strobe.number);
        let past = usize::try_from(past).unwrap_or(usize::MAX);
        self.slices.following.get(past..).unwrap_or_default()
    }
}

impl Partition {
    /// A job comes to these nodes.
    pub(super) fn job_comes_to(&mut self, nodes: &NodeSet) {
        let begin_by_themselves = |ordered: &Ordered| nodes.is_subset(&ordered.nodes);
        self.nodes_came |= !self.ordered.as_ref().is_none_or(begin_by_themselves);
    }

    /// A node is gone, and will remember no order when it comes back.
    pub(super) fn node_forgets(&mut self, node: NodeId) {
        if let Some(ordered) = &mut self.ordered {
            ordered.nodes = ordered.nodes.difference(&NodeSet::single(node));
        }
    }

    /// The number of the next strobe, higher than any that a node may have reached by itself.
    fn next_strobe(&mut self) -> u64 {
        let ordered = self.ordered.take().map_or(0, |ordered| ordered.slices.last_number());
        self.strobes = self.strobes.max(ordered) + 1;
        (self.rows_changed, self.nodes_came) = (false, false);
        self.strobes
    }

    /// The rows of the slices that a strobe now would order after its own.
    fn following(&self, span: Duration) -> Vec<Row> {
        let Some(quantum) = self.policy.quantum().filter(|_| self.is_slicing()) else {
            return Vec::new();
        };
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
    /// another. The caller that cuts the slices may sleep through these edges, if it passes them
    /// before it does anything else.
    pub fn slices_ahead(&self, partition: PartitionId) -> usize {
        let entry = &self.partitions[usize::from(partition.0)];
        let is_as_told = !entry.rows_changed && !entry.nodes_came;
        let Some(ordered) = entry.ordered.as_ref().filter(|_| is_as_told) else { return 0 };
        let waits = |live: &LiveJob| live.partition == partition && live.launch == Launch::Staged;
        let quantum = entry.policy.quantum().filter(|_| entry.is_slicing()).map(nanos);
        if quantum != Some(ordered.slices.quantum_ns)
            || self.priorities_are_due(partition)
            || self.live.values().any(waits)
        {
            return 0;
        }
        ordered.after(entry.strobes).len()
    }

    /// Another row becomes active.
    pub(super) fn activate(&mut self, now: Instant, partition: PartitionId, slot: Slot) {
        let row = Row(slot.0);
        let nodes = self.nodes_to_strobe(partition);
        let span = self.config.strobe_span;
        let entry = self.partition(partition);
        entry.active = row;
        entry.early_edge = Some(now);
        let (number, quantum) = (entry.strobes + 1, entry.policy.quantum());
        let ordered = entry.ordered.as_ref().filter(|_| entry.on_grid && !entry.rows_changed);
        if ordered.is_some_and(|ordered| ordered.has(number, row, &nodes, quantum)) {
            entry.strobes = number;
        } else {
            let following = entry.following(span);
            self.strobe(now, partition, nodes, following);
        }
        self.charge_time(now, partition);
    }

    /// Compares the slices that nodes begin by themselves with the policy's present decisions. If
    /// they differ, or if jobs have other rows, the nodes are told to stay in the slice under way
    /// until the next strobe. So each strobe finds the same rows on all nodes of a job.
    pub(super) fn recall_slices(&mut self, now: Instant, partition: PartitionId) {
        let entry = self.partition(partition);
        let Some(ordered) = &entry.ordered else { return };
        let rest = ordered.after(entry.strobes);
        let upcoming = entry.policy.upcoming(rest.len());
        let as_ordered = upcoming.into_iter().map(|slot| Row(slot.0)).eq(rest.iter().copied());
        let quantum = entry.policy.quantum().filter(|_| entry.is_slicing()).map(nanos);
        let in_time = quantum == Some(ordered.slices.quantum_ns);
        if !as_ordered || !in_time || entry.rows_changed {
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

    /// The nodes that begin slices by themselves.
    fn nodes_ahead(&self, partition: PartitionId) -> NodeSet {
        let ordered = &self.partitions[usize::from(partition.0)].ordered;
        self.up(&ordered.as_ref().map(|ordered| ordered.nodes.clone()).unwrap_or_default())
    }

    /// Tells nodes the active row, and the rows that follow.
    fn strobe(
        &mut self,
        now: Instant,
        partition: PartitionId,
        nodes: NodeSet,
        following: Vec<Row>,
    ) {
        // A node that is ahead would not believe the active row in a launch.
        let nodes = nodes.union(&self.nodes_ahead(partition));
        let entry = self.partition(partition);
        let number = entry.next_strobe();
        let strobe = Strobe { partition, row: entry.active, number, issued_ns: now.as_nanos() };
        let quantum_ns = entry.policy.quantum().map_or(0, nanos);
        let slices = Slices { strobe, quantum_ns, following };
        if nodes.is_empty() {
            return;
        }
        if !slices.following.is_empty() {
            entry.ordered = Some(Ordered { slices: slices.clone(), nodes: nodes.clone() });
        }
        self.counters.strobes += 1;
        self.effects.immediate.push(Immediate::Strobe(nodes, slices));
    }

    /// From now on, run time is counted for the launched jobs whose row is active.
    pub(super) fn charge_time(&mut self, now: Instant, partition: PartitionId) {
        let row = self.partitions[usize::from(partition.0)].active;
        for live in self.live.values_mut().filter(|live| live.partition == partition) {
            let started =
                matches!(live.launch, Launch::Launched | Launch::Started | Launch::Recovering);
            live.set_active(now, started && live.rows.contains(row));
        }
    }
}

fn nanos(quantum: Duration) -> u64 {
    u64::try_from(quantum.as_nanos()).unwrap_or(u64::MAX)
}
