//! Collectives of members that are neighbours in a grid or a graph (MPI-4.1, section 8.6).

use super::{Blocks, BlocksMut, Party, Step};
use crate::envelope::SendMode;
use crate::error::CommError;

/// The neighbours of one member: who its blocks go to, and who it gets some from.
#[derive(Clone, Debug)]
pub struct Neighbours {
    sources: Vec<Option<usize>>,
    destinations: Vec<Option<usize>>,
    is_grid: bool,
}

impl Neighbours {
    /// In a grid: for each dimension that below and that above; `None` beyond its edges, where blocks are left
    /// alone. In a short ring both may be the same member, or this one.
    pub fn in_grid(below_and_above: Vec<Option<usize>>) -> Self {
        Neighbours {
            sources: below_and_above.clone(),
            destinations: below_and_above,
            is_grid: true,
        }
    }

    /// In a graph. Of several edges between the same two members the first there is the first here.
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

    /// Whom blocks come from.
    pub fn sources(&self) -> &[Option<usize>] {
        &self.sources
    }

    /// Whom blocks go to.
    pub fn destinations(&self) -> &[Option<usize>] {
        &self.destinations
    }

    /// How what goes to a grid's neighbour of that place, and what comes from there, are told apart: what goes up comes
    /// from below. Between two members of a graph messages come in the order of the edges.
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
    /// As [`Party::gather`].
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
