//! Why a kernel did not come to an answer.

use nix::errno::Errno;
use storm_mpi::CommError;
use storm_mpi::comm::GridError;
use thiserror::Error;

/// Why a kernel did not come to an answer.
#[derive(Debug, Error)]
pub enum Failure {
    /// Arguments that do not fit together, or do not fit the number of ranks.
    #[error("{0}")]
    Arguments(String),
    /// A message failed.
    #[error("communication failed")]
    Communication(#[from] CommError),
    /// The ranks cannot form a grid.
    #[error("the ranks cannot form a grid")]
    Grid(#[from] GridError),
    /// The time that this process computes cannot be read.
    #[error("the clock of this thread cannot be read")]
    Clock(#[from] Errno),
}
