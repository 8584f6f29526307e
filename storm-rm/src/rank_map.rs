//! The encoded placement of a job's ranks: runs of consecutive nodes with equally many ranks each.
//! A launch over ten thousand nodes thus takes a few bytes.

use crate::Rank;
use crate::message::NodeRanks;
use serde::{Deserialize, Serialize};
use storm_primitives::{MAX_NODES, NodeId};
use thiserror::Error;

/// Most ranks of a job: ten thousand nodes of a hundred processing elements have room for them.
/// The limit bounds the work for a map that arrives, which may be a few bytes long.
pub const MAX_RANKS: u32 = 1 << 20;

/// Most ranks of a job on one node. A node allocates for each of its ranks before it can check
/// the rest of a map.
pub const MAX_RANKS_PER_NODE: u32 = 1 << 16;

/// The ranks of every node, in order of rank, consecutive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<RankRun>", into = "Vec<RankRun>")]
pub struct RankMap {
    runs: Vec<RankRun>,
}

/// Nodes with consecutive ids and equally many ranks each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankRun {
    /// The first node.
    pub node: NodeId,
    /// How many nodes.
    pub nodes: u32,
    /// The first rank of the first node.
    pub first: Rank,
    /// How many ranks each node has.
    pub count: u32,
}

/// A run without ranks, with impossible nodes or ranks, or with ranks that do not follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "{} nodes from {} with {} ranks each from {} are impossible",
    .0.nodes, .0.node, .0.count, .0.first
)]
pub struct RankRunError(RankRun);

impl RankMap {
    /// The share of each node, in order of rank.
    pub fn iter(&self) -> impl Iterator<Item = NodeRanks> + '_ {
        self.runs.iter().flat_map(|run| (0..run.nodes).map(|index| run.share(index)))
    }

    /// The share of a node, if it has one.
    pub fn of_node(&self, node: NodeId) -> Option<NodeRanks> {
        self.runs.iter().find_map(|run| {
            let index = node.0.checked_sub(run.node.0).filter(|index| *index < run.nodes)?;
            Some(run.share(index))
        })
    }

    /// Number of ranks on all nodes.
    pub fn count(&self) -> u32 {
        self.runs.iter().map(|run| run.nodes * run.count).sum()
    }

    /// The runs, in order of rank.
    pub fn runs(&self) -> &[RankRun] {
        &self.runs
    }
}

impl RankRun {
    fn share(&self, index: u32) -> NodeRanks {
        let first = Rank(self.first.0 + index * self.count);
        NodeRanks { node: NodeId(self.node.0 + index), first, count: self.count }
    }

    /// Whether the share continues this run.
    fn is_continued_by(&self, share: &NodeRanks) -> bool {
        share.count == self.count
            && share.node.0 == self.node.0 + self.nodes
            && share.first.0 == self.first.0 + self.nodes * self.count
    }

    /// The rank after its last, if the run may follow all ranks before `next`.
    fn end(&self, next: Rank) -> Option<Rank> {
        let nodes = self.node.0.checked_add(self.nodes)?;
        let end = self.nodes.checked_mul(self.count)?.checked_add(self.first.0)?;
        let follows = self.first >= next && end <= MAX_RANKS;
        let counts = (1..=MAX_RANKS_PER_NODE).contains(&self.count) && self.nodes > 0;
        (counts && nodes <= MAX_NODES && follows).then_some(Rank(end))
    }
}

impl FromIterator<NodeRanks> for RankMap {
    fn from_iter<I: IntoIterator<Item = NodeRanks>>(shares: I) -> RankMap {
        let mut runs: Vec<RankRun> = Vec::new();
        for share in shares.into_iter().filter(|share| share.count > 0) {
            match runs.last_mut() {
                Some(run) if run.is_continued_by(&share) => run.nodes += 1,
                _ => {
                    let NodeRanks { node, first, count } = share;
                    runs.push(RankRun { node, nodes: 1, first, count });
                }
            }
        }
        RankMap { runs }
    }
}

impl TryFrom<Vec<RankRun>> for RankMap {
    type Error = RankRunError;

    fn try_from(runs: Vec<RankRun>) -> Result<RankMap, RankRunError> {
        let mut next = Rank(0);
        for run in &runs {
            next = run.end(next).ok_or(RankRunError(*run))?;
        }
        Ok(RankMap { runs })
    }
}

impl From<RankMap> for Vec<RankRun> {
    fn from(map: RankMap) -> Vec<RankRun> {
        map.runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(node: u32, first: u32, count: u32) -> NodeRanks {
        NodeRanks { node: NodeId(node), first: Rank(first), count }
    }

    #[test]
    fn equal_shares_of_neighbours_are_one_run_and_come_back() {
        let shares =
            [share(1, 0, 2), share(2, 2, 2), share(3, 4, 1), share(5, 5, 1), share(6, 6, 1)];
        let map: RankMap = shares.iter().cloned().collect();
        assert_eq!(map.runs().len(), 3);
        assert_eq!(map.iter().collect::<Vec<_>>(), shares);
        assert_eq!(map.of_node(NodeId(6)), Some(share(6, 6, 1)));
        assert_eq!(map.of_node(NodeId(4)), None);
        assert_eq!(map.count(), 7);
        let bytes = postcard::to_stdvec(&map).expect("encodes");
        assert_eq!(postcard::from_bytes::<RankMap>(&bytes), Ok(map));
    }

    #[test]
    fn a_large_machine_takes_a_few_bytes() {
        let map: RankMap = (0..16_384).map(|node| share(node + 1, node * 4, 4)).collect();
        assert!(postcard::to_stdvec(&map).expect("encodes").len() < 16);
    }

    #[test]
    fn hostile_runs_are_refused() {
        let run = |node, nodes, first, count| RankRun {
            node: NodeId(node),
            nodes,
            first: Rank(first),
            count,
        };
        for bad in [
            run(1, 0, 0, 1),
            run(1, 1, 0, 0),
            run(1, u32::MAX, 0, 1),
            run(1, 2, u32::MAX - 1, 1),
            run(1, 60_000, 0, 90_000),
            run(1, 1, 0, u32::MAX),
            run(1, 1, MAX_RANKS, 1),
            run(1, 1, 0, MAX_RANKS_PER_NODE + 1),
        ] {
            let bytes = postcard::to_stdvec(&vec![bad]).expect("encodes");
            assert!(postcard::from_bytes::<RankMap>(&bytes).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn runs_of_the_same_ranks_again_and_again_are_refused() {
        let all = RankRun { node: NodeId(1), nodes: 100_000, first: Rank(0), count: 10 };
        let bytes = postcard::to_stdvec(&vec![all; 10_000]).expect("encodes");
        assert!(postcard::from_bytes::<RankMap>(&bytes).is_err());
    }
}
