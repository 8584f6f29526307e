//! What a modelled application needs of its message passing, buffered or direct.

use crate::BcsError;
use bytes::Bytes;
use std::future::Future;
use std::time::Duration;
use storm_mpi::Rank;
use storm_primitives::Instant;

/// A rank, for [`super::ping_pong`] and [`super::Stencil`].
pub trait Peer {
    /// A message on its way.
    type Request;

    /// This rank.
    fn rank(&self) -> Rank;

    /// The virtual time.
    fn now(&self) -> Instant;

    /// Starts to send.
    ///
    /// # Errors
    /// [`BcsError`].
    fn isend(&self, to: Rank, data: Bytes) -> Result<Self::Request, BcsError>;

    /// Starts to receive up to so many bytes.
    ///
    /// # Errors
    /// [`BcsError`].
    fn irecv(&self, from: Rank, bytes: usize) -> Result<Self::Request, BcsError>;

    /// Waits until it is done.
    ///
    /// # Errors
    /// [`BcsError`].
    fn wait(&self, request: Self::Request) -> impl Future<Output = Result<(), BcsError>>;

    /// Computes for so much time of its processor.
    fn compute(&self, work: Duration) -> impl Future<Output = ()>;
}
