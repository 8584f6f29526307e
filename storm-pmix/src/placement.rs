//! The node of each rank, in the terms of PMIx.

use crate::abi::Info;
use crate::info::{InfoValue, info};
use std::path::Path;
use storm_mpi::pmi::ProcessMapping;
use storm_mpi::pmi::mapping::MappingError;

/// The ranks of a job by node, as seen from one of its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    /// The ranks of each node, nodes in order.
    nodes: Vec<Vec<u32>>,
    /// Index of this node.
    own: usize,
    size: u32,
}

impl Placement {
    /// The placement of a job of `size` ranks by `mapping`, seen from the node of `rank`.
    pub(crate) fn new(mapping: &str, size: u32, rank: u32) -> Result<Placement, MappingError> {
        let of_ranks =
            ProcessMapping::parse_of_any_length(mapping)?.nodes_of_ranks(size as usize)?;
        let mut nodes: Vec<Vec<u32>> = Vec::new();
        // Nodes are counted within the job, without gaps, so there are no more than ranks.
        let index = |node: u32| (node as usize).min(size as usize);
        for (rank, node) in (0..).zip(&of_ranks) {
            let index = index(node.0);
            if nodes.len() <= index {
                nodes.resize(index + 1, Vec::new());
            }
            nodes[index].push(rank);
        }
        let own = of_ranks.get(rank as usize).ok_or(MappingError::Empty)?;
        Ok(Placement { own: index(own.0), nodes, size })
    }

    /// Number of ranks in the job.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// Number of nodes of the job.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Index of this node.
    pub(crate) fn own(&self) -> usize {
        self.own
    }

    /// The ranks of this node.
    pub(crate) fn local(&self) -> &[u32] {
        &self.nodes[self.own]
    }

    /// The name of this node. The host's name is not unique, because nodes may share a host.
    pub(crate) fn own_name(&self) -> String {
        node_name(self.own)
    }

    /// The names of all nodes, in the form for `PMIx_generate_regex`.
    pub(crate) fn node_names(&self) -> String {
        (0..self.nodes.len()).map(node_name).collect::<Vec<_>>().join(",")
    }

    /// The ranks of all nodes, in the form for `PMIx_generate_ppn`.
    pub(crate) fn ranks_of_nodes(&self) -> String {
        self.nodes.iter().map(|ranks| comma_separated(ranks)).collect::<Vec<_>>().join(";")
    }

    /// The facts about the job that ranks ask their server for, except the maps of nodes and ranks.
    pub(crate) fn job_info(&self, nspace: &str, directory: &Path) -> Vec<Info> {
        let here = self.local().len() as u32;
        let first = self.local().first().copied().unwrap_or_default();
        let directory = || InfoValue::Text(directory.to_string_lossy().into_owned());
        let mut all = vec![
            info("pmix.jobid", InfoValue::Text(nspace.to_owned())),
            info("pmix.univ.size", InfoValue::U32(self.size)),
            info("pmix.job.size", InfoValue::U32(self.size)),
            info("pmix.max.size", InfoValue::U32(self.size)),
            info("pmix.job.napps", InfoValue::U32(1)),
            info("pmix.app.size", InfoValue::U32(self.size)),
            info("pmix.num.nodes", InfoValue::U32(self.nodes.len() as u32)),
            info("pmix.nodeid", InfoValue::U32(self.own as u32)),
            info("pmix.local.size", InfoValue::U32(here)),
            info("pmix.node.size", InfoValue::U32(here)),
            info("pmix.lpeers", InfoValue::Text(comma_separated(self.local()))),
            info("pmix.lldr", InfoValue::Rank(first)),
            info("pmix.aldr", InfoValue::Rank(0)),
            info("pmix.spawned", InfoValue::Bool(false)),
            info("pmix.tmpdir", directory()),
            info("pmix.nsdir", directory()),
            // The directory belongs to the job, and is removed with it.
            info("pmix.tdir.rmclean", InfoValue::Bool(true)),
        ];
        for (index, ranks) in self.nodes.iter().enumerate() {
            all.extend((0..).zip(ranks).map(|(place, rank)| proc_info(*rank, place, index)));
        }
        all
    }
}

fn proc_info(rank: u32, place: u16, node: usize) -> Info {
    info(
        "pmix.pdata",
        InfoValue::Array(vec![
            // The rank comes first, because the other values belong to it.
            info("pmix.rank", InfoValue::Rank(rank)),
            info("pmix.grank", InfoValue::Rank(rank)),
            info("pmix.apprank", InfoValue::Rank(rank)),
            info("pmix.appnum", InfoValue::U32(0)),
            info("pmix.lrank", InfoValue::U16(place)),
            info("pmix.nrank", InfoValue::U16(place)),
            info("pmix.nodeid", InfoValue::U32(node as u32)),
            info("pmix.hname", InfoValue::Text(node_name(node))),
            info("pmix.reinc", InfoValue::U32(0)),
        ]),
    )
}

fn node_name(index: usize) -> String {
    format!("node{index}")
}

fn comma_separated(ranks: &[u32]) -> String {
    ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_listed_by_node() {
        let placed = Placement::new("(vector,(0,2,2),(2,1,1))", 5, 3).expect("a mapping");
        assert_eq!(placed.ranks_of_nodes(), "0,1;2,3;4");
        assert_eq!(placed.node_names(), "node0,node1,node2");
        assert_eq!((placed.own(), placed.local()), (1, &[2, 3][..]));
        assert_eq!(Placement::new("(vector,(0,1,1))", 0, 0), Err(MappingError::Empty));
        assert_eq!(Placement::new("nonsense", 1, 0), Err(MappingError::Syntax));
    }

    #[test]
    fn a_placement_may_exceed_one_value_of_pmi() {
        let blocks: String =
            (0..3000).map(|node| format!(",({node},1,{})", 1 + node % 2)).collect();
        let placed = Placement::new(&format!("(vector{blocks})"), 4500, 4499).expect("a mapping");
        assert_eq!((placed.nodes(), placed.own(), placed.local()), (3000, 2999, &[4498, 4499][..]));
    }
}
