//! Collectives over bytes, built from point-to-point messages in a context of their own.
//!
//! All collectives use a binomial tree over all members, rooted at member 0 (at the root for
//! broadcast): the children of relative member `r` are `r + 1, r + 2, r + 4, ...`. With ranks
//! placed in blocks, its lower levels stay inside nodes. It costs `2 (n - 1)` messages, where a
//! dissemination barrier costs `n log n`. On nodes with more ranks than processors, the number of
//! messages decides the time. Two members swap their data directly (`pair`).
//!
//! Reductions combine children in a fixed order, whatever the order of arrival. The results are
//! therefore the same bits in every run with the same number of members.
//!
//! Under buffered coscheduling, the nodes carry out short barriers, broadcasts and reductions of
//! numbers. They take one slice where a tree of messages takes several, with the same bits. All
//! other collectives take one or two rounds of messages there, within bounds (`at_once`).
//!
//! Each collective is written once, as a future. The future of a [`Party`] that waits is done at
//! its first poll, so [`now`] runs it. The future of a party [in the
//! background](Party::in_background) yields where it would wait, and continues whenever the process
//! moves bytes ([`Process::in_background`]).
//!
//! The module knows no datatypes: a [`Combine`] combines two stretches of bytes.

mod at_once;
mod between;
mod blocks;
mod by_blocks;
mod everyone;
mod neighbours;
mod number;
mod pair;
mod reduction;
mod rooted;
mod span;
mod tree;
mod typed;

pub use between::{Between, Root};
pub use blocks::{Blocks, BlocksMut};
pub use neighbours::Neighbours;
pub use number::{Number, Reduction};
pub use reduction::Combine;
pub use span::Span;

use crate::engine::{Received, RequestId};
use crate::envelope::{Address, Context, Pattern, SendMode, Source, Tag, TagPattern};
use crate::error::CommError;
use crate::process::Process;
use crate::rank::Rank;
use crate::segment::{COLLECTIVE_MAX_BYTES, Call};
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context as TaskContext, Poll, Waker};
use tree::Tree;
pub(crate) use typed::{bytes_of, bytes_of_mut};

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
    ToLower,
    ToUpper,
    AtOnce,
    Swap,
}

/// Tags that a collective may use: more than there are steps.
const STEPS: i32 = 16;
/// Collectives that a communicator may have in the background at once. Memory ends long before, and
/// the tags stay positive.
const TURNS: u32 = 1 << 26;

/// The number of a communicator's collective in the background. All members count alike, because
/// they start the collectives in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Turn(u32);

impl Turn {
    /// The turn of the collective after this one.
    pub fn next(self) -> Turn {
        Turn(self.0 % TURNS + 1)
    }
}

/// The members of a communicator that take part in a collective, seen from one of them.
///
/// All members call the same collectives in the same order. Members are named by their place in
/// `members`, which holds their ranks in the job.
#[derive(Clone, Copy)]
pub struct Party<'a> {
    process: &'a Process,
    members: &'a [Rank],
    me: usize,
    context: Context,
    /// Not 0 in the background: messages of different background collectives interleave.
    turn: Turn,
    /// Whether collectives in one round of messages may be used: a round costs more than a message
    /// does.
    at_once: bool,
    /// Nodes may carry out the party's collectives.
    by_nodes: bool,
    /// Number that separates the party's messages from those of parties with another number.
    apart: Option<u32>,
}

/// Carries out a collective of a party that waits.
///
/// # Errors
/// The collective's.
pub fn now<T, E: From<CommError>>(collective: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    match pin!(collective).poll(&mut TaskContext::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => outcome,
        // The party is in the background, which takes `unsafe` to make.
        Poll::Pending => Err(CommError::Ended.into()),
    }
}

impl<'a> Party<'a> {
    /// The party of `members`, of which this process is the `me`-th. Only collectives may
    /// communicate in the context.
    pub fn new(process: &'a Process, members: &'a [Rank], me: usize, context: Context) -> Self {
        let at_once = process.is_in_slices();
        Party {
            process,
            members,
            me,
            context,
            turn: Turn::default(),
            at_once,
            by_nodes: true,
            apart: None,
        }
    }

    /// This party, with collectives that nodes do not carry out. It is for some processes of a
    /// context in which other processes form a party too: nodes would take the two parties for one.
    pub fn by_messages(self) -> Self {
        Party { by_nodes: false, ..self }
    }

    /// This party, with messages apart from those of the same members in the same context with
    /// another number, or none. Not for the background.
    pub fn apart(self, number: u32) -> Self {
        Party { apart: Some(number), ..self }
    }

    /// This party, with the collectives for jobs whose nodes move messages in slices, or with those
    /// for other jobs. The results are the same. All members have to pass the same value.
    #[cfg(feature = "testing")]
    pub fn at_once(self, at_once: bool) -> Self {
        Party { at_once, ..self }
    }

    /// This party, with collectives that yield instead of waiting.
    ///
    /// # Safety
    /// A future of one of its collectives must be polled until it is done, or until the process's
    /// communication has ended. While it is under way, its own memory and memory that was lent to
    /// it are read and written. [`Process::in_background`] polls as required.
    pub unsafe fn in_background(self, turn: Turn) -> Self {
        Party { turn, ..self }
    }

    /// Whether several threads communicate at any rank of the job.
    ///
    /// # Errors
    /// [`CommError`].
    pub fn has_threads(&self) -> Result<bool, CommError> {
        self.process.job_has_threads()
    }

    /// Number of members.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// This process's place among the members.
    pub fn me(&self) -> usize {
        self.me
    }

    /// A name that tells the party's collective from others at this process, the same at all
    /// members: the place of the party, and the turn.
    pub(crate) fn place_and_turn(&self) -> (usize, usize) {
        let number = self.turn.0.wrapping_add(self.apart.unwrap_or(0));
        (usize::from(self.context.0), number as usize)
    }

    /// Lets the nodes carry out a collective of `bytes` bytes, if they can. Returns the result for
    /// this member. All members decide alike.
    fn in_slices(&self, bytes: usize, call: Call<'_>) -> Result<Option<Vec<u8>>, CommError> {
        // A party in the background does not wait for nodes: all members pass messages.
        let by_messages = !self.by_nodes || self.turn != Turn::default();
        if self.size() < 2 || bytes > COLLECTIVE_MAX_BYTES || by_messages {
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
        Ok(Address { to: self.rank(to)?, context: self.context, tag: self.tag(step) })
    }

    fn pattern(&self, from: usize, step: Step) -> Result<Pattern, CommError> {
        let (source, tag) = (Source::Rank(self.rank(from)?), TagPattern::Tag(self.tag(step)));
        Ok(Pattern { context: self.context, source, tag })
    }

    /// The tag of a step. Collectives of different turns are under way at the same time, and would
    /// otherwise take each other's messages.
    fn tag(&self, step: Step) -> Tag {
        let row = match self.apart {
            None => self.turn.0,
            Some(number) => TURNS + 1 + number % (TURNS - 1),
        };
        Tag(row as i32 * STEPS + step as i32)
    }

    async fn give(&self, data: &[u8], to: usize, step: Step) -> Result<(), CommError> {
        let address = self.address(to, step)?;
        if self.turn == Turn::default() {
            return self.process.send(address, SendMode::Standard, data);
        }
        // SAFETY: `data` stays borrowed until the message is done, or the engine ended.
        let send = unsafe {
            self.process.start_send(address, SendMode::Standard, data.as_ptr(), data.len())?
        };
        self.done(send).await.map(|_| ())
    }

    /// Receives exactly `into.len()` bytes.
    async fn take(&self, into: &mut [u8], from: usize, step: Step) -> Result<(), CommError> {
        let pattern = self.pattern(from, step)?;
        // SAFETY: `into` stays borrowed until the message is done, or the engine ended.
        let recv = unsafe { self.process.start_recv(pattern, into.as_mut_ptr(), into.len())? };
        let received = self.done(recv).await?.ok_or(CommError::Ended)?;
        same_length(into.len(), received.status.bytes)
    }

    /// Waits for messages under way. Each receive must have filled its buffer.
    ///
    /// Waits for all messages, even after a message of the wrong length, so that their memory is
    /// free.
    async fn finish(&self, requests: &[RequestId]) -> Result<(), CommError> {
        let mut outcome = Ok(());
        for &request in requests {
            if let Some(received) = self.done(request).await? {
                let checked = same_length(received.buffer_bytes, received.status.bytes);
                outcome = outcome.and(checked);
            }
        }
        outcome
    }

    /// Waits for a message, or yields until it is done.
    async fn done(&self, request: RequestId) -> Result<Option<Received>, CommError> {
        if self.turn == Turn::default() {
            return self.process.for_all(|| self.process.wait(request));
        }
        let look = |_: &mut TaskContext<'_>| match self.process.step(request) {
            Ok(Some(done)) => Poll::Ready(Ok(done)),
            Ok(None) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        };
        poll_fn(look).await
    }
}

fn same_length(left: usize, right: usize) -> Result<(), CommError> {
    if left == right { Ok(()) } else { Err(CommError::LengthMismatch { left, right }) }
}
