//! The shape of a request, and the shortfall of nodes that cannot take it. The shape is a number of
//! PEs, or processes on nodes that must be checked individually.
//!
//! One calculation serves three uses: admission (all configured nodes), the pending reason (the
//! nodes that are up) and placement (the free part of a row). It does not choose columns.

use serde::{Deserialize, Serialize};

use crate::node_needs::NodeNeeds;
use crate::{ColumnSet, JobRequest, Node};

/// A unit in which a request is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Room {
    /// Single PEs, wherever they are.
    Pes,
    /// Nodes with room for that many ranks each.
    NodesOf {
        /// Ranks on each such node.
        ranks: u32,
    },
    /// Nodes that meet the job's demands, with room for that many ranks each.
    NodesWith {
        /// Ranks on each such node.
        ranks: u32,
        /// Further demands on the nodes.
        needs: NodeNeeds,
    },
    /// Nodes that the job must have, with room for that many ranks each.
    Required {
        /// Ranks on each such node.
        ranks: u32,
        /// Further demands on the nodes.
        needs: NodeNeeds,
    },
    /// Processes for which nodes that meet the job's demands have room.
    ProcsWith {
        /// The demands on the nodes.
        needs: NodeNeeds,
    },
}

/// A shortfall: only `have` of the `needed` units are available.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortfall {
    /// The unit of the two numbers.
    pub unit: Room,
    /// The number that the job needs.
    pub needed: u32,
    /// The number that is available, less than `needed`.
    pub have: u32,
}

/// The room of a node at some moment.
#[derive(Debug, Clone, Copy)]
pub struct NodeRoom<'a> {
    /// The node.
    pub node: &'a Node,
    /// The number of its free PEs.
    pub free_pes: u32,
    /// The free memory in bytes; `None` when memory is not counted.
    pub free_memory_bytes: Option<u64>,
}

impl<'a> NodeRoom<'a> {
    /// The whole room of a node.
    #[must_use]
    pub fn whole(node: &'a Node) -> Self {
        Self { node, free_pes: node.pes(), free_memory_bytes: node.memory_bytes() }
    }

    /// The most processes of a job that the node takes.
    #[must_use]
    pub fn procs_of(&self, request: &JobRequest) -> u32 {
        let taken = self.free_pes < self.node.pes();
        if !request.may_have(self.node) || (request.exclusive && taken) {
            return 0;
        }
        let procs = self.free_pes / request.pes_per_proc.max(1);
        procs
            .min(request.procs_within(self.node, self.free_memory_bytes))
            .min(request.procs_per_node.unwrap_or(u32::MAX))
    }
}

/// The shape of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape<'a> {
    /// That many PEs on any nodes.
    Pes(u32),
    /// Processes on nodes that must be checked individually.
    OnNodes(&'a JobRequest),
}

/// How the processes of a job are distributed over its nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dealing {
    /// Each node in turn gets as many processes as it takes.
    Fill {
        /// The number of processes in all.
        procs: u32,
    },
    /// Blocks on an exact number of nodes.
    Blocks {
        /// The number of nodes with `ranks` processes.
        shorter: u32,
        /// The number of nodes with one process more.
        longer: u32,
        /// The number of processes on each of the shorter nodes.
        ranks: u32,
    },
}

impl Dealing {
    /// The distribution for a request. [`crate::feasible`] refuses a request of zero nodes before
    /// anything is placed, so zero here counts as "any".
    pub(crate) fn of(request: &JobRequest) -> Self {
        let procs = request.procs;
        match request.nodes {
            None | Some(0) => Self::Fill { procs },
            Some(nodes) => {
                let longer = procs % nodes;
                Self::Blocks { shorter: nodes - longer, longer, ranks: procs / nodes }
            }
        }
    }

    /// Returns how many processes each of these nodes gets, given how many it takes and whether the
    /// job must have the node. `None` if the nodes cannot take the job. The required nodes come
    /// first: each gets at least a process or the shorter block, and no other node gets what a
    /// required node needs.
    pub(crate) fn deal_all(mut self, rooms: &[(u32, bool)]) -> Option<Vec<u32>> {
        let mut dealt = vec![0; rooms.len()];
        let mut required = rooms.iter().filter(|(_, required)| *required).count() as u32;
        for wanted in [true, false] {
            let of_kind = rooms.iter().zip(&mut dealt).filter(|((_, r), _)| *r == wanted);
            for ((room, _), dealt) in of_kind {
                if self.is_done() && !wanted {
                    break;
                }
                required -= u32::from(wanted);
                // A process is left for each required node that follows.
                let room = match self {
                    Self::Fill { procs } => (*room).min(procs.saturating_sub(required)),
                    Self::Blocks { .. } => *room,
                };
                *dealt = self.deal(room);
                if wanted && *dealt == 0 {
                    return None;
                }
            }
        }
        self.is_done().then_some(dealt)
    }

    /// Returns how many processes the next node gets, given that it takes `room` processes.
    pub(crate) fn deal(&mut self, room: u32) -> u32 {
        match self {
            Self::Fill { procs } => {
                let dealt = room.min(*procs);
                *procs -= dealt;
                dealt
            }
            Self::Blocks { longer, ranks, .. } if *longer > 0 && room > *ranks => {
                *longer -= 1;
                *ranks + 1
            }
            Self::Blocks { shorter, ranks, .. } if *shorter > 0 && room >= *ranks => {
                *shorter -= 1;
                *ranks
            }
            Self::Blocks { .. } => 0,
        }
    }

    /// Whether every process has its node.
    pub(crate) fn is_done(self) -> bool {
        match self {
            Self::Fill { procs } => procs == 0,
            Self::Blocks { shorter, longer, .. } => shorter == 0 && longer == 0,
        }
    }
}

impl<'a> Shape<'a> {
    /// The shape of a request.
    #[must_use]
    pub fn of(request: &'a JobRequest) -> Self {
        if request.is_plain() { Self::Pes(request.procs) } else { Self::OnNodes(request) }
    }

    /// The columns that a job keeps busy out of those that it holds. Columns left over by rounding
    /// up are not busy.
    #[must_use]
    pub fn busy(self, columns: &ColumnSet) -> ColumnSet {
        match self {
            Self::Pes(procs) => columns.first(procs),
            Self::OnNodes(_) => columns.clone(),
        }
    }

    /// The shortfall for the shape of nodes with this much room; `None` when they can take it.
    pub fn shortfall<'n>(self, rooms: impl Iterator<Item = NodeRoom<'n>>) -> Option<Shortfall> {
        match self {
            Self::Pes(needed) => {
                let have = rooms.map(|room| room.free_pes).fold(0, u32::saturating_add);
                Self::shortfall_of_pes(needed, have)
            }
            Self::OnNodes(request) => {
                let needs = NodeNeeds::of(request);
                let dealing = Dealing::of(request);
                if request.required_nodes() > 0 {
                    let rooms: Vec<_> = rooms
                        .map(|room| (room.procs_of(request), request.requires(room.node)))
                        .collect();
                    return shortfall_of_required(request.required_nodes(), &rooms, dealing, needs)
                        .or_else(|| {
                            shortfall_of(rooms.iter().map(|(procs, _)| *procs), dealing, needs)
                        });
                }
                let procs = rooms.map(|room| room.procs_of(request));
                shortfall_of(procs, dealing, needs)
            }
        }
    }

    /// The shortfall of that many free PEs, if the shape is [`Shape::Pes`].
    #[must_use]
    pub fn shortfall_of_pes(needed: u32, have: u32) -> Option<Shortfall> {
        (have < needed).then_some(Shortfall { unit: Room::Pes, needed, have })
    }
}

/// The shortfall of nodes that take `procs` processes each, if the job requires no nodes by name.
fn shortfall_of(
    procs: impl Iterator<Item = u32>,
    dealing: Dealing,
    needs: NodeNeeds,
) -> Option<Shortfall> {
    match dealing {
        Dealing::Fill { procs: needed } => {
            let have = procs.fold(0, u32::saturating_add);
            let unit = Room::ProcsWith { needs };
            (have < needed).then_some(Shortfall { unit, needed, have })
        }
        Dealing::Blocks { shorter, longer, ranks } => {
            shortfall_of_blocks(procs, needs, [shorter, longer, ranks])
        }
    }
}

/// The shortfall of the nodes that a job must have. `rooms` are the processes that nodes take, and
/// whether the job must have the node.
fn shortfall_of_required(
    required: u32,
    rooms: &[(u32, bool)],
    dealing: Dealing,
    needs: NodeNeeds,
) -> Option<Shortfall> {
    let with_room = |ranks: u32| {
        rooms.iter().filter(|(room, required)| *required && *room >= ranks).count() as u32
    };
    let (ranks, shorter) = match dealing {
        Dealing::Fill { .. } => (1, required),
        Dealing::Blocks { shorter, ranks, .. } => (ranks, shorter),
    };
    let have = with_room(ranks);
    if have < required {
        return Some(Shortfall { unit: Room::Required { ranks, needs }, needed: required, have });
    }
    // More of them than there are shorter blocks must take a longer one.
    let needed = required.saturating_sub(shorter);
    let (ranks, have) = (ranks + 1, with_room(ranks + 1));
    (have < needed).then_some(Shortfall { unit: Room::Required { ranks, needs }, needed, have })
}

fn shortfall_of_blocks(
    rooms: impl Iterator<Item = u32>,
    needs: NodeNeeds,
    [shorter, longer, ranks]: [u32; 3],
) -> Option<Shortfall> {
    let (mut fit, mut fit_longer) = (0, 0);
    for room in rooms {
        fit += u32::from(room >= ranks);
        fit_longer += u32::from(room > ranks);
    }
    let unit = |ranks| match needs {
        NodeNeeds::NONE => Room::NodesOf { ranks },
        needs => Room::NodesWith { ranks, needs },
    };
    let needed = shorter + longer;
    if fit < needed {
        Some(Shortfall { unit: unit(ranks), needed, have: fit })
    } else if fit_longer < longer {
        Some(Shortfall { unit: unit(ranks + 1), needed: longer, have: fit_longer })
    } else {
        None
    }
}
