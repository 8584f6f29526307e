//! Collectives over bytes, built from point-to-point messages of a context of their own.
//!
//! One binomial tree over all members, rooted at member 0 (at the root for broadcast): the children
//! of relative member `r` are `r + 1, r + 2, r + 4, ...`. With ranks placed in blocks its lower
//! levels stay inside nodes, and it costs `2 (n - 1)` messages where a dissemination barrier costs
//! `n log n`: on nodes with more ranks than processors the number of messages is the time.
//! Reductions combine children in a fixed order, whatever the order of arrival, so that results are
//! the same bits in every run with the same number of members.
//!
//! Under buffered coscheduling the nodes carry out barriers, broadcasts and reductions of numbers, when
//! they are short: one slice where a tree of messages takes several, and the same bits.
//!
//! Knows no datatypes: what an operation makes of two stretches of bytes is a [`Combine`].

mod blocks;
mod everyone;
mod number;
mod reduction;
mod rooted;
mod span;
mod tree;
mod typed;

pub use blocks::{Blocks, BlocksMut};
pub use number::{Number, Reduction};
pub use reduction::Combine;
pub use span::Span;

use crate::engine::RequestId;
use crate::envelope::{Address, Context, Pattern, SendMode, Source, Tag, TagPattern};
use crate::error::CommError;
use crate::process::Process;
use crate::rank::Rank;
use crate::segment::{COLLECTIVE_MAX_BYTES, Call};
use tree::Tree;

/// Tags of the collectives' messages. Successive collectives of one kind cannot mix: messages of a
/// pair do not overtake, and all members call collectives in the same order.
#[derive(Clone, Copy)]
enum Step {
    Up,
    Release,
    Broadcast,
    Reduce,
    ToRoot,
    Gather,
    Scatter,
    Around,
    Exchange,
    Scan,
}

/// The members of a communicator, seen from one of them: who takes part in a collective.
///
/// All members call the same collectives in the same order. Members are named by their place among
/// `members`, which holds their ranks in the job.
#[derive(Clone, Copy)]
pub struct Party<'a> {
    process: &'a Process,
    members: &'a [Rank],
    me: usize,
    context: Context,
}

impl<'a> Party<'a> {
    /// The party of `members`, in whose context only collectives communicate; this process is the
    /// `me`-th of them.
    pub fn new(process: &'a Process, members: &'a [Rank], me: usize, context: Context) -> Self {
        Party { process, members, me, context }
    }

    /// Members.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// This process's place among them.
    pub fn me(&self) -> usize {
        self.me
    }

    /// Lets the nodes carry out a collective of so many bytes, if they do: what came of it for this
    /// member. All members decide alike.
    fn in_slices(&self, bytes: usize, call: Call<'_>) -> Result<Option<Vec<u8>>, CommError> {
        if self.size() < 2 || bytes > COLLECTIVE_MAX_BYTES {
            return Ok(None);
        }
        self.process.collective(self.context, self.members, call)
    }

    fn tree(&self, root: usize) -> Tree {
        Tree::new(self.me, self.size(), root)
    }

    fn rank(&self, member: usize) -> Result<Rank, CommError> {
        let size = self.size() as u32;
        let unknown = || CommError::NoSuchRank { rank: Rank::from_index(member), size };
        self.members.get(member).copied().ok_or_else(unknown)
    }

    fn address(&self, to: usize, step: Step) -> Result<Address, CommError> {
        Ok(Address { to: self.rank(to)?, context: self.context, tag: Tag(step as i32) })
    }

    fn pattern(&self, from: usize, step: Step) -> Result<Pattern, CommError> {
        let (source, tag) = (Source::Rank(self.rank(from)?), TagPattern::Tag(Tag(step as i32)));
        Ok(Pattern { context: self.context, source, tag })
    }

    fn give(&self, data: &[u8], to: usize, step: Step) -> Result<(), CommError> {
        self.process.send(self.address(to, step)?, SendMode::Standard, data)
    }

    /// Receives exactly `into.len()` bytes.
    fn take(&self, into: &mut [u8], from: usize, step: Step) -> Result<(), CommError> {
        let pattern = self.pattern(from, step)?;
        let received = self.process.for_all(|| self.process.recv(pattern, into))?;
        same_length(into.len(), received.status.bytes)
    }

    /// Waits for messages under way; each receive must have got as much as its buffer holds.
    ///
    /// All are waited for, even after a message of the wrong length, so that their memory is free.
    fn finish(&self, requests: &[RequestId]) -> Result<(), CommError> {
        let mut outcome = Ok(());
        for &request in requests {
            if let Some(received) = self.process.for_all(|| self.process.wait(request))? {
                let checked = same_length(received.buffer_bytes, received.status.bytes);
                outcome = outcome.and(checked);
            }
        }
        outcome
    }
}

fn same_length(left: usize, right: usize) -> Result<(), CommError> {
    if left == right { Ok(()) } else { Err(CommError::LengthMismatch { left, right }) }
}
