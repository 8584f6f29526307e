//! The message passing interface of a modelled application, buffered or direct.

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

    /// Number of this rank.
    fn rank(&self) -> Rank;

    /// The virtual time.
    fn now(&self) -> Instant;

    /// Starts to send.
    ///
    /// # Errors
    /// [`BcsError`].
    fn isend(&self, to: Rank, data: Bytes) -> Result<Self::Request, BcsError>;

    /// Starts to receive up to `bytes` bytes.
    ///
    /// # Errors
    /// [`BcsError`].
    fn irecv(&self, from: Rank, bytes: usize) -> Result<Self::Request, BcsError>;

    /// Waits until the request is done.
    ///
    /// # Errors
    /// [`BcsError`].
    fn wait(&self, request: Self::Request) -> impl Future<Output = Result<(), BcsError>>;

    /// Computes for `work` of processor time.
    fn compute(&self, work: Duration) -> impl Future<Output = ()>;
}
