//! Errors as a rank or the management node sees them.

use crate::JobKey;
use storm_mpi::Rank;
use storm_primitives::PrimitiveError;
use thiserror::Error;

/// The reason why communication failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BcsError {
    /// The node has no such job, or has it no longer.
    #[error("job {0:?} does not communicate here: not opened, or over")]
    NoSuchJob(JobKey),
    /// The rank is not in the job, or is not on this node.
    #[error("rank {rank} of job {job:?} is not here")]
    NoSuchRank {
        /// The job.
        job: JobKey,
        /// The rank.
        rank: Rank,
    },
    /// The rank called a collective of a communicator to which it does not belong.
    #[error("a rank called a collective of a communicator to which it does not belong")]
    NotAMember,
    /// The nodes carry out no collectives of such a communicator. All of them give the same answer.
    #[error("nodes carry out no collectives of a communicator of {members} ranks like this: {why}")]
    GroupRefused {
        /// Number of members of the communicator.
        members: usize,
        /// The obstacle.
        why: &'static str,
    },
    /// A rank of the job died or left, so the job's communication is over.
    #[error("a rank of the job has gone")]
    RankGone,
    /// A node of the job died, so the job's communication is over.
    #[error("a node of the job has gone")]
    NodeGone,
    /// Members of a communicator called different collectives, or with different lengths, or named
    /// different members.
    #[error("members of the communicator disagree on its members, the collective or its length")]
    CollectiveMismatch,
    /// A rank wrote bytes that are not a message into the memory that it shares with its node.
    #[error("rank {rank} wrote something that is not a message into its shared memory")]
    BadRank {
        /// The rank.
        rank: Rank,
    },
    /// A node sent bytes that no engine sends.
    #[error("a block from another node cannot be read")]
    Corrupt,
    /// The network failed.
    #[error(transparent)]
    Network(#[from] PrimitiveError),
}
