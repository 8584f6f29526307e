//! The shape of a request (so many PEs, or so many nodes with equal blocks of
//! ranks) and what a collection of nodes lacks to take it.
//!
//! One arithmetic serves admission (the nodes as they are built), the pending
//! reason (the nodes that are up) and placement (what is free in a row); it
//! does not choose columns.

use serde::{Deserialize, Serialize};

use crate::JobRequest;

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
}

/// What is lacking: `have` of the `needed` units are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortfall {
    /// The unit of the two numbers.
    pub unit: Room,
    /// How many the job needs.
    pub needed: u32,
    /// How many there are; fewer than `needed`.
    pub have: u32,
}

/// The shape of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// That many PEs on whatever nodes.
    Pes(u32),
    /// Blocks of ranks on an exact number of nodes.
    Spread {
        /// Nodes in all.
        nodes: u32,
        /// Ranks on most nodes.
        ranks: u32,
        /// Nodes that take one rank more.
        longer: u32,
    },
}

impl Shape {
    /// The shape of a request. Zero nodes have no shape: [`crate::feasible`]
    /// refuses them before anything is placed, so they count as "any".
    #[must_use]
    pub fn of(request: &JobRequest) -> Self {
        match request.nodes {
            None | Some(0) => Self::Pes(request.procs),
            Some(nodes) => {
                Self::Spread { nodes, ranks: request.procs / nodes, longer: request.procs % nodes }
            }
        }
    }

    /// What nodes with this much room (PEs) each lack to take the shape;
    /// `None` when they can take it.
    pub fn shortfall(self, rooms: impl Iterator<Item = u32>) -> Option<Shortfall> {
        match self {
            Self::Pes(needed) => {
                let have = rooms.fold(0, u32::saturating_add);
                (have < needed).then_some(Shortfall { unit: Room::Pes, needed, have })
            }
            Self::Spread { nodes, ranks, longer } => {
                let (mut fit, mut fit_longer) = (0, 0);
                for room in rooms {
                    fit += u32::from(room >= ranks);
                    fit_longer += u32::from(room > ranks);
                }
                if fit < nodes {
                    Some(Shortfall { unit: Room::NodesOf { ranks }, needed: nodes, have: fit })
                } else if fit_longer < longer {
                    let unit = Room::NodesOf { ranks: ranks + 1 };
                    Some(Shortfall { unit, needed: longer, have: fit_longer })
                } else {
                    None
                }
            }
        }
    }
}
