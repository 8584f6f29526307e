//! The tree: members in positions 0, 1, 2, ...; the parent of position `i` is position
//! `(i - 1) / fanout`. Position 0 is the root.
//!
//! A node that joins takes the next position. When a node dies, the node in the last position takes
//! its place. So a change moves few nodes.

use crate::wire::{Member, View};
use std::net::SocketAddr;
use storm_primitives::{NodeId, NodeSet};

/// The members by position.
#[derive(Clone, Debug)]
pub struct Topology {
    fanout: usize,
    positions: Vec<Member>,
}

impl Topology {
    /// An empty tree with `fanout` children per node.
    pub fn new(fanout: u32) -> Topology {
        Topology { fanout: fanout.max(1) as usize, positions: Vec::new() }
    }

    /// The members by position.
    pub fn members(&self) -> &[Member] {
        &self.positions
    }

    /// All members.
    pub fn nodes(&self) -> NodeSet {
        self.positions.iter().map(|member| member.node).collect()
    }

    /// The member with this id.
    pub fn member(&self, node: NodeId) -> Option<&Member> {
        self.positions.iter().find(|member| member.node == node)
    }

    /// Adds a member. Returns its position.
    pub fn add(&mut self, member: Member) -> u32 {
        self.positions.push(member);
        (self.positions.len() - 1) as u32
    }

    /// Removes a member. Returns the position that has a new holder, if there is one.
    pub fn remove(&mut self, node: NodeId) -> Option<u32> {
        let at = self.positions.iter().position(|member| member.node == node)?;
        self.positions.swap_remove(at);
        (at < self.positions.len()).then_some(at as u32)
    }

    /// Takes over a view. Returns false if the view is inconsistent: it has a hole, or a position
    /// beyond the end.
    pub fn apply(&mut self, view: &View) -> bool {
        let len = view.len as usize;
        self.positions.truncate(len);
        for (at, member) in &view.changes {
            match (*at as usize).cmp(&self.positions.len()) {
                std::cmp::Ordering::Less => self.positions[*at as usize] = member.clone(),
                std::cmp::Ordering::Equal => self.positions.push(member.clone()),
                std::cmp::Ordering::Greater => return false,
            }
        }
        self.positions.len() == len
    }

    /// The parent of `node`; `None` for the root and for nodes outside the tree.
    pub fn parent(&self, node: NodeId) -> Option<&Member> {
        let at = self.position(node)?;
        (at > 0).then(|| &self.positions[(at - 1) / self.fanout])
    }

    /// The children of `node`, each with the set of itself and all nodes below it.
    pub fn children(&self, node: NodeId) -> Vec<(NodeId, NodeSet)> {
        let Some(at) = self.position(node) else { return Vec::new() };
        let first = at * self.fanout + 1;
        let end = (first + self.fanout).min(self.positions.len());
        (first..end).map(|child| (self.positions[child].node, self.below(child))).collect()
    }

    /// The listen address of `node`.
    pub fn listen(&self, node: NodeId) -> Option<SocketAddr> {
        self.member(node).map(|member| member.listen)
    }

    fn position(&self, node: NodeId) -> Option<usize> {
        self.positions.iter().position(|member| member.node == node)
    }

    /// The node in position `at` and all nodes below it: level by level, each a contiguous range.
    fn below(&self, at: usize) -> NodeSet {
        let mut nodes = NodeSet::new();
        let (mut first, mut last) = (at, at);
        while first < self.positions.len() {
            let end = last.min(self.positions.len() - 1);
            nodes.extend(self.positions[first..=end].iter().map(|member| member.node));
            (first, last) = (first * self.fanout + 1, last * self.fanout + self.fanout);
        }
        nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use storm_primitives::{Epoch, Incarnation};

    fn member(id: u32) -> Member {
        let listen = SocketAddr::from(([127, 0, 0, 1], 1));
        Member { node: NodeId(id), incarnation: Incarnation(1), listen }
    }

    proptest! {
        #[test]
        fn children_split_the_tree_and_views_carry_changes(
            fanout in 1u32..5,
            size in 1u32..60,
            deaths in prop::collection::vec(1u32..60, 0..20),
        ) {
            let mut tree = Topology::new(fanout);
            let mut copy = Topology::new(fanout);
            for id in 0..size {
                tree.add(member(id));
                copy.add(member(id));
            }
            for dead in deaths {
                let moved = tree.remove(NodeId(dead));
                let changes = moved.map(|at| (at, tree.members()[at as usize].clone()));
                let view = View {
                    epoch: Epoch(0),
                    len: tree.members().len() as u32,
                    changes: changes.into_iter().collect(),
                    stages: vec![],
                    committed: vec![],
                    next_stage: Default::default(),
                };
                prop_assert!(copy.apply(&view));
            }
            prop_assert_eq!(copy.members(), tree.members());
            for member in tree.members() {
                let mut seen = NodeSet::single(member.node);
                for (child, below) in tree.children(member.node) {
                    prop_assert_eq!(tree.parent(child).map(|p| p.node), Some(member.node));
                    prop_assert!(!seen.intersects(&below));
                    seen = seen.union(&below);
                }
                if member.node == NodeId::MM {
                    prop_assert_eq!(seen, tree.nodes());
                }
            }
        }
    }
}
