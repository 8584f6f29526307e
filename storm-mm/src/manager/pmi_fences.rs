//! The PMI barrier of one job across its nodes: the nodes that have arrived, and their pairs.

use std::collections::BTreeMap;
use storm_primitives::{NodeId, NodeSet};
use storm_rm::Rank;

/// The largest number of fences that the nodes of a job can report: two each, which are at most one
/// apart.
const FENCES_TOLD: usize = 3;

/// The fences under way.
#[derive(Clone, Debug)]
pub(super) struct PmiFences {
    /// The last fence that is done; `None` if only a former manager had its number.
    done: Option<u64>,
    arrived: BTreeMap<u64, BTreeMap<NodeId, Vec<(String, String)>>>,
    /// A rank that will take part in no further fence.
    left: Option<Rank>,
    /// The last fence that is done, with its pairs.
    last: Option<(u64, Vec<(String, String)>)>,
}

impl Default for PmiFences {
    /// The state of a job that has had no fence.
    fn default() -> PmiFences {
        PmiFences { done: Some(0), arrived: BTreeMap::new(), left: None, last: None }
    }
}

impl PmiFences {
    /// The state of a job that a former manager launched. Its nodes report their last two fences: a
    /// fence that is done on one node may be under way on another.
    pub(super) fn resumed() -> PmiFences {
        PmiFences { done: None, arrived: BTreeMap::new(), left: None, last: None }
    }

    /// A node is in fence `sequence`. Returns all pairs in the order of nodes once all `nodes` are
    /// in the fence. Reports of other fences are ignored, since a node cannot be ahead of the
    /// others.
    pub(super) fn arrived(
        &mut self,
        sequence: u64,
        node: NodeId,
        puts: Vec<(String, String)>,
        nodes: &NodeSet,
    ) -> Option<Vec<(String, String)>> {
        let expected = match self.done {
            Some(done) => done.checked_add(1) == Some(sequence),
            None => self.arrived.len() < FENCES_TOLD || self.arrived.contains_key(&sequence),
        };
        if !expected || !nodes.contains(node) {
            return None;
        }
        let arrived = self.arrived.entry(sequence).or_default();
        arrived.insert(node, puts);
        if arrived.len() < nodes.len() {
            return None;
        }
        let complete = self.arrived.remove(&sequence)?;
        // Nodes may be in the next fence already; none is in an earlier one.
        self.arrived.retain(|later, _| *later > sequence);
        if self.arrived.is_empty() {
            self.done = Some(sequence);
        }
        let pairs: Vec<(String, String)> = complete.into_values().flatten().collect();
        self.last = Some((sequence, pairs.clone()));
        Some(pairs)
    }

    /// The pairs of this fence, if the fence is the last that is done. A node whose Node Manager
    /// has ended may not have received the pairs.
    pub(super) fn outcome(&self, sequence: u64) -> Option<Vec<(String, String)>> {
        let (last, pairs) = self.last.as_ref()?;
        (*last == sequence).then(|| pairs.clone())
    }

    /// A rank has ended without having finalized.
    pub(super) fn left(&mut self, rank: Rank) {
        self.left.get_or_insert(rank);
    }

    /// The rank that nodes wait for in vain, if a rank has left. After a change of the manager the
    /// rank is unknown until a fence is done, since the fences that nodes report may be done
    /// already.
    pub(super) fn missing(&self) -> Option<Rank> {
        self.done?;
        self.left.filter(|_| !self.arrived.is_empty())
    }

    /// The node that others wait for in vain, among the nodes `over`, on which all ranks have
    /// ended. The ranks of such a node may never have used PMI.
    pub(super) fn missing_node(&self, over: &NodeSet) -> Option<NodeId> {
        self.done?;
        let (_, arrived) = self.arrived.first_key_value()?;
        over.iter().find(|node| !arrived.contains_key(node))
    }
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
        let mut fences = PmiFences::resumed();
        assert_eq!(fences.arrived(u64::MAX, NodeId(1), vec![], &nodes), Some(vec![]));
        assert_eq!(fences.arrived(u64::MAX, NodeId(1), vec![], &nodes), None);
        assert_eq!(fences.arrived(0, NodeId(1), vec![], &nodes), None);
    }

    #[test]
    fn a_rank_that_left_is_missed_by_those_who_wait_and_by_nobody_else() {
        let nodes = NodeSet::compute(2);
        let mut fences = PmiFences::default();
        fences.left(Rank(3));
        assert_eq!(fences.missing(), None);
        assert_eq!(fences.arrived(1, NodeId(1), vec![], &nodes), None);
        assert_eq!(fences.missing(), Some(Rank(3)));
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
        let mut fences = PmiFences::resumed();
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
}
