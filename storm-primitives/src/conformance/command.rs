//! Commands of the suite to a node, and the node's replies.
//!
//! The suite never holds a [`Primitives`](crate::Primitives) handle: its nodes may be other
//! processes or machines. It sends commands to the [`Agent`](super::Agent) of each node.
//! Commands are data, so they can cross a pipe. Bulk data is named by a [`Pattern`] and
//! stays out of the pipe.

use super::Pattern;
use crate::{
    CompareAndWrite, Epoch, EventId, GlobalAddr, Incarnation, NodeId, NodeSet, OutOfBounds,
    PrimitiveError, Signal,
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One request to one node. A node executes its commands concurrently, each
/// started in the order of arrival.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Issues operations in order. The node answers with [`Reply::Issued`] when every operation has
    /// its status.
    Issue {
        /// The operations.
        ops: Vec<Op>,
        /// Whether operations wait for each other.
        pace: Pace,
    },
    /// Issues operations in order. Then makes `stores` on this node's own copy, as soon as the
    /// operations precede its later stores. Answered with [`Reply::Written`].
    IssueThenWrite {
        /// The operations.
        ops: Vec<Op>,
        /// The stores to make then.
        stores: Vec<Store>,
    },
    /// Writes to this node's own copy of global memory, outside the order.
    Write(Vec<Store>),
    /// Reads this node's own copy of global memory.
    Read(Vec<Read>),
    /// TEST-EVENT, polling.
    Poll {
        /// The event to test.
        event: EventId,
    },
    /// TEST-EVENT, blocking. The reads follow at once, before the node does anything else.
    Await {
        /// The event to test.
        event: EventId,
        /// The reads to make as soon as the signal is there.
        then: Vec<Read>,
    },
    /// Takes `signals` signals of an event, one after the other. After each signal it takes a
    /// consistent snapshot of some words that only grow.
    Sample {
        /// The event to test.
        event: EventId,
        /// The number of signals to take.
        signals: u32,
        /// The words to read after each signal.
        words: Vec<GlobalAddr>,
    },
    /// Waits until this node's view of the membership shows a state of a node.
    AwaitMember {
        /// The node waited for.
        node: NodeId,
        /// The state that the view must show.
        presence: Presence,
    },
    /// Requests this node's view of the membership.
    Membership,
}

/// The pace of the operations of one [`Command::Issue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pace {
    /// Each operation is issued once the previous one has its status.
    OneByOne,
    /// All are issued back to back.
    BackToBack,
}

/// One operation of a script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    /// XFER-AND-SIGNAL.
    Xfer {
        /// The nodes to write to.
        dest: NodeSet,
        /// The destination address.
        addr: GlobalAddr,
        /// The bytes to write.
        data: Payload,
        /// Event to signal on the destinations.
        remote_event: Option<EventId>,
        /// How the issuing node observes the status.
        status: Status,
    },
    /// COMPARE-AND-WRITE.
    Caw(CompareAndWrite),
    /// A COMPARE-AND-WRITE whose future is polled once and dropped.
    AbandonedCaw(CompareAndWrite),
}

/// The local event of an XFER-AND-SIGNAL of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// A fresh event; the script waits for it and reports the status.
    Wait,
    /// An event of the layout; the script does not wait for it.
    Event(EventId),
    /// No event.
    Ignore,
    /// A fresh event that is dropped at once, as if the caller were dropped.
    Abandon,
}

/// The bytes of an XFER-AND-SIGNAL or of a write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Payload {
    /// Bytes that travel in the command.
    Bytes(Bytes),
    /// The bytes of a pattern.
    Pattern(Pattern),
}

impl Payload {
    /// A word as the primitives compare it.
    pub fn word(value: u64) -> Payload {
        Payload::Bytes(Bytes::copy_from_slice(&value.to_ne_bytes()))
    }

    /// No data: only a signal.
    pub fn empty() -> Payload {
        Payload::Bytes(Bytes::new())
    }

    /// The bytes themselves.
    pub fn to_bytes(&self) -> Bytes {
        match self {
            Payload::Bytes(bytes) => bytes.clone(),
            Payload::Pattern(pattern) => Bytes::from(pattern.bytes()),
        }
    }
}

/// A write of a node to its own copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Store {
    /// One word, atomically.
    Word(GlobalAddr, u64),
    /// A range of bytes.
    Bytes(GlobalAddr, Payload),
}

/// A read of a node from its own copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Read {
    /// One word, atomically.
    Word(GlobalAddr),
    /// A short range of bytes.
    Bytes(GlobalAddr, u64),
    /// The fingerprint of a range of bytes, for those too long to send.
    Hash(GlobalAddr, u64),
}

/// The result of a [`Read`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Seen {
    /// The value of a word.
    Word(u64),
    /// The bytes.
    Bytes(Bytes),
    /// The fingerprint of the bytes.
    Hash([u8; 32]),
}

/// The states that a view of the membership can show of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Presence {
    /// Not there.
    Gone,
    /// There, in any incarnation.
    There,
    /// There, in a later incarnation than this one.
    After(Incarnation),
}

/// The answer to a [`Command`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// The results of [`Command::Issue`], in the order of the operations.
    Issued(Vec<OpResult>),
    /// [`Command::Write`] is done.
    Written,
    /// The results of [`Command::Read`], in order.
    Seen(Vec<Seen>),
    /// The signal that [`Command::Poll`] took, if any.
    Polled(Option<Signal>),
    /// The signal that [`Command::Await`] took, and the words that it read after the signal.
    Awaited {
        /// The signal.
        signal: Signal,
        /// The results of the reads, in order.
        seen: Vec<Seen>,
    },
    /// The snapshots of [`Command::Sample`], one for each signal.
    Sampled(Vec<Vec<u64>>),
    /// The view of the membership, also the answer to [`Command::AwaitMember`].
    Members {
        /// The version.
        epoch: Epoch,
        /// The live nodes.
        alive: BTreeMap<NodeId, Incarnation>,
    },
    /// A read or write of the suite itself was out of bounds.
    OutOfBounds(OutOfBounds),
}

/// The result of one [`Op`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OpResult {
    /// The status of an XFER-AND-SIGNAL.
    Xfer(Signal),
    /// The answer of a COMPARE-AND-WRITE.
    Caw(Result<bool, PrimitiveError>),
    /// The operation was not waited for.
    Unwatched,
}
