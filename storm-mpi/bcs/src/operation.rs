//! A rank's posts to the engine, and their outcomes.

use crate::{BcsError, Group, Member};
use bytes::Bytes;
use storm_mpi::collective::Reduction;
use storm_mpi::{Address, Pattern, Status};

/// The number of a post on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A descriptor that a rank posts.
#[derive(Clone, Debug)]
pub enum Post {
    /// Send a message. The message is buffered, so the rank may use its memory again at once. The
    /// post is done when the bytes have left for a matching receive: in the words of MPI, every
    /// send is synchronous.
    Send {
        /// The receiver.
        address: Address,
        /// The message.
        data: Bytes,
    },
    /// Receive one message.
    Recv {
        /// The messages to accept.
        pattern: Pattern,
        /// Bytes that the rank has room for; a longer message is cut.
        bytes: usize,
    },
    /// Take part in the next collective of a communicator.
    Collective {
        /// The communicator.
        group: Group,
        /// The call.
        call: Collective,
    },
}

/// A collective as one member calls it. Members are numbered by their place in the communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Collective {
    /// Wait until all members have come.
    Barrier,
    /// The root's data for all.
    Broadcast {
        /// The member that has the data.
        root: usize,
        /// The data at the root; ignored elsewhere.
        data: Bytes,
    },
    /// The members' elements combined, in the order of the members.
    Reduce {
        /// This member's elements.
        data: Bytes,
        /// How they are combined.
        reduction: Reduction,
        /// The member that gets the result; all members if `None`.
        root: Option<usize>,
    },
}

/// A post that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The member that posted it.
    pub member: Member,
    /// The post.
    pub request: RequestId,
    /// The outcome.
    pub outcome: Result<Outcome, BcsError>,
}

/// The outcome of a post.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A send, a barrier, or a reduction whose result goes to another member.
    Done,
    /// A message.
    Received {
        /// The message's status; the length there may exceed that of the data.
        status: Status,
        /// Its bytes, as many as there was room for.
        data: Vec<u8>,
    },
    /// The data of a broadcast or the result of a reduction.
    Data(Vec<u8>),
}
