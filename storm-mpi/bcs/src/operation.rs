//! What a rank asks of the engine and what it hears back.

use crate::{BcsError, Group, Member};
use bytes::Bytes;
use storm_mpi::collective::Reduction;
use storm_mpi::{Address, Pattern, Status};

/// Names what a rank has posted, on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A descriptor that a rank posts.
#[derive(Clone, Debug)]
pub enum Post {
    /// Send this. It is buffered: the rank may use its memory again at once. Done when the bytes
    /// have left for a matching receive, so every send is synchronous, in the words of MPI.
    Send {
        /// To whom.
        address: Address,
        /// What.
        data: Bytes,
    },
    /// Receive one message.
    Recv {
        /// Which.
        pattern: Pattern,
        /// Bytes that the rank has room for; a longer message is cut.
        bytes: usize,
    },
    /// Take part in the next collective of a communicator.
    Collective {
        /// The communicator.
        group: Group,
        /// What is done.
        call: Collective,
    },
}

/// A collective as one member calls it. Members are counted by their place in the communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Collective {
    /// All have come.
    Barrier,
    /// The root's data for all.
    Broadcast {
        /// The member whose data it is.
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
        /// Who gets the result; everybody when `None`.
        root: Option<usize>,
    },
}

/// A post that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Whose.
    pub member: Member,
    /// Which.
    pub request: RequestId,
    /// What came of it.
    pub outcome: Result<Outcome, BcsError>,
}

/// What came of a post.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A send, a barrier, or a reduction whose result goes to another.
    Done,
    /// A message.
    Received {
        /// What it was; its length may exceed the data's.
        status: Status,
        /// Its bytes, as many as there was room for.
        data: Vec<u8>,
    },
    /// The data of a broadcast or the result of a reduction.
    Data(Vec<u8>),
}
