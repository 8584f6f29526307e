//! The place of the processes of a job: rank by rank, in blocks on its nodes.
//!
//! The columns of a job ascend with the rank, and columns are numbered node by node. So the ranks
//! of a node are consecutive (Slurm's block distribution). A rank may have several PEs, all on its
//! node.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::{ColumnSet, Machine, NodeIndex, Pe};

/// The consecutive ranks of a job on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeShare {
    /// The node.
    pub node: NodeIndex,
    /// The first rank there.
    pub first_rank: u32,
    /// The number of ranks there.
    pub ranks: u32,
}

impl NodeShare {
    /// The ranks on this node.
    #[must_use]
    pub fn rank_range(&self) -> Range<u32> {
        self.first_rank..self.first_rank.saturating_add(self.ranks)
    }
}

/// The PEs of a job in rank order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    pes: Vec<Pe>,
    /// The PEs of each process, at least one.
    pes_per_proc: u32,
    shares: Vec<NodeShare>,
}

impl Placement {
    /// Places ranks 0, 1, ... on these PEs. `None` when the PEs do not ascend or a PE is not on
    /// this machine.
    #[must_use]
    pub fn new(machine: &Machine, pes: Vec<Pe>) -> Option<Self> {
        Self::with_pes_per_proc(machine, pes, 1)
    }

    /// Places ranks 0, 1, ... on `pes_per_proc` of these PEs each. `None` when the PEs do not
    /// ascend, when a PE is not on this machine, or when a rank would lack PEs or span two nodes.
    #[must_use]
    pub fn with_pes_per_proc(machine: &Machine, pes: Vec<Pe>, pes_per_proc: u32) -> Option<Self> {
        if pes_per_proc == 0 || !pes.is_sorted_by(|a, b| a < b) {
            return None;
        }
        let shares = shares(machine, &pes, pes_per_proc)?;
        Some(Self { pes, pes_per_proc, shares })
    }

    /// Places `procs` ranks on the first of these columns, which must be columns of this machine.
    pub(crate) fn on_columns(machine: &Machine, columns: &ColumnSet, procs: u32) -> Self {
        let mut pes = Vec::with_capacity(procs as usize);
        let mut shares: Vec<NodeShare> = Vec::new();
        for range in columns.ranges() {
            let mut next = range.start;
            let end = range.end.min(next.saturating_add(procs - pes.len() as u32));
            while next < end {
                let node = machine.node_of(Pe(next));
                let node = node.expect("a row has no columns beyond its machine's PEs");
                let last = machine.node(node).map_or(end, |node| node.columns().end.min(end));
                let (first_rank, ranks) = (pes.len() as u32, last - next);
                pes.extend((next..last).map(Pe));
                match shares.last_mut() {
                    Some(share) if share.node == node => share.ranks += ranks,
                    _ => shares.push(NodeShare { node, first_rank, ranks }),
                }
                next = last;
            }
        }
        Self { pes, pes_per_proc: 1, shares }
    }

    /// Places ranks on PEs that a row has chosen: free PEs of this machine, ascending, with the PEs
    /// of each rank on one node.
    pub(crate) fn of_ranks(machine: &Machine, pes: Vec<Pe>, pes_per_proc: u32) -> Self {
        let shares = shares(machine, &pes, pes_per_proc)
            .expect("a row deals out whole processes on columns of its machine");
        Self { pes, pes_per_proc, shares }
    }

    /// The number of processes.
    #[must_use]
    pub fn procs(&self) -> u32 {
        // A placement holds at most MAX_PES PEs.
        self.pes.len() as u32 / self.pes_per_proc.max(1)
    }

    /// The PEs of each process.
    #[must_use]
    pub fn pes_per_proc(&self) -> u32 {
        self.pes_per_proc
    }

    /// The number of nodes of the job.
    #[must_use]
    pub fn node_count(&self) -> u32 {
        self.shares.len() as u32
    }

    /// The job's nodes in rank order.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = NodeIndex> + '_ {
        self.shares.iter().map(|share| share.node)
    }

    /// The share of each node in rank order.
    #[must_use]
    pub fn shares(&self) -> &[NodeShare] {
        &self.shares
    }

    /// Each node with the PEs of its ranks, in rank order.
    pub fn ranks(&self) -> impl ExactSizeIterator<Item = (NodeIndex, &[Pe])> {
        self.shares.iter().map(|share| (share.node, self.pes_of(share)))
    }

    /// The PEs in rank order.
    #[must_use]
    pub fn pes(&self) -> &[Pe] {
        &self.pes
    }

    /// The PEs as a set.
    #[must_use]
    pub fn columns(&self) -> ColumnSet {
        let mut columns = ColumnSet::new();
        for pe in &self.pes {
            columns.push(pe.0..pe.0.saturating_add(1));
        }
        columns
    }

    /// The first PE of a rank.
    #[must_use]
    pub fn pe_of(&self, rank: u32) -> Option<Pe> {
        self.pes_of_ranks(rank..rank.checked_add(1)?).first().copied()
    }

    /// The node of a rank, and the rank's index among the ranks of that node.
    #[must_use]
    pub fn locate(&self, rank: u32) -> Option<(NodeIndex, u32)> {
        let after = self.shares.partition_point(|share| share.first_rank <= rank);
        let share = self.shares.get(after.checked_sub(1)?)?;
        share.rank_range().contains(&rank).then(|| (share.node, rank - share.first_rank))
    }

    /// The share of a node, if the job runs there.
    #[must_use]
    pub fn share_of(&self, node: NodeIndex) -> Option<&NodeShare> {
        let found = self.shares.binary_search_by_key(&node, |share| share.node).ok()?;
        self.shares.get(found)
    }

    fn pes_of(&self, share: &NodeShare) -> &[Pe] {
        self.pes_of_ranks(share.rank_range())
    }

    fn pes_of_ranks(&self, ranks: Range<u32>) -> &[Pe] {
        let first = |rank: u32| rank as usize * self.pes_per_proc as usize;
        // A placement from a damaged journal may claim ranks that it does not have. Such a rank has
        // no PEs, so the lookup does not panic.
        self.pes.get(first(ranks.start)..first(ranks.end)).unwrap_or(&[])
    }
}

/// Groups PEs in rank order by node. `None` when a PE is not on the machine, or when a rank lacks
/// PEs or spans two nodes.
fn shares(machine: &Machine, pes: &[Pe], pes_per_proc: u32) -> Option<Vec<NodeShare>> {
    let mut shares: Vec<NodeShare> = Vec::new();
    let procs = pes.chunks_exact(pes_per_proc as usize);
    if !procs.remainder().is_empty() {
        return None;
    }
    for (rank, own) in (0..).zip(procs) {
        let node = machine.node_of(*own.first()?)?;
        // The PEs ascend. So if the last is on the same node as the first, all are.
        if machine.node_of(*own.last()?)? != node {
            return None;
        }
        match shares.last_mut() {
            Some(share) if share.node == node => share.ranks += 1,
            _ => shares.push(NodeShare { node, first_rank: rank, ranks: 1 }),
        }
    }
    Some(shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_consecutive_on_nodes_of_different_size() {
        let machine = Machine::new([("a", 2), ("b", 1), ("c", 4)]).unwrap();
        let placement =
            Placement::new(&machine, vec![Pe(1), Pe(2), Pe(3), Pe(5)]).expect("ascending PEs");
        let ranks: Vec<_> = placement.ranks().map(|(node, pes)| (node.0, pes.to_vec())).collect();
        assert_eq!(ranks, [(0, vec![Pe(1)]), (1, vec![Pe(2)]), (2, vec![Pe(3), Pe(5)])]);
        assert_eq!(placement.locate(3), Some((NodeIndex(2), 1)));
        assert_eq!(placement.locate(4), None);
        assert_eq!(placement.share_of(NodeIndex(2)).map(|s| s.ranks), Some(2));
    }

    #[test]
    fn a_rank_of_several_pes_has_them_on_one_node() {
        let machine = Machine::uniform(2, 3).unwrap();
        let pes = |columns: &[u32]| columns.iter().map(|&column| Pe(column)).collect::<Vec<_>>();
        let of_two = |columns| Placement::with_pes_per_proc(&machine, pes(columns), 2);
        let placement = of_two(&[0, 2, 3, 4]).expect("two on each node");
        assert_eq!(
            (placement.procs(), placement.pes_per_proc(), placement.node_count()),
            (2, 2, 2)
        );
        assert_eq!([0, 1, 2].map(|rank| placement.pe_of(rank)), [Some(Pe(0)), Some(Pe(3)), None]);
        let ranks: Vec<_> = placement.ranks().map(|(node, own)| (node.0, own.to_vec())).collect();
        assert_eq!(ranks, [(0, pes(&[0, 2])), (1, pes(&[3, 4]))]);
        assert_eq!(of_two(&[0, 1, 2, 3]), None, "the second rank would be on both nodes");
        assert_eq!(of_two(&[0, 1, 2]), None, "the second rank would have one PE");
        assert_eq!(Placement::with_pes_per_proc(&machine, pes(&[0]), 0), None);
    }

    #[test]
    fn pes_that_descend_or_do_not_exist_are_no_placement() {
        let machine = Machine::uniform(2, 2).unwrap();
        assert_eq!(Placement::new(&machine, vec![Pe(1), Pe(0)]), None);
        assert_eq!(Placement::new(&machine, vec![Pe(1), Pe(1)]), None);
        assert_eq!(Placement::new(&machine, vec![Pe(4)]), None);
    }
}
