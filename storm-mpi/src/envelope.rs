//! What messages are told apart by: tag, source, communication context, and the patterns a receiver
//! asks for.

use crate::rank::Rank;

/// A message's tag, chosen by the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub i32);

/// From whom a receive accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Any rank (`MPI_ANY_SOURCE`).
    Any,
    /// This rank.
    Rank(Rank),
}

/// Which tags a receive accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagPattern {
    /// Any tag (`MPI_ANY_TAG`).
    Any,
    /// This tag.
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

/// What a receive learns of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Who sent it.
    pub source: Rank,
    /// Its tag.
    pub tag: Tag,
    /// Its length.
    pub bytes: usize,
}

/// Keeps traffic apart that must never match: that of different communicators, and in each the
/// application's and the collectives'. Two per communicator, see [`crate::comm::ContextId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context(pub u16);

/// A message's head, without its source, which the connection tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) context: Context,
    pub(crate) tag: Tag,
    pub(crate) bytes: usize,
}

/// What a receive accepts.
#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    /// Only messages of this context.
    pub context: Context,
    /// From whom, by its rank in the job.
    pub source: Source,
    /// With which tag.
    pub tag: TagPattern,
}

/// Where a message goes.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    /// To whom, by its rank in the job.
    pub to: Rank,
    /// In which context.
    pub context: Context,
    /// With which tag.
    pub tag: Tag,
}

/// When a send is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMode {
    /// When its data may be reused (`MPI_Send`).
    Standard,
    /// When moreover its receiver has begun to receive it (`MPI_Ssend`).
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
