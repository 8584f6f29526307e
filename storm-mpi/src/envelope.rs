//! The envelope of a message (tag, source, communication context) and the patterns of receivers.

use crate::rank::Rank;

/// A message's tag, chosen by the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub i32);

/// The sources that a receive accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Any rank (`MPI_ANY_SOURCE`).
    Any,
    /// Only the given rank.
    Rank(Rank),
}

/// The tags that a receive accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagPattern {
    /// Any tag (`MPI_ANY_TAG`).
    Any,
    /// Only the given tag.
    Tag(Tag),
}

/// Accepts from any rank.
pub const ANY_SOURCE: Source = Source::Any;
/// Accepts any tag.
pub const ANY_TAG: TagPattern = TagPattern::Any;

impl From<Rank> for Source {
    fn from(rank: Rank) -> Self {
        Source::Rank(rank)
    }
}

impl From<Tag> for TagPattern {
    fn from(tag: Tag) -> Self {
        TagPattern::Tag(tag)
    }
}

/// Facts about a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Rank of the sender.
    pub source: Rank,
    /// Tag of the message.
    pub tag: Tag,
    /// Length of the message in bytes.
    pub bytes: usize,
}

/// Separates traffic that must never match: the traffic of different communicators, and within each
/// communicator that of the application and of the collectives. A communicator has two contexts,
/// see [`crate::comm::ContextId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context(pub u16);

/// A message's header without its source, which is known from the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) context: Context,
    pub(crate) tag: Tag,
    pub(crate) bytes: usize,
}

/// The messages that a receive accepts.
#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    /// Only messages of this context.
    pub context: Context,
    /// The accepted source, by its rank in the job.
    pub source: Source,
    /// The accepted tags.
    pub tag: TagPattern,
}

/// The destination of a message.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    /// Receiver, by its rank in the job.
    pub to: Rank,
    /// Context of the message.
    pub context: Context,
    /// Tag of the message.
    pub tag: Tag,
}

/// The condition for a send to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMode {
    /// Its data may be reused (`MPI_Send`).
    Standard,
    /// Its data may be reused, and its receiver has begun to receive it (`MPI_Ssend`).
    Synchronous,
}

impl Pattern {
    pub(crate) fn accepts(&self, from: Rank, envelope: &Envelope) -> bool {
        let source = match self.source {
            Source::Any => true,
            Source::Rank(rank) => rank == from,
        };
        let tag = match self.tag {
            TagPattern::Any => true,
            TagPattern::Tag(tag) => tag == envelope.tag,
        };
        source && tag && self.context == envelope.context
    }
}
