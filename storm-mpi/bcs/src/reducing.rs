//! The state of a reduction on one node.

use crate::dyadic::Pieces;
use crate::group::Placed;
use std::collections::BTreeSet;
use storm_mpi::collective::Reduction;
use storm_primitives::NodeSet;

/// A reduction that has begun.
#[derive(Debug)]
pub(crate) struct Reducing {
    pub(crate) bytes: usize,
    pub(crate) reduction: Reduction,
    pub(crate) root: Option<usize>,
    /// The result so far at members that need it. Its length is that of the data at every member.
    pub(crate) result: Vec<u8>,
    /// The part of this slice.
    pub(crate) part: Option<Part>,
}

/// The part of a reduction in one slice.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) bytes: usize,
    pub(crate) pieces: Pieces,
    /// Rounds whose child has not reported yet.
    pub(crate) waiting: BTreeSet<u32>,
    pub(crate) sent: bool,
}

impl Reducing {
    /// A reduction of which nothing is reduced yet.
    pub(crate) fn new(bytes: usize, reduction: Reduction, root: Option<usize>) -> Reducing {
        Reducing { bytes, reduction, root, result: Vec::new(), part: None }
    }

    /// The nodes that get the result.
    pub(crate) fn readers(&self, placed: &Placed) -> NodeSet {
        match self.root {
            None => placed.set.clone(),
            Some(root) => placed.node_of(root).into_iter().collect(),
        }
    }
}
