//! Modelled applications: a ping-pong and a stencil.

use super::peer::Peer;
use crate::BcsError;
use bytes::Bytes;
use std::time::Duration;
use storm_mpi::Rank;
use storm_primitives::Instant;

/// A blocking ping-pong between rank 0 and rank 1. Each computes for the time of `think` before it
/// sends. `arrived` gets, for each message, the time when it was sent and the time when its
/// receiver continued.
///
/// # Errors
/// [`BcsError`].
pub async fn ping_pong<P: Peer>(
    peer: &P,
    rounds: u32,
    bytes: usize,
    mut think: impl FnMut() -> Duration,
    mut sent: impl FnMut(Instant),
    mut arrived: impl FnMut(Instant),
) -> Result<(), BcsError> {
    let first = peer.rank() == Rank(0);
    let other = if first { Rank(1) } else { Rank(0) };
    for turn in 0..2 * rounds {
        // Rank 0 sends in even turns.
        if first == (turn % 2 == 0) {
            peer.compute(think()).await;
            sent(peer.now());
            peer.wait(peer.isend(other, Bytes::from(vec![0; bytes]))?).await?;
        } else {
            peer.wait(peer.irecv(other, bytes)?).await?;
            arrived(peer.now());
        }
    }
    Ok(())
}

/// The way in which a stencil exchanges its borders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// Start the exchange, compute, then wait. The computation does not need the borders of the
    /// same step.
    NonBlocking,
    /// Exchange with one neighbour after the other, then compute.
    Blocking,
}

/// A stencil on a torus. In each step every rank computes and exchanges borders with four
/// neighbours.
#[derive(Clone, Copy, Debug)]
pub struct Stencil {
    /// Ranks along one side.
    pub columns: u32,
    /// Ranks along the other side.
    pub rows: u32,
    /// Number of steps.
    pub steps: u32,
    /// Computation per step.
    pub granularity: Duration,
    /// Bytes of a border.
    pub border_bytes: usize,
    /// The way of exchanging.
    pub exchange: Exchange,
}

impl Stencil {
    /// Runs one rank's part.
    ///
    /// # Errors
    /// [`BcsError`].
    pub async fn run<P: Peer>(&self, peer: &P) -> Result<(), BcsError> {
        for _ in 0..self.steps {
            match self.exchange {
                Exchange::NonBlocking => {
                    let mut requests = Vec::new();
                    for (to, from) in self.neighbours(peer.rank()) {
                        requests.push(peer.irecv(from, self.border_bytes)?);
                        requests.push(peer.isend(to, Bytes::from(vec![0; self.border_bytes]))?);
                    }
                    peer.compute(self.granularity).await;
                    for request in requests {
                        peer.wait(request).await?;
                    }
                }
                Exchange::Blocking => {
                    for (to, from) in self.neighbours(peer.rank()) {
                        let recv = peer.irecv(from, self.border_bytes)?;
                        peer.wait(peer.isend(to, Bytes::from(vec![0; self.border_bytes]))?).await?;
                        peer.wait(recv).await?;
                    }
                    peer.compute(self.granularity).await;
                }
            }
        }
        Ok(())
    }

    /// The receiver of a border and the sender of the opposite border, in four directions.
    fn neighbours(&self, rank: Rank) -> [(Rank, Rank); 4] {
        let (column, row) = (rank.0 % self.columns, rank.0 / self.columns);
        let at =
            |column: u32, row: u32| Rank((row % self.rows) * self.columns + column % self.columns);
        let (east, west) = (at(column + 1, row), at(column + self.columns - 1, row));
        let (south, north) = (at(column, row + 1), at(column, row + self.rows - 1));
        [(east, west), (west, east), (south, north), (north, south)]
    }
}
