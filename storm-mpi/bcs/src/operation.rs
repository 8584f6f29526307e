//! Requests of a rank to the engine, and their outcomes.

use crate::{BcsError, Group, Member};
use bytes::Bytes;
use storm_mpi::collective::Reduction;
use storm_mpi::{Address, Pattern, Status};

/// Names a rank's post on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A descriptor that a rank posts.
#[derive(Clone, Debug)]
pub enum Post {
    /// Send a message. The data is buffered, so the rank may reuse its memory at once. The send is
    /// done when the bytes have been sent for a matching receive. In MPI's terms, every send is
    /// synchronous.
    Send {
        /// The receiver.
        address: Address,
        /// The data.
        data: Bytes,
    },
    /// Receive one message.
    Recv {
        /// The accepted messages.
        pattern: Pattern,
        /// Bytes that the rank has room for. A longer message is truncated.
        bytes: usize,
    },
    /// Take part in the next collective of a communicator.
    Collective {
        /// The communicator.
        group: Group,
        /// The collective.
        call: Collective,
    },
}

/// A collective as one member calls it. Members are counted by their place in the communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Collective {
    /// Wait until all members have come.
    Barrier,
    /// Give the root's data to all.
    Broadcast {
        /// The member that has the data.
        root: usize,
        /// The data at the root; ignored elsewhere.
        data: Bytes,
    },
    /// Combine the members' elements, in the order of the members.
    Reduce {
        /// This member's elements.
        data: Bytes,
        /// The operation.
        reduction: Reduction,
        /// The member that gets the result; every member if `None`.
        root: Option<usize>,
    },
}

/// A post that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The member that posted.
    pub member: Member,
    /// The post.
    pub request: RequestId,
    /// The outcome of the post.
    pub outcome: Result<Outcome, BcsError>,
}

/// The outcome of a post.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A send, a barrier, or a reduction with a result for another member.
    Done,
    /// A message.
    Received {
        /// Status of the message. Its length may exceed the data's.
        status: Status,
        /// Bytes of the message, as many as there was room for.
        data: Vec<u8>,
    },
    /// The data of a broadcast or the result of a reduction.
    Data(Vec<u8>),
}
