//! Collectives of members that are neighbours in a grid or a graph (MPI-4.1, section 8.6).

use super::{Blocks, BlocksMut, Party, Step};
use crate::envelope::SendMode;
use crate::error::CommError;

/// The neighbours of one member: the destinations of its blocks, and the sources of blocks for it.
#[derive(Clone, Debug)]
pub struct Neighbours {
    sources: Vec<Option<usize>>,
    destinations: Vec<Option<usize>>,
    is_grid: bool,
}

impl Neighbours {
    /// The neighbours in a grid: for each dimension, the one below and the one above. `None` stands
    /// for a place beyond the edge; its block is not accessed. In a short ring, both may be the
    /// same member, or this member.
    pub fn in_grid(below_and_above: Vec<Option<usize>>) -> Self {
        Neighbours {
            sources: below_and_above.clone(),
            destinations: below_and_above,
            is_grid: true,
        }
    }

    /// The neighbours in a graph. Several edges between the same two members keep their order.
    pub fn in_graph(
        sources: impl IntoIterator<Item = usize>,
        destinations: impl IntoIterator<Item = usize>,
    ) -> Self {
        Neighbours {
            sources: sources.into_iter().map(Some).collect(),
            destinations: destinations.into_iter().map(Some).collect(),
            is_grid: false,
        }
    }

    /// Members that blocks come from.
    pub fn sources(&self) -> &[Option<usize>] {
        &self.sources
    }

    /// Members that blocks go to.
    pub fn destinations(&self) -> &[Option<usize>] {
        &self.destinations
    }

    /// The steps that distinguish messages to the neighbour at `at` from messages of that
    /// neighbour. In a grid, a message that goes up arrives from below. Between two members of a
    /// graph, messages come in the order of the edges.
    fn steps(&self, at: usize) -> (Step, Step) {
        match at.is_multiple_of(2) {
            _ if !self.is_grid => (Step::ToUpper, Step::ToUpper),
            true => (Step::ToLower, Step::ToUpper),
            false => (Step::ToUpper, Step::ToLower),
        }
    }
}

impl Party<'_> {
    /// Sends each neighbour its block of `from`, and receives one from each.
    ///
    /// # Errors
    /// Like [`Party::gather`].
    pub async fn exchange(
        &self,
        neighbours: &Neighbours,
        from: Blocks<'_>,
        into: &mut BlocksMut<'_>,
    ) -> Result<(), CommError> {
        let Neighbours { sources, destinations, .. } = neighbours;
        let mut requests = Vec::with_capacity(sources.len() + destinations.len());
        for (at, member) in there(sources) {
            let pattern = self.pattern(member, neighbours.steps(at).1)?;
            let place = into.of(at);
            // SAFETY: both stay borrowed until `finish` has waited for all, or the engine ended.
            requests.push(unsafe {
                self.process.start_recv(pattern, place.as_mut_ptr(), place.len())?
            });
        }
        for (at, member) in there(destinations) {
            let address = self.address(member, neighbours.steps(at).0)?;
            let block = from.of(at);
            // SAFETY: as above.
            requests.push(unsafe {
                let (start, bytes) = (block.as_ptr(), block.len());
                self.process.start_send(address, SendMode::Standard, start, bytes)?
            });
        }
        self.finish(&requests).await
    }
}

fn there(neighbours: &[Option<usize>]) -> impl Iterator<Item = (usize, usize)> {
    neighbours.iter().enumerate().filter_map(|(at, &who)| Some((at, who?)))
}
