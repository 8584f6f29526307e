//! Errors, one type per operation: joining the job, and communicating in it.

use crate::pmi::client::PmiError;
use crate::pmi::mapping::MappingError;
use crate::rank::Rank;
use std::io;
use thiserror::Error;

/// Why [`crate::World::init`] failed.
#[derive(Debug, Error)]
pub enum InitError {
    /// The conversation with the process manager failed.
    #[error("joining the job through the process manager failed")]
    Pmi(#[from] PmiError),
    /// The placement of ranks on nodes is unusable.
    #[error("placement of the job's ranks is unusable")]
    Mapping(#[from] MappingError),
    /// `PMI_RANK` is not below `PMI_SIZE`.
    #[error("rank {rank} in a job of {size}")]
    RankOutOfJob {
        /// `PMI_RANK`.
        rank: Rank,
        /// `PMI_SIZE`.
        size: u32,
    },
    /// There are more ranks on this node than the shared memory provides for.
    #[error("{ranks} ranks on one node; shared memory connects at most {limit}")]
    TooManyLocalRanks {
        /// Ranks on this node.
        ranks: usize,
        /// The limit.
        limit: usize,
    },
    /// `STORM_NODE_ADDR` is not an IP address.
    #[error("STORM_NODE_ADDR is \"{value}\", which is not an IP address")]
    NodeAddress {
        /// The value found there.
        value: String,
    },
    /// A setting of this library has an invalid value.
    #[error("{variable} has the invalid value \"{value}\"")]
    Setting {
        /// The environment variable.
        variable: &'static str,
        /// The value found there.
        value: String,
    },
    /// The job's first rank published no usable token.
    #[error("the job's rank 0 published no connection token")]
    Token,
    /// The process manager cannot report to the other ranks that several threads of this rank call
    /// the library. Ranks would then agree on different contexts.
    #[error("the process manager did not store that this rank has threads")]
    Threads,
    /// The operating system refused something.
    #[error("{what} failed")]
    Os {
        /// The operation that failed.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// Bytes must be sent by RDMA, and cannot.
    #[error(
        "STORM_MPI_NETWORK=verbs: RDMA is not available; STORM_MPI_NETWORK=auto falls back to TCP"
    )]
    Verbs(#[source] Box<storm_verbs::VerbsError>),
}

impl InitError {
    pub(crate) fn os(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| InitError::Os { what, source }
    }
}

/// Why a communication failed.
#[derive(Debug, Error)]
pub enum CommError {
    /// The peer is gone: its connection closed or was refused.
    #[error("lost rank {rank}")]
    PeerLost {
        /// The peer.
        rank: Rank,
        /// The operating system's error.
        source: io::Error,
    },
    /// The peer cannot be reached at all.
    #[error("cannot reach rank {rank}")]
    Unreachable {
        /// The peer.
        rank: Rank,
        /// The reason.
        source: io::Error,
    },
    /// The peer published no usable address.
    #[error("rank {rank} published no usable address")]
    NoAddress {
        /// The peer.
        rank: Rank,
    },
    /// The peer sent a frame that the protocol does not allow.
    #[error("rank {rank} broke the message protocol: {violation}")]
    Protocol {
        /// The peer.
        rank: Rank,
        /// The broken rule.
        violation: Violation,
    },
    /// A message was longer than the buffer that received it. The buffer contains its beginning.
    #[error("message of {sent_bytes} bytes from rank {rank} into a buffer of {buffer_bytes}")]
    Truncated {
        /// The sender.
        rank: Rank,
        /// Length sent.
        sent_bytes: usize,
        /// Length of the buffer.
        buffer_bytes: usize,
    },
    /// The length of a message is not a multiple of its element's size.
    #[error("message of {sent_bytes} bytes from rank {rank} is not a whole number of elements")]
    PartialElement {
        /// The sender.
        rank: Rank,
        /// Length sent.
        sent_bytes: usize,
    },
    /// There is no such rank.
    #[error("rank {rank} in a job of {size}")]
    NoSuchRank {
        /// The rank asked for.
        rank: Rank,
        /// Ranks in the job.
        size: u32,
    },
    /// Buffers that must have the same length differ in length.
    #[error("two buffers of a collective differ in length: {left} and {right} bytes")]
    LengthMismatch {
        /// Bytes in the first buffer.
        left: usize,
        /// Bytes in the second buffer.
        right: usize,
    },
    /// Every context is in use at some member: the members have too many communicators.
    #[error(
        "no context is free at all members; a process has room for 4096 communicators and as many \
         created in the background"
    )]
    NoContext,
    /// A wait could never end: this process is the only one of the job.
    #[error("the job's only process waits for a message that no process can send")]
    Deadlock,
    /// The job's communication is over, for the reason that its node gives. Only under buffered
    /// coscheduling.
    #[error("the job's communication is over: {reason}")]
    Over {
        /// The reason.
        reason: String,
    },
    /// Communication ended with an earlier error.
    #[error("communication ended with an earlier error")]
    Ended,
    /// The conversation with the process manager failed.
    #[error("process manager failed")]
    Pmi(#[from] PmiError),
    /// Waiting in the kernel failed.
    #[error("waiting for messages failed")]
    Wait(#[source] io::Error),
}

/// The rule of the message protocol that a peer broke.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Violation {
    /// A frame has no known kind.
    #[error("unknown frame kind {kind}")]
    UnknownKind {
        /// The kind.
        kind: u8,
    },
    /// An eager message exceeded the eager limit or the given credit.
    #[error("eager message beyond its credit")]
    OverCredit,
    /// An answer names a request that does not exist.
    #[error("answer to no request")]
    NoSuchRequest,
    /// Shared memory holds nonsense.
    #[error("shared-memory ring holds impossible positions")]
    CorruptRing,
}
