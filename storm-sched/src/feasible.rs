//! Admission: whether a request can ever run on a partition.
//!
//! Every node counts, up or down. A job that waits for a node to come back is not infeasible. It is
//! pending with the reason [`crate::Shortage::Unavailable`]. Placement agrees: a feasible job fits
//! an empty row of the whole machine.

mod words;

use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::ops::RangeInclusive;

use crate::node_needs::plural;
use crate::{JobRequest, Machine, MemorySize, Node, NodeNeeds, NodeRoom, Room, Shape, Shortfall};
use words::{Having, MemoryOption, MoreNodes, There, Wanted, With};

/// The reason why a request can never run on the partition, and what to try instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Infeasible {
    /// `-n 0`.
    #[error("a job needs at least one process: ask for one or more with -n")]
    ZeroProcs,
    /// `-N 0`.
    #[error("a job needs at least one node: ask for one or more with -N, or leave -N out")]
    ZeroNodes,
    /// `--cpus-per-task 0`.
    #[error("a process needs at least one PE: ask for one or more with --cpus-per-task")]
    ZeroPesPerProc,
    /// `--ntasks-per-node 0`.
    #[error(
        "a node needs room for at least one process: ask for one or more with --ntasks-per-node"
    )]
    ZeroProcsPerNode,
    /// No node has the features.
    #[error(
        "no node of the partition has {}; {}: change --constraint",
        Wanted(.constraint), There(.there)
    )]
    NoSuchFeature {
        /// The constraint.
        constraint: String,
        /// The features of the partition's nodes.
        there: Vec<String>,
    },
    /// The job names a node that the partition does not have.
    #[error("the partition has no node {name}: leave it out of --nodelist")]
    NoSuchNode {
        /// The name.
        name: String,
    },
    /// The job requires a node and excludes it.
    #[error("node {name} is in --nodelist and in --exclude: leave it out of one of them")]
    RequiredAndExcluded {
        /// The node.
        name: String,
    },
    /// The job names more nodes than it asks for, or than it has processes.
    #[error(
        "--nodelist names {}, and the job has {}: name fewer, or ask for more with {}",
        plural(*required, "", "node"),
        plural(*most, "", if *of_nodes { "node" } else { "process" }),
        if *of_nodes { "-N" } else { "-n" }
    )]
    TooManyRequired {
        /// The number of nodes that it names.
        required: u32,
        /// The number of nodes that it asks for, or of its processes.
        most: u32,
        /// Whether that is the number of nodes.
        of_nodes: bool,
    },
    /// A node that the job names cannot take its share.
    #[error(
        "{have} of the {} that --nodelist names can give {}: name larger nodes, or ask for less of \
         each",
        plural(*needed, "", "node"), NodeNeeds { names: false, ..*needs }.for_ranks(*ranks, "")
    )]
    SmallRequired {
        /// The number of nodes that must have so much.
        needed: u32,
        /// The number that have.
        have: u32,
        /// Processes on such a node.
        ranks: u32,
        /// The demands on the nodes.
        needs: NodeNeeds,
    },
    /// All nodes are excluded.
    #[error("--exclude leaves no node of the partition: exclude fewer")]
    AllExcluded,
    /// No node is large enough for one process.
    #[error(
        "--cpus-per-task {asked}: the largest node{} has {}",
        With(.constraint), plural(*.largest, "", "PE")
    )]
    WideProcess {
        /// The PEs of a process.
        asked: u32,
        /// The PEs of the largest node that meets the constraint.
        largest: u32,
        /// The constraint, if any.
        constraint: Option<String>,
    },
    /// No node has that much memory.
    #[error(
        "{} {}: the largest node{} has {}",
        MemoryOption(*.for_pes), MemorySize(*.asked_bytes), With(.constraint),
        MemorySize(*.largest_bytes)
    )]
    LargeMemory {
        /// The PEs of a process, if memory is asked for by PE.
        for_pes: Option<u32>,
        /// The memory that one process needs on its node, in bytes.
        asked_bytes: u64,
        /// The memory of the largest node that meets the constraint, in bytes.
        largest_bytes: u64,
        /// The constraint, if there is one.
        constraint: Option<String>,
    },
    /// No node has everything that a process needs, though each item exists on some node.
    #[error(
        "no node{} has {} for one process: ask for less of one of them",
        With(.constraint), .needs.for_ranks(1, "")
    )]
    NoNodeForOne {
        /// The demands on a node.
        needs: NodeNeeds,
        /// The constraint, if there is one.
        constraint: Option<String>,
    },
    /// The job has more processes than the suitable nodes have room for.
    #[error(
        "{asked} processes were asked for, and nodes{} with {} have room for {room}: \
         ask for at most {room} with -n, or for less of each node",
        With(.constraint), .needs.for_procs("")
    )]
    TooManyForNodes {
        /// The number of processes asked for.
        asked: u32,
        /// The number of processes that fit, over all nodes.
        room: u32,
        /// The demands on the nodes.
        needs: NodeNeeds,
        /// The constraint, if there is one.
        constraint: Option<String>,
    },
    /// Each node would get more processes than `--ntasks-per-node` allows.
    #[error(
        "{procs} processes on {nodes} nodes are more than {most} on each, as --ntasks-per-node \
         allows: ask for at least {} nodes with -N, or for more on each",
        procs.div_ceil(*.most)
    )]
    MoreThanPerNode {
        /// Processes asked for.
        procs: u32,
        /// The number of nodes asked for.
        nodes: u32,
        /// The most processes on each node.
        most: u32,
    },
    /// Too few nodes have room for a block of ranks.
    #[error(
        "{procs} processes on {} put {ranks} on each of {}, and {} of the partition{} {}: {}",
        plural(*.nodes, "", "node"), plural(*.needed, "", "node"),
        plural(*.suitable, "", "node"), With(.constraint),
        Having(*.suitable, .needs.for_ranks(*.ranks, "")), MoreNodes(*.enough_nodes)
    )]
    TooFewNodes {
        /// Processes asked for.
        procs: u32,
        /// Nodes asked for.
        nodes: u32,
        /// The number of processes on each of the fullest nodes.
        ranks: u32,
        /// The number of nodes that must have room for these processes.
        needed: u32,
        /// The number of nodes that have room.
        suitable: u32,
        /// The demands on such a node.
        needs: NodeNeeds,
        /// The constraint, if there is one.
        constraint: Option<String>,
        /// The least number of nodes above `nodes` that would be enough, if any.
        enough_nodes: Option<u32>,
    },
    /// The job has more processes than the partition has PEs.
    #[error(
        "{asked} processes were asked for, and the partition has {} on {}: \
         ask for at most {pes} with -n",
        plural(*pes, "", "PE"),
        plural(*nodes, "", "node")
    )]
    TooManyProcs {
        /// Processes asked for.
        asked: u32,
        /// The number of PEs of the partition.
        pes: u32,
        /// The number of nodes of the partition.
        nodes: u32,
    },
    /// The job asks for more nodes than the partition has.
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
    /// The job has fewer processes than nodes.
    #[error(
        "{} cannot be on {nodes} nodes, one each at least: \
         ask for at least {nodes} with -n, or at most {} with -N",
        plural(*procs, "", "process"),
        plural(*procs, "", "node")
    )]
    FewerProcsThanNodes {
        /// Processes asked for.
        procs: u32,
        /// Nodes asked for.
        nodes: u32,
    },
    /// The nodes are too small for that many processes each.
    #[error(
        "{procs} processes on {} put {ranks} on each of {}, \
         and {large_enough} of the partition's {} have {ranks} PEs or more: {}",
        plural(*nodes, "", "node"),
        plural(*needed, "", "node"),
        plural(*total, "", "node"),
        MoreNodes(*.enough_nodes)
    )]
    TooManyPerNode {
        /// Processes asked for.
        procs: u32,
        /// Nodes asked for.
        nodes: u32,
        /// Processes on each of the fullest nodes.
        ranks: u32,
        /// The number of nodes that must have that many PEs.
        needed: u32,
        /// The number of nodes that have that many PEs.
        large_enough: u32,
        /// Nodes of the partition.
        total: u32,
        /// The least number of nodes above `nodes` that would do, if any.
        enough_nodes: Option<u32>,
    },
}

/// Checks whether a request fits the partition when it is empty and every node is up.
///
/// # Errors
/// The reason why the request can never run.
pub fn feasible(machine: &Machine, request: &JobRequest) -> Result<(), Infeasible> {
    check_numbers(machine, request)?;
    if request.is_plain() {
        return Ok(());
    }
    check_names(machine, request)?;
    check_one_process(machine, request)?;
    let rooms = Rooms::of(machine, request);
    let (asked, room) = (request.procs, rooms.total());
    if room < asked {
        let (needs, constraint) = conditions(request);
        return Err(Infeasible::TooManyForNodes { asked, room, needs, constraint });
    }
    if let Some(nodes) = request.nodes {
        check_blocks(machine, request, nodes, &rooms)?;
    }
    let rooms = machine.nodes().iter().map(NodeRoom::whole);
    match Shape::of(request).shortfall(rooms).map(|lack| (lack, lack.unit)) {
        Some((Shortfall { needed, have, .. }, Room::Required { ranks, needs })) => {
            Err(Infeasible::SmallRequired { needed, have, ranks, needs })
        }
        Some(_) | None => Ok(()),
    }
}

/// The fewest nodes, out of several numbers, on which a request fits the partition when it is empty
/// and every node is up. `None` if it fits on none of these numbers.
pub fn fewest_nodes(
    machine: &Machine,
    request: &JobRequest,
    nodes: RangeInclusive<u32>,
) -> Option<u32> {
    let procs = request.procs;
    let most = (*nodes.end()).min(machine.nodes().len() as u32).min(procs);
    let least = *nodes.start();
    let on = |nodes: u32| request.clone().with_nodes(nodes);
    let fits = |nodes: &u32| feasible(machine, &on(*nodes)).is_ok();
    if least > most {
        return None;
    }
    // A job that asks for no more nodes than it names may have no others.
    if fits(&least) {
        return Some(least);
    }
    let request = on(most);
    if check_names(machine, &request).is_err() || check_one_process(machine, &request).is_err() {
        return None;
    }
    // Each check of a number walks over all nodes, so numbers are left out that cannot do.
    let rooms = Rooms::of(machine, &request);
    let required = machine.nodes().iter().filter(|node| request.requires(node));
    let smallest = required.map(|node| NodeRoom::whole(node).procs_of(&request)).min();
    let may_fit = |nodes: &u32| {
        smallest.is_none_or(|room| room >= procs / nodes) && rooms.can_take(procs, *nodes)
    };
    (least + 1..=most).filter(may_fit).find(fits)
}

/// Checks the nodes that a job names.
fn check_names(machine: &Machine, request: &JobRequest) -> Result<(), Infeasible> {
    let Some(choice) = &request.choice else { return Ok(()) };
    let here: HashSet<&str> = machine.nodes().iter().map(Node::name).collect();
    if let Some(name) = choice.required.iter().find(|name| !here.contains(name.as_str())) {
        return Err(Infeasible::NoSuchNode { name: name.clone() });
    }
    if let Some(name) = choice.required.intersection(&choice.excluded).next() {
        return Err(Infeasible::RequiredAndExcluded { name: name.clone() });
    }
    let required = request.required_nodes();
    let (most, of_nodes) = (request.nodes.unwrap_or(request.procs), request.nodes.is_some());
    if required > most {
        return Err(Infeasible::TooManyRequired { required, most, of_nodes });
    }
    match machine.nodes().iter().all(|node| choice.excluded.contains(node.name())) {
        true => Err(Infeasible::AllExcluded),
        false => Ok(()),
    }
}

/// Checks that do not depend on single nodes.
fn check_numbers(machine: &Machine, request: &JobRequest) -> Result<(), Infeasible> {
    let procs = request.procs;
    let (pes, total) = (machine.pes(), machine.nodes().len() as u32);
    if procs == 0 {
        return Err(Infeasible::ZeroProcs);
    }
    if request.pes_per_proc == 0 {
        return Err(Infeasible::ZeroPesPerProc);
    }
    if request.procs_per_node == Some(0) {
        return Err(Infeasible::ZeroProcsPerNode);
    }
    // This check comes before the check of the processes, because -N alone asks for as many
    // processes.
    match request.nodes {
        Some(0) => return Err(Infeasible::ZeroNodes),
        Some(asked) if asked > total => {
            return Err(Infeasible::TooManyNodes { asked, nodes: total });
        }
        Some(_) | None => {}
    }
    if procs > pes {
        return Err(Infeasible::TooManyProcs { asked: procs, pes, nodes: total });
    }
    let Some(nodes) = request.nodes else { return Ok(()) };
    if nodes > procs {
        return Err(Infeasible::FewerProcsThanNodes { procs, nodes });
    }
    match request.procs_per_node {
        Some(most) if procs.div_ceil(nodes) > most => {
            Err(Infeasible::MoreThanPerNode { procs, nodes, most })
        }
        Some(_) | None => Ok(()),
    }
}

/// Checks whether some node can take one process. If one item alone is missing on every node, the
/// error names only this item.
fn check_one_process(machine: &Machine, request: &JobRequest) -> Result<(), Infeasible> {
    let (needs, constraint) = conditions(request);
    let suitable = || machine.nodes().iter().filter(|node| request.may_have(node));
    if let (Some(constraint), None) = (&constraint, suitable().next()) {
        let mut there: Vec<String> =
            machine.nodes().iter().flat_map(Node::features).cloned().collect();
        there.sort_unstable();
        there.dedup();
        return Err(Infeasible::NoSuchFeature { constraint: constraint.clone(), there });
    }
    if suitable().any(|node| NodeRoom::whole(node).procs_of(request) > 0) {
        return Ok(());
    }
    let (asked, largest) = (request.pes_per_proc, suitable().map(Node::pes).max().unwrap_or(0));
    if asked > largest {
        return Err(Infeasible::WideProcess { asked, largest, constraint });
    }
    let enough = |node: &Node| request.procs_within(node, node.memory_bytes()) > 0;
    let largest = suitable().max_by_key(|node| node.memory_bytes().unwrap_or(u64::MAX));
    match largest.filter(|_| !suitable().any(enough)) {
        Some(node) => Err(large_memory(request, node, constraint)),
        None => Err(Infeasible::NoNodeForOne { needs, constraint }),
    }
}

/// The error if `node`, the node with the most memory, has too little for a process.
fn large_memory(request: &JobRequest, node: &Node, constraint: Option<String>) -> Infeasible {
    Infeasible::LargeMemory {
        for_pes: (request.mem_per_pe_bytes > 0).then_some(request.pes_per_proc),
        asked_bytes: request.memory_on_bytes(node, 1),
        largest_bytes: node.memory_bytes().unwrap_or(u64::MAX),
        constraint,
    }
}

/// Checks whether the blocks of ranks fit, for a job with an exact number of nodes.
fn check_blocks(
    machine: &Machine,
    request: &JobRequest,
    nodes: u32,
    rooms: &Rooms,
) -> Result<(), Infeasible> {
    let procs = request.procs;
    if rooms.can_take(procs, nodes) {
        return Ok(());
    }
    let total = machine.nodes().len() as u32;
    let (ranks, needed) = rooms.lacking(procs, nodes);
    let suitable = rooms.at_least(ranks);
    let enough_nodes = (nodes + 1..=total.min(procs)).find(|&more| rooms.can_take(procs, more));
    Err(match conditions(request) {
        (NodeNeeds::NONE, None) => Infeasible::TooManyPerNode {
            procs,
            nodes,
            ranks,
            needed,
            large_enough: suitable,
            total,
            enough_nodes,
        },
        (needs, constraint) => Infeasible::TooFewNodes {
            procs,
            nodes,
            ranks,
            needed,
            suitable,
            needs,
            constraint,
            enough_nodes,
        },
    })
}

/// The demands on the nodes, with the features by name.
fn conditions(request: &JobRequest) -> (NodeNeeds, Option<String>) {
    let constraint = request.constraint.as_ref().map(|constraint| constraint.to_string());
    // The constraint names the features.
    (NodeNeeds { features: false, ..NodeNeeds::of(request) }, constraint)
}

/// For each node, how many processes of a job it takes, ascending. Used to count the nodes that
/// take at least some number.
struct Rooms(Vec<u32>);

impl Rooms {
    fn of(machine: &Machine, request: &JobRequest) -> Self {
        let room = |node| NodeRoom::whole(node).procs_of(request);
        let mut rooms: Vec<u32> = machine.nodes().iter().map(room).collect();
        rooms.sort_unstable();
        Self(rooms)
    }

    fn total(&self) -> u32 {
        self.0.iter().copied().fold(0, u32::saturating_add)
    }

    fn at_least(&self, procs: u32) -> u32 {
        (self.0.len() - self.0.partition_point(|&room| room < procs)) as u32
    }

    fn can_take(&self, procs: u32, nodes: u32) -> bool {
        self.at_least(procs / nodes) >= nodes && self.at_least(procs / nodes + 1) >= procs % nodes
    }

    /// The block length for which there are too few nodes, and the number of nodes needed.
    fn lacking(&self, procs: u32, nodes: u32) -> (u32, u32) {
        let ranks = procs / nodes;
        if self.at_least(ranks) < nodes { (ranks, nodes) } else { (ranks + 1, procs % nodes) }
    }
}
