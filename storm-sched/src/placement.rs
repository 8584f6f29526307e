//! Where the processes of a job run: rank by rank, in blocks on its nodes.
//!
//! The columns of a job ascend with the rank and columns are numbered node by
//! node, so the ranks of one node are consecutive (Slurm's block
//! distribution).

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
    /// How many ranks there are there.
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
    shares: Vec<NodeShare>,
}

impl Placement {
    /// The placement of ranks 0, 1, ... on these PEs, or `None` when the PEs
    /// do not ascend or one of them is not of this machine.
    #[must_use]
    pub fn new(machine: &Machine, pes: Vec<Pe>) -> Option<Self> {
        if !pes.is_sorted_by(|a, b| a < b) {
            return None;
        }
        let shares = shares(machine, &pes)?;
        Some(Self { pes, shares })
    }

    /// The placement of `procs` ranks on the first of these columns, which are
    /// columns of this machine.
    pub(crate) fn on_columns(machine: &Machine, columns: &ColumnSet, procs: u32) -> Self {
        let pes: Vec<Pe> = columns.columns().take(procs as usize).collect();
        let shares = shares(machine, &pes).expect("a row has no columns beyond its machine's PEs");
        Self { pes, shares }
    }

    /// The number of processes.
    #[must_use]
    pub fn procs(&self) -> u32 {
        // A placement holds at most MAX_PES PEs.
        self.pes.len() as u32
    }

    /// The number of nodes.
    #[must_use]
    pub fn node_count(&self) -> u32 {
        self.shares.len() as u32
    }

    /// The nodes in rank order.
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

    /// The PE of a rank.
    #[must_use]
    pub fn pe_of(&self, rank: u32) -> Option<Pe> {
        self.pes.get(rank as usize).copied()
    }

    /// The node of a rank and the rank's number among those of that node.
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
        let ranks = share.rank_range();
        // A placement read from a damaged journal may promise ranks that it
        // does not have; it then has no PEs rather than a panic.
        self.pes.get(ranks.start as usize..ranks.end as usize).unwrap_or(&[])
    }
}

/// Groups PEs in rank order by node; `None` when one is not of the machine.
fn shares(machine: &Machine, pes: &[Pe]) -> Option<Vec<NodeShare>> {
    let mut shares: Vec<NodeShare> = Vec::new();
    for (rank, &pe) in (0..).zip(pes) {
        let node = machine.node_of(pe)?;
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
    fn pes_that_descend_or_do_not_exist_are_no_placement() {
        let machine = Machine::uniform(2, 2).unwrap();
        assert_eq!(Placement::new(&machine, vec![Pe(1), Pe(0)]), None);
        assert_eq!(Placement::new(&machine, vec![Pe(1), Pe(1)]), None);
        assert_eq!(Placement::new(&machine, vec![Pe(4)]), None);
    }
}
