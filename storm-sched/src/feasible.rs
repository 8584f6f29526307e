//! Admission: whether a request can ever run on a partition.
//!
//! Every node counts as it is built, down or not: a job that waits for a node
//! to come back is not infeasible, it is pending with that reason
//! ([`crate::Shortage::Unavailable`]). Placement agrees: what is feasible fits
//! an empty row of the whole machine.

use serde::{Deserialize, Serialize};

use crate::{JobRequest, Machine, Node};

/// Why a request can never run on the partition, and what to try.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Infeasible {
    /// `-n 0`.
    #[error("a job needs at least one process: ask for one or more with -n")]
    ZeroProcs,
    /// `-N 0`.
    #[error("a job needs at least one node: ask for one or more with -N, or leave -N out")]
    ZeroNodes,
    /// More processes than PEs.
    #[error(
        "{asked} processes were asked for, and the partition has {pes} PEs on {nodes} nodes: \
         ask for at most {pes} with -n"
    )]
    TooManyProcs {
        /// Processes asked for.
        asked: u32,
        /// PEs of the partition.
        pes: u32,
        /// Nodes of the partition.
        nodes: u32,
    },
    /// More nodes than the partition has.
    #[error(
        "{asked} nodes were asked for, and the partition has {nodes}: \
         ask for at most {nodes} with -N"
    )]
    TooManyNodes {
        /// Nodes asked for.
        asked: u32,
        /// Nodes of the partition.
        nodes: u32,
    },
    /// Some node would have no process.
    #[error(
        "{procs} processes cannot be on {nodes} nodes, one each at least: \
         ask for at least {nodes} with -n, or at most {procs} nodes with -N"
    )]
    FewerProcsThanNodes {
        /// Processes asked for.
        procs: u32,
        /// Nodes asked for.
        nodes: u32,
    },
    /// The nodes are too small for that many processes each.
    #[error(
        "{procs} processes on {nodes} nodes put {ranks} on each of {needed} nodes, \
         and {large_enough} of the partition's {total} nodes have {ranks} PEs or more: {}",
        MoreNodes(*.enough_nodes)
    )]
    TooManyPerNode {
        /// Processes asked for.
        procs: u32,
        /// Nodes asked for.
        nodes: u32,
        /// Processes on each of the fullest nodes.
        ranks: u32,
        /// Nodes that must have that many PEs.
        needed: u32,
        /// Nodes that have that many PEs.
        large_enough: u32,
        /// Nodes of the partition.
        total: u32,
        /// The least number of nodes above `nodes` that would do, if any.
        enough_nodes: Option<u32>,
    },
}

/// What to try when nodes are too small.
struct MoreNodes(Option<u32>);

impl std::fmt::Display for MoreNodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(nodes) => write!(f, "ask for {nodes} nodes with -N, or leave -N out"),
            None => write!(f, "leave -N out, or ask for fewer processes with -n"),
        }
    }
}

/// Whether a request fits the partition when it is empty and every node is up.
///
/// # Errors
/// The reason why it never can.
pub fn feasible(machine: &Machine, request: &JobRequest) -> Result<(), Infeasible> {
    let procs = request.procs;
    let (pes, total) = (machine.pes(), machine.nodes().len() as u32);
    if procs == 0 {
        return Err(Infeasible::ZeroProcs);
    }
    if procs > pes {
        return Err(Infeasible::TooManyProcs { asked: procs, pes, nodes: total });
    }
    let Some(nodes) = request.nodes else { return Ok(()) };
    if nodes == 0 {
        return Err(Infeasible::ZeroNodes);
    }
    if nodes > total {
        return Err(Infeasible::TooManyNodes { asked: nodes, nodes: total });
    }
    if nodes > procs {
        return Err(Infeasible::FewerProcsThanNodes { procs, nodes });
    }
    let sizes = Sizes::of(machine);
    if sizes.can_take(procs, nodes) {
        return Ok(());
    }
    let (ranks, needed) = sizes.lacking(procs, nodes);
    let large_enough = sizes.at_least(ranks);
    let enough_nodes = (nodes + 1..=total.min(procs)).find(|&more| sizes.can_take(procs, more));
    Err(Infeasible::TooManyPerNode {
        procs,
        nodes,
        ranks,
        needed,
        large_enough,
        total,
        enough_nodes,
    })
}

/// The sizes of a machine's nodes, ascending, to count those of a size or more.
struct Sizes(Vec<u32>);

impl Sizes {
    fn of(machine: &Machine) -> Self {
        let mut sizes: Vec<u32> = machine.nodes().iter().map(Node::pes).collect();
        sizes.sort_unstable();
        Self(sizes)
    }

    fn at_least(&self, pes: u32) -> u32 {
        (self.0.len() - self.0.partition_point(|&size| size < pes)) as u32
    }

    fn can_take(&self, procs: u32, nodes: u32) -> bool {
        self.at_least(procs / nodes) >= nodes && self.at_least(procs / nodes + 1) >= procs % nodes
    }

    /// The block length of which there are too few nodes, and how many it
    /// takes.
    fn lacking(&self, procs: u32, nodes: u32) -> (u32, u32) {
        let ranks = procs / nodes;
        if self.at_least(ranks) < nodes { (ranks, nodes) } else { (ranks + 1, procs % nodes) }
    }
}
