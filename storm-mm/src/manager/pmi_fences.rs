//! The PMI barrier of one job across its nodes: the nodes that have arrived, and their pairs.
//!
//! A node can be in a fence only if all nodes were in the fence before. So nodes are at most one
//! fence apart: some are in the fence after the last that is done, and others still miss the end of
//! the last (`docs/decisions/0157-fences-survive-the-nodes-that-were-in-them.md`).

use crate::job::FencePart;
use std::collections::BTreeMap;
use storm_primitives::{NodeId, NodeSet};
use storm_rm::Rank;

type Pairs = Vec<(String, String)>;

/// The last fence that is done, and the next.
#[derive(Clone, Debug, Default)]
pub(super) struct PmiFences {
    /// The number of the last fence that is known to be done; 0 before the first.
    done: u64,
    /// The nodes that are known to have been in the fence `done`, with their pairs. Under the
    /// manager that has done the fence, these are all nodes of the job.
    last: BTreeMap<NodeId, Pairs>,
    /// The same for the next fence, which is under way.
    next: BTreeMap<NodeId, Pairs>,
    /// Whether a former manager may have done fences that this manager does not know of.
    resumed: bool,
    /// For each node the first of its ranks that will take part in no further fence.
    left: BTreeMap<NodeId, Rank>,
}

impl PmiFences {
    /// The state of a job that a former manager launched. Its nodes report their last two fences.
    /// `parts` are those of lost nodes, from the journal.
    pub(super) fn resumed(parts: impl IntoIterator<Item = (NodeId, Vec<FencePart>)>) -> PmiFences {
        let mut fences = PmiFences { resumed: true, ..PmiFences::default() };
        for (node, parts) in parts {
            for FencePart { sequence, puts } in parts {
                if let Some(arrived) = fences.of(sequence) {
                    arrived.insert(node, puts);
                }
            }
        }
        fences
    }

    /// A node is in fence `sequence`. Returns all pairs in the order of nodes once all `nodes` are
    /// in the fence. Reports of fences that no node can be in are ignored.
    pub(super) fn arrived(
        &mut self,
        sequence: u64,
        node: NodeId,
        puts: Pairs,
        nodes: &NodeSet,
    ) -> Option<Pairs> {
        if !nodes.contains(node) || self.is_known(sequence, nodes) {
            return None;
        }
        self.of(sequence)?.insert(node, puts);
        if sequence != self.done && are_in(&self.next, nodes) {
            self.advance(sequence);
        }
        self.outcome(sequence, nodes)
    }

    /// The pairs of this fence, if the fence is the last that is done and all its pairs are known.
    /// A node whose Node Manager has ended may not have received the pairs.
    pub(super) fn outcome(&self, sequence: u64, nodes: &NodeSet) -> Option<Pairs> {
        let all = self.last.values().flatten();
        self.is_known(sequence, nodes).then(|| all.cloned().collect())
    }

    /// The last fences that a node has reported. Once the node is lost, the journal must have
    /// the report: another node may still miss the end of a fence.
    pub(super) fn parts_of(&self, node: NodeId) -> Vec<FencePart> {
        let numbered = [(self.done, &self.last), (self.done.saturating_add(1), &self.next)];
        let parts = numbered.into_iter().filter_map(|(sequence, arrived)| {
            Some(FencePart { sequence, puts: arrived.get(&node)?.clone() })
        });
        parts.collect()
    }

    /// A rank of this node has ended without having finalized.
    pub(super) fn left(&mut self, node: NodeId, rank: Rank) {
        self.left.entry(node).or_insert(rank);
    }

    /// The rank that nodes wait for in vain, if a rank has left.
    pub(super) fn missing(&self) -> Option<Rank> {
        self.left.iter().find(|(node, _)| self.lacks(**node)).map(|(_, rank)| *rank)
    }

    /// The node that others wait for in vain, among the nodes `over`, on which all ranks have
    /// ended. The ranks of such a node may never have used PMI.
    pub(super) fn missing_node(&self, over: &NodeSet) -> Option<NodeId> {
        over.iter().find(|node| self.lacks(*node))
    }

    /// Whether others are in the next fence and the node is not. A node that this manager has from
    /// a former one reports its fences before it reports that ranks have left or ended.
    fn lacks(&self, node: NodeId) -> bool {
        !self.next.is_empty() && !self.next.contains_key(&node)
    }

    /// Whether this fence is the last that is done, and all its pairs are known.
    fn is_known(&self, sequence: u64, nodes: &NodeSet) -> bool {
        sequence == self.done && self.done > 0 && are_in(&self.last, nodes)
    }

    /// The nodes that are in this fence, if nodes can be in it. A report of a later fence tells a
    /// manager that did not do the fence before that it is done.
    fn of(&mut self, sequence: u64) -> Option<&mut BTreeMap<NodeId, Pairs>> {
        let ahead = sequence.checked_sub(self.done)?;
        if ahead > 1 && self.resumed {
            self.advance(sequence - 1);
        }
        match sequence.checked_sub(self.done)? {
            0 if sequence > 0 => Some(&mut self.last),
            1 => Some(&mut self.next),
            _ => None,
        }
    }

    /// Fences up to `done`, which is ahead, are done.
    fn advance(&mut self, done: u64) {
        let next = std::mem::take(&mut self.next);
        self.last = if done - self.done == 1 { next } else { BTreeMap::new() };
        self.done = done;
    }
}

/// Whether all `nodes` have arrived.
fn are_in(arrived: &BTreeMap<NodeId, Pairs>, nodes: &NodeSet) -> bool {
    arrived.len() >= nodes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_opens_when_all_nodes_are_in_and_only_once() {
        let nodes = NodeSet::compute(2);
        let mut fences = PmiFences::default();
        let put = |key: &str| vec![(key.to_owned(), "v".to_owned())];
        assert_eq!(fences.arrived(1, NodeId(2), put("b"), &nodes), None);
        assert_eq!(fences.arrived(1, NodeId(2), put("b"), &nodes), None);
        assert_eq!(fences.arrived(2, NodeId(1), put("x"), &nodes), None);
        assert_eq!(fences.arrived(1, NodeId(3), put("x"), &nodes), None);
        let all = [put("a"), put("b")].concat();
        assert_eq!(fences.arrived(1, NodeId(1), put("a"), &nodes), Some(all));
        assert_eq!(fences.arrived(1, NodeId(1), put("a"), &nodes), None);
        assert_eq!(fences.arrived(2, NodeId(1), vec![], &nodes), None);
        assert_eq!(fences.arrived(2, NodeId(2), vec![], &nodes), Some(vec![]));
    }

    #[test]
    fn a_fence_of_the_highest_number_is_the_last() {
        let nodes = NodeSet::compute(1);
        let mut fences = PmiFences::resumed([]);
        assert_eq!(fences.arrived(u64::MAX, NodeId(1), vec![], &nodes), Some(vec![]));
        assert_eq!(fences.arrived(u64::MAX, NodeId(1), vec![], &nodes), None);
        assert_eq!(fences.arrived(0, NodeId(1), vec![], &nodes), None);
    }

    #[test]
    fn a_rank_that_left_is_missed_by_those_who_wait_and_by_nobody_else() {
        let nodes = NodeSet::compute(2);
        let mut fences = PmiFences::default();
        fences.left(NodeId(2), Rank(3));
        assert_eq!(fences.missing(), None);
        assert_eq!(fences.arrived(1, NodeId(1), vec![], &nodes), None);
        assert_eq!(fences.missing(), Some(Rank(3)));
        assert_eq!(fences.arrived(1, NodeId(2), vec![], &nodes), Some(vec![]), "it was in it");
        assert_eq!(fences.missing(), None);
    }

    #[test]
    fn a_node_that_is_over_is_missed_until_the_fence_that_it_was_in_is_done() {
        let nodes = NodeSet::compute(2);
        let over = NodeSet::single(NodeId(2));
        let mut fences = PmiFences::default();
        assert_eq!(fences.missing_node(&over), None);
        assert_eq!(fences.arrived(1, NodeId(2), vec![], &nodes), None);
        assert_eq!(fences.missing_node(&over), None, "it was in this one");
        assert_eq!(fences.arrived(1, NodeId(1), vec![], &nodes), Some(vec![]));
        assert_eq!(fences.missing_node(&over), None);
        assert_eq!(fences.arrived(2, NodeId(1), vec![], &nodes), None);
        assert_eq!(fences.missing_node(&over), Some(NodeId(2)));
    }

    #[test]
    fn a_node_that_is_one_fence_ahead_of_another_waits_for_it() {
        let nodes = NodeSet::compute(2);
        let mut fences = PmiFences::resumed([]);
        let put = |key: &str| vec![(key.to_owned(), "v".to_owned())];
        assert_eq!(fences.arrived(2, NodeId(2), put("old"), &nodes), None);
        assert_eq!(fences.arrived(3, NodeId(2), put("b"), &nodes), None);
        assert_eq!(
            fences.arrived(3, NodeId(1), put("a"), &nodes),
            Some([put("a"), put("b")].concat())
        );
        assert_eq!(fences.arrived(4, NodeId(1), put("c"), &nodes), None);
        assert_eq!(
            fences.arrived(4, NodeId(2), put("d"), &nodes),
            Some([put("c"), put("d")].concat())
        );
        assert_eq!(fences.arrived(4, NodeId(2), put("d"), &nodes), None);
        assert_eq!(fences.arrived(5, NodeId(1), vec![], &nodes), None);
        assert_eq!(fences.arrived(5, NodeId(2), vec![], &nodes), Some(vec![]));
    }

    /// A node as a manager sees it: it takes part in so many fences, then its ranks end.
    #[derive(Clone, Debug, Default)]
    struct Node {
        takes_part: u64,
        begun: u64,
        in_fence: bool,
        is_over: bool,
        /// The Node Manager is away: what is sent to it is lost.
        is_away: bool,
        /// The next Node Manager has no part any more; the journal has what this one reported.
        forgot: Option<Vec<FencePart>>,
    }

    /// A job of a few nodes, and its manager.
    #[derive(Debug)]
    struct Job {
        nodes: Vec<Node>,
        fences: PmiFences,
        over: NodeSet,
        /// Whether the manager has ended the job because nodes wait in vain.
        in_vain: bool,
    }

    fn puts(index: usize, sequence: u64) -> Pairs {
        vec![(format!("{index}.{sequence}"), String::new())]
    }

    impl Job {
        fn new(fences: &[u64]) -> Job {
            let node = |takes_part: &u64| Node { takes_part: *takes_part, ..Node::default() };
            let nodes = fences.iter().map(node).collect();
            Job { nodes, fences: PmiFences::default(), over: NodeSet::new(), in_vain: false }
        }

        fn id(index: usize) -> NodeId {
            NodeId(index as u32 + 1)
        }

        fn report_fence(&mut self, index: usize, sequence: u64) {
            let all = NodeSet::compute(self.nodes.len() as u32);
            if let Some(pairs) = self.fences.outcome(sequence, &all) {
                return self.done(index, sequence, &pairs);
            }
            match self.fences.arrived(sequence, Self::id(index), puts(index, sequence), &all) {
                Some(pairs) => {
                    (0..self.nodes.len()).for_each(|node| self.done(node, sequence, &pairs));
                }
                None => self.look_for_missing(),
            }
        }

        fn done(&mut self, index: usize, sequence: u64, pairs: &Pairs) {
            let all: Pairs = (0..self.nodes.len()).flat_map(|node| puts(node, sequence)).collect();
            assert_eq!(pairs, &all);
            let node = &mut self.nodes[index];
            if !node.is_away && node.in_fence && node.begun == sequence {
                node.in_fence = false;
            }
        }

        fn look_for_missing(&mut self) {
            self.in_vain |= self.fences.missing_node(&self.over).is_some();
        }

        /// The ranks of a node go on: into the next fence, or to their end.
        fn goes_on(&mut self, index: usize) {
            let node = &mut self.nodes[index];
            if node.in_fence || node.is_over || node.is_away {
                return;
            }
            if node.begun < node.takes_part {
                node.begun += 1;
                node.in_fence = true;
                let sequence = node.begun;
                return self.report_fence(index, sequence);
            }
            node.is_over = true;
            self.report_over(index);
        }

        fn report_over(&mut self, index: usize) {
            self.over.insert(Self::id(index));
            self.look_for_missing();
        }

        fn leaves(&mut self, index: usize) {
            let parts = self.fences.parts_of(Self::id(index));
            let over = self.over.contains(Self::id(index));
            let node = &mut self.nodes[index];
            node.is_away = true;
            if over && node.forgot.is_none() {
                node.forgot = Some(parts);
            }
        }

        /// The node joins, and repeats what it has reported.
        fn comes(&mut self, index: usize) {
            self.nodes[index].is_away = false;
            let node = self.nodes[index].clone();
            if node.forgot.is_some() {
                return;
            }
            for sequence in node.begun.saturating_sub(1).max(1)..=node.begun {
                self.report_fence(index, sequence);
            }
            if node.is_over {
                self.report_over(index);
            }
        }

        /// The manager restarts, and all nodes must return.
        fn restarts(&mut self) {
            let forgot = self.nodes.iter().enumerate();
            let forgot: Vec<(NodeId, Vec<FencePart>)> = forgot
                .filter_map(|(index, node)| Some((Self::id(index), node.forgot.clone()?)))
                .collect();
            self.over = forgot.iter().map(|(node, _)| *node).collect();
            self.fences = PmiFences::resumed(forgot);
            self.nodes.iter_mut().for_each(|node| node.is_away = true);
        }
    }

    proptest::proptest! {
        /// Regression: a node waited for ever for the end of a fence, since the next manager had
        /// not the pairs of a node that was over and had forgotten them.
        #[test]
        fn no_node_waits_for_ever_whatever_restarts(
            fences in proptest::collection::vec(0..4_u64, 1..4),
            same in proptest::bool::weighted(0.7),
            happenings in proptest::collection::vec((0..10_u8, 0..4_usize), 0..60),
        ) {
            let fences = if same { vec![fences[0]; fences.len()] } else { fences };
            let equal = fences.iter().all(|count| *count == fences[0]);
            let mut job = Job::new(&fences);
            for (what, index) in happenings {
                let index = index % fences.len();
                match what {
                    0 => job.restarts(),
                    1 | 2 => job.leaves(index),
                    3..6 if job.nodes[index].is_away => job.comes(index),
                    _ => job.goes_on(index),
                }
            }
            for _ in 0..10 {
                for index in 0..fences.len() {
                    if job.nodes[index].is_away {
                        job.comes(index);
                    }
                    job.goes_on(index);
                }
            }
            let all_over = job.nodes.iter().all(|node| node.is_over);
            proptest::prop_assert_eq!(job.in_vain, !equal, "{:?}", job);
            proptest::prop_assert_eq!(all_over, equal, "{:?}", job);
        }
    }
}
