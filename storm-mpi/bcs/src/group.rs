//! A communicator in the engine: its members, their nodes, and the tree of nodes.

use crate::block_head::HEAD_BYTES;
use crate::{BcsConfig, JobKey, dyadic};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::rc::Rc;
use storm_mpi::{Context, Rank};
use storm_primitives::{NodeId, NodeSet};
use storm_slices::ROUNDS;

/// Bits of a name for the rank of the first member.
const FIRST_BITS: u32 = 20;
/// Bits of a name for the context.
const CONTEXT_BITS: u32 = 11;

/// The name of a communicator in its job, the same at all members. If two communicators with a
/// common member have the same name, one comes after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GroupId(u32);

impl GroupId {
    /// Context 0, from rank 0 on.
    const ALL: GroupId = GroupId(0);

    /// The communicator in this context with the first member `first`. Communicators in the same
    /// context have no member in common. `None` if one of the two numbers is too large.
    pub fn new(context: Context, first: Rank) -> Option<GroupId> {
        let fits = u32::from(context.0) < 1 << CONTEXT_BITS && first.0 < 1 << FIRST_BITS;
        fits.then(|| GroupId(u32::from(context.0) << FIRST_BITS | first.0))
    }
}

/// A communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The communicator's name.
    pub id: GroupId,
    /// The members' ranks in the job.
    pub members: Rc<[Rank]>,
}

impl Group {
    /// All ranks of a job of `ranks` ranks, in context 0.
    pub fn all(ranks: usize) -> Group {
        Group { id: GroupId::ALL, members: (0..ranks).map(Rank::from_index).collect() }
    }
}

/// The key of a communicator, among those of all jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupKey {
    pub(crate) job: JobKey,
    pub(crate) id: GroupId,
}

impl GroupKey {
    /// The communicator as a word, never 0. Only 32 bits of the job's key count: runs of jobs that
    /// are on a node at the same time differ in them.
    pub(crate) fn to_word(self) -> u64 {
        self.job.0 << 32 | 1 << (CONTEXT_BITS + FIRST_BITS) | u64::from(self.id.0)
    }
}

/// Digest of a communicator's members and their order. It has all 256 bits, because malicious ranks
/// may choose both of two lists that should have the same digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MembersDigest([u8; blake3::OUT_LEN]);

impl MembersDigest {
    fn of(members: &[Rank]) -> MembersDigest {
        let mut hasher = blake3::Hasher::new();
        members.iter().for_each(|rank| {
            hasher.update(&rank.0.to_le_bytes());
        });
        MembersDigest(hasher.finalize().into())
    }
}

/// A communicator, and the nodes of its members.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) job: JobKey,
    pub(crate) members: Rc<[Rank]>,
    /// Digest of the members, which nodes compare.
    pub(crate) digest: MembersDigest,
    /// Nodes, ordered by their first member. The first node schedules.
    pub(crate) nodes: Vec<NodeId>,
    pub(crate) set: NodeSet,
    /// Members by node.
    pub(crate) local: BTreeMap<NodeId, Vec<u32>>,
    /// Bytes of each reduction that go up the tree in one slice.
    pub(crate) reduce_bytes: usize,
}

/// Bytes that a piece takes besides its elements; a block of pieces takes as many.
const PIECE_HEAD_BYTES: u64 = 16;
/// Longest element. A part of a reduction consists of whole elements.
const REDUCE_GRAIN_BYTES: u64 = 16;

impl Placed {
    /// Places the members by `placement`, which is indexed by rank. Nodes with the same list get
    /// the same result.
    pub(crate) fn new(
        job: JobKey,
        members: Rc<[Rank]>,
        placement: &[NodeId],
        config: &BcsConfig,
    ) -> Result<Placed, &'static str> {
        let mut nodes = Vec::new();
        let mut local: BTreeMap<NodeId, Vec<u32>> = BTreeMap::new();
        for (member, rank) in members.iter().enumerate() {
            let node = *placement.get(rank.index()).ok_or("a member is not in the job")?;
            if !local.contains_key(&node) {
                nodes.push(node);
            }
            local.entry(node).or_default().push(member as u32);
        }
        if nodes.is_empty() {
            return Err("it has no members");
        }
        if nodes.len() > 1 && config.collective_slots == 0 {
            return Err("there is no place for collectives in global memory");
        }
        if nodes.len() > 1 << ROUNDS {
            return Err("its nodes are too many");
        }
        let set = nodes.iter().copied().collect();
        let digest = MembersDigest::of(&members);
        let mut placed = Placed { job, members, digest, nodes, set, local, reduce_bytes: 0 };
        let pieces = placed.most_pieces() as u64;
        let room = (config.collective_bytes - HEAD_BYTES) / pieces;
        let bytes = room.saturating_sub(PIECE_HEAD_BYTES) / REDUCE_GRAIN_BYTES * REDUCE_GRAIN_BYTES;
        if bytes == 0 {
            return Err("a slice has no room for one element of each partial result");
        }
        placed.reduce_bytes = bytes as usize;
        Ok(placed)
    }

    /// The node that schedules the collectives, and where reductions end.
    pub(crate) fn owner(&self) -> NodeId {
        self.nodes[0]
    }

    /// Whether all members are on one node, which then needs no other node.
    pub(crate) fn is_local(&self) -> bool {
        self.nodes.len() == 1
    }

    pub(crate) fn node_of(&self, member: usize) -> Option<NodeId> {
        let member = member as u32;
        let found = self.local.iter().find(|(_, members)| members.binary_search(&member).is_ok());
        found.map(|(node, _)| *node)
    }

    /// The parent of a node in the tree, and the number of this child.
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

    /// Largest number of partial results that a node sends up.
    fn most_pieces(&self) -> usize {
        let members = self.members.len() as u32;
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
            let config = BcsConfig::default();
            let placed = Placed::new(JobKey(1), members, &placement, &config).expect("fits");
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

    #[test]
    fn lists_of_other_members_or_in_another_order_have_other_digests() {
        let of = |ranks: &[u32]| {
            MembersDigest::of(&ranks.iter().copied().map(Rank).collect::<Vec<_>>()).0
        };
        let lists = [&[0, 1][..], &[0, 1, 2], &[0, 2, 1], &[0, 3], &[0, 1 << 8], &[0, 1 << 16]];
        let different: std::collections::BTreeSet<_> = lists.map(of).into();
        assert_eq!(different.len(), lists.len());
        assert_eq!(of(lists[2]), of(lists[2]));
    }

    #[test]
    fn names_are_words_and_none_is_zero() {
        let key = |job, context, first| {
            let id = GroupId::new(Context(context), Rank(first)).expect("fits");
            GroupKey { job: JobKey(job), id }.to_word()
        };
        let words =
            [key(0, 0, 0), key(0, 0, 1), key(0, 2, 0), key(1, 0, 0), key(0, 2047, 0xf_ffff)];
        assert!(words.iter().all(|word| *word != 0));
        let different: std::collections::BTreeSet<u64> = words.into();
        assert_eq!(different.len(), words.len());
        assert_eq!(GroupId::new(Context(2048), Rank(0)), None);
        assert_eq!(GroupId::new(Context(0), Rank(1 << 20)), None);
    }
}
