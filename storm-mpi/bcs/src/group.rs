//! A communicator as the engine knows it: its members, their nodes, and the tree of nodes.

use crate::plan::ROUNDS;
use crate::{BcsConfig, JobKey, block, dyadic};
use std::collections::BTreeMap;
use storm_mpi::Rank;
use storm_primitives::{NodeId, NodeSet};

/// The place of a communicator's collectives in global memory: the same on all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

/// A communicator.
#[derive(Clone, Debug)]
pub struct Group {
    /// The job.
    pub job: JobKey,
    /// Its slot; another communicator has it only when this one is closed on all nodes.
    pub slot: Slot,
    /// Which use of the slot this is, counted from 1: a later one is higher, on all nodes alike.
    pub life: u32,
    /// The members' ranks in the job.
    pub members: Vec<Rank>,
}

/// A communicator and where its members are.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) group: Group,
    /// Ordered by their first member. The first one schedules.
    pub(crate) nodes: Vec<NodeId>,
    pub(crate) set: NodeSet,
    /// By node, the members there.
    pub(crate) local: BTreeMap<NodeId, Vec<u32>>,
    /// Bytes of each reduction that go up the tree in one slice.
    pub(crate) reduce_bytes: usize,
}

/// What a piece takes beside its elements, and what a block of them does.
const PIECE_HEAD_BYTES: u64 = 16;
/// Elements have at most so many bytes, and a part of a reduction is whole elements.
const REDUCE_GRAIN_BYTES: u64 = 16;

impl Placed {
    /// The group with its members where `placement` says, by rank.
    pub(crate) fn new(
        group: Group,
        placement: &[NodeId],
        config: &BcsConfig,
    ) -> Result<Placed, &'static str> {
        let mut nodes = Vec::new();
        let mut local: BTreeMap<NodeId, Vec<u32>> = BTreeMap::new();
        for (member, rank) in group.members.iter().enumerate() {
            let node = *placement.get(rank.index()).ok_or("a member is not in the job")?;
            if !local.contains_key(&node) {
                nodes.push(node);
            }
            local.entry(node).or_default().push(member as u32);
        }
        if nodes.is_empty() {
            return Err("it has no members");
        }
        if nodes.len() > 1 << ROUNDS {
            return Err("its nodes are too many");
        }
        let set = nodes.iter().copied().collect();
        let mut placed = Placed { group, nodes, set, local, reduce_bytes: 0 };
        let pieces = placed.most_pieces() as u64;
        let room = (config.collective_bytes - block::HEAD_BYTES) / pieces;
        let bytes = room.saturating_sub(PIECE_HEAD_BYTES) / REDUCE_GRAIN_BYTES * REDUCE_GRAIN_BYTES;
        if bytes == 0 {
            return Err("a slice has no room for one element of each partial result");
        }
        placed.reduce_bytes = bytes as usize;
        Ok(placed)
    }

    /// The node that asks whether a collective may begin, and where reductions end.
    pub(crate) fn owner(&self) -> NodeId {
        self.nodes[0]
    }

    /// The node of a member.
    pub(crate) fn node_of(&self, member: usize) -> Option<NodeId> {
        let member = member as u32;
        let found = self.local.iter().find(|(_, members)| members.binary_search(&member).is_ok());
        found.map(|(node, _)| *node)
    }

    /// The parent of a node in the tree, and which child of it this is.
    pub(crate) fn parent(&self, node: NodeId) -> Option<(NodeId, u32)> {
        let place = self.place(node)?;
        (place > 0).then(|| (self.nodes[place & (place - 1)], place.trailing_zeros()))
    }

    /// The rounds in which a node has a child.
    pub(crate) fn children(&self, node: NodeId) -> Vec<u32> {
        self.place(node).map_or_else(Vec::new, |place| children(place, self.nodes.len()))
    }

    fn place(&self, node: NodeId) -> Option<usize> {
        self.nodes.iter().position(|n| *n == node)
    }

    /// The most partial results that a node sends up.
    fn most_pieces(&self) -> usize {
        let members = self.group.members.len() as u32;
        let mut most = 1;
        for place in 1..self.nodes.len() {
            let below = place..(place + (1 << place.trailing_zeros())).min(self.nodes.len());
            let held = below.flat_map(|p| self.local[&self.nodes[p]].iter().map(|m| *m..m + 1));
            most = most.max(dyadic::count(members, held));
        }
        most
    }
}

/// The rounds in which the node at `place` of a binomial tree has a child.
fn children(place: usize, nodes: usize) -> Vec<u32> {
    let rounds = if place == 0 { usize::BITS - 1 } else { place.trailing_zeros() };
    (0..rounds).take_while(|round| place + (1 << round) < nodes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_is_the_child_of_its_parent() {
        for nodes in 1..40u32 {
            let placement: Vec<NodeId> = (1..=nodes).map(NodeId).collect();
            let members = (0..nodes).map(Rank).collect();
            let group = Group { job: JobKey(1), slot: Slot(0), life: 1, members };
            let placed = Placed::new(group, &placement, &BcsConfig::default()).expect("fits");
            let mut seen = 1;
            for &node in &placement {
                for round in placed.children(node) {
                    let child = NodeId(node.0 + (1 << round));
                    assert_eq!(placed.parent(child), Some((node, round)));
                    seen += 1;
                }
            }
            assert_eq!(seen, nodes);
            assert_eq!(placed.parent(placed.owner()), None);
        }
    }
}
