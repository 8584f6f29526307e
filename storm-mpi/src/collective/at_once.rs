//! Collectives in one round of messages: a member sends its data at once to all members that need
//! it, and each of them computes for itself.
//!
//! Under buffered coscheduling, a message takes two slices, whichever member sends it. A tree or a
//! ring of messages takes two slices for each level or member. The collectives of this module are
//! used only there (`docs/decisions/0097`). The members together send more than along a tree, so
//! there are bounds. The bounds are on lengths that all members know to be equal, because all must
//! choose the same way.
//!
//! Reductions combine the same elements in the same order as reductions along a tree or a chain, so
//! the bits are the same.

use super::blocks::BlocksMut;
use super::rooted::copy;
use super::{Blocks, Combine, Party, Span, Step, Tree};
use crate::engine::RequestId;
use crate::envelope::SendMode;
use crate::error::CommError;
use std::iter::{empty, once};
use std::ops::Range;

/// Longest block that one member sends to another: four slices of a node's link. Beyond it, the
/// bytes decide the time of a collective, and trees and rings send fewer of them.
const BLOCK_MAX_BYTES: usize = 1 << 20;
/// Longest data that one member sends, or receives, in a round. With more, a tree's fewer bytes
/// over a link save more slices than a round does. The break-even was measured with 16 ranks on 2
/// nodes, at between 5.6 and 7.5 MiB.
const MEMBER_MAX_BYTES: usize = 6 << 20;
/// The most members that may all send to all: `n (n - 1)` messages.
const ALL_MAX_MEMBERS: usize = 16;
/// Limit of the data that all send to all together, if one member could also collect and distribute
/// it in two rounds. Between two nodes a quarter of it is sent each way, which fits a slice; the
/// second round takes two slices.
const ALL_MAX_BYTES: usize = 1 << 20;
/// With up to this many members on several nodes, a round of messages combines sooner than the
/// nodes would. Nodes wait for a slot and for each other in the slice. Measured: two thirds of the
/// time with 2 and 4 members, more with 8.
const FEW_MEMBERS: usize = 4;

/// Longest message that is sent without a request, if nodes move the bytes.
const PIECE_BYTES: usize = crate::engine::EAGER_MAX_BYTES_BUFFERED;
/// Number of pieces that are sent one after the other: no more than a receiver has credit for.
/// Longer blocks are announced, in one piece.
const PIECES: usize = 3;

impl Party<'_> {
    /// Whether one member sends `bytes` bytes to each other, or receives them from each, in one
    /// round.
    pub(super) fn one_at_once(&self, bytes: usize) -> bool {
        let others = self.size() - 1;
        self.at_once && bytes <= BLOCK_MAX_BYTES && others.saturating_mul(bytes) <= MEMBER_MAX_BYTES
    }

    /// Whether all members send `bytes` bytes to each other in one round.
    pub(super) fn all_at_once(&self, bytes: usize) -> bool {
        self.size() <= ALL_MAX_MEMBERS && self.one_at_once(bytes)
    }

    /// Whether these members are few and on several nodes. All members get the same answer: if one
    /// member finds all on its node, so do the others.
    pub(super) fn are_few_on_several_nodes(&self) -> bool {
        self.size() <= FEW_MEMBERS && !self.process.are_on_this_node(self.members)
    }

    /// Whether all members send `bytes` bytes to each other in one round, although one member could
    /// collect and distribute them.
    fn all_rather_than_one(&self, bytes: usize) -> bool {
        let messages = self.size() * (self.size() - 1);
        self.all_at_once(bytes) && messages.saturating_mul(bytes) <= ALL_MAX_BYTES
    }

    /// Tells all members that all have called.
    pub(super) async fn meet_at_once(&self) -> Result<(), CommError> {
        if self.all_rather_than_one(0) {
            return self
                .round(self.others().map(nothing), self.others().map(|m| (m, &[][..])))
                .await;
        }
        if self.me == 0 {
            self.round(self.others().map(nothing), empty()).await?;
            return self.round(empty(), self.others().map(|m| (m, &[][..]))).await;
        }
        self.round(once(nothing(0)), once((0, &[][..]))).await
    }

    /// Gives every other member `data`.
    pub(super) async fn tell_at_once(&self, data: &[u8]) -> Result<(), CommError> {
        self.round(empty(), self.others().map(|m| (m, data))).await
    }

    /// Takes data that the root gives by [`Party::tell_at_once`].
    pub(super) async fn told_at_once(&self, data: &mut [u8], root: usize) -> Result<(), CommError> {
        self.round(once((root, data)), empty()).await
    }

    /// Brings every member's block, which is already in its place, to all.
    pub(super) async fn allgather_at_once(
        &self,
        into: &mut BlocksMut<'_>,
    ) -> Result<(), CommError> {
        let mut requests = Vec::new();
        let own = into.of(self.me);
        let (own, own_bytes) = (own.as_mut_ptr(), own.len());
        for member in self.others() {
            let place = into.of(member);
            // SAFETY: `into` stays borrowed until `finish` has waited for all, or the engine ended.
            // The own place is only read, and no other place overlaps it.
            unsafe { self.start_take(&mut requests, member, place.as_mut_ptr(), place.len())? };
        }
        for member in self.others() {
            // SAFETY: as above.
            unsafe { self.start_give(&mut requests, member, own, own_bytes)? };
        }
        self.finish(&requests).await
    }

    /// Combines all members' elements at `root`; elsewhere there is no result.
    pub(super) async fn reduce_at_once(
        &self,
        mine: Span,
        op: &mut dyn Combine,
        root: usize,
    ) -> Result<Span, CommError> {
        if self.me != root {
            self.round(empty(), once((root, mine.as_ref()))).await?;
            return Ok(mine);
        }
        self.combine_all(self.collect_at_once(mine).await?, op)
    }

    /// Combines all members' elements for all: in one round, or by way of the first member.
    pub(super) async fn allreduce_at_once(
        &self,
        mine: Span,
        op: &mut dyn Combine,
    ) -> Result<Span, CommError> {
        let bytes = mine.as_ref().len();
        if !self.all_rather_than_one(bytes) {
            let mut all = self.reduce_at_once(mine, op, 0).await?;
            self.bcast(all.as_mut(), 0).await?;
            return Ok(all);
        }
        let mut all = self.spans(bytes);
        let gives = self.others().map(|m| (m, mine.as_ref()));
        self.round(self.places(&mut all), gives).await?;
        all[self.me] = mine;
        self.combine_all(all, op)
    }

    /// Combines each member's part of all members' elements at that member.
    pub(super) async fn reduce_scatter_at_once(
        &self,
        mine: &Span,
        op: &mut dyn Combine,
        parts: &[Range<usize>],
        part: &mut [u8],
    ) -> Result<(), CommError> {
        let blocks = Blocks::new(mine.as_ref(), parts)?;
        let own = blocks.of(self.me);
        let mut all = self.spans(own.len());
        // Empty parts are not sent: all members know the parts.
        let takes = self.places(&mut all).filter(|(_, place)| !place.is_empty());
        let gives = self.others().map(|m| (m, blocks.of(m)));
        self.round(takes, gives.filter(|(_, block)| !block.is_empty())).await?;
        all[self.me] = Span::of(own);
        copy(self.combine_all(all, op)?.as_ref(), part)
    }

    /// Combines the elements of the members before this one, in order, and then its own elements
    /// with the result.
    pub(super) async fn prefix_at_once(
        &self,
        mut mine: Span,
        op: &mut dyn Combine,
    ) -> Result<(Option<Span>, Span), CommError> {
        let bytes = mine.as_ref().len();
        let before = if self.all_rather_than_one(bytes) {
            let mut earlier = self.spans(bytes);
            earlier.truncate(self.me);
            let gives = (self.me + 1..self.size()).map(|m| (m, mine.as_ref()));
            self.round(self.places(&mut earlier), gives).await?;
            chained(earlier, op)?.pop()
        } else if self.me == 0 {
            let mut all = self.collect_at_once(mine.clone()).await?;
            // No member comes after the last.
            all.pop();
            let chained = chained(all, op)?;
            let gives = chained.iter().enumerate().map(|(m, before)| (m + 1, before.as_ref()));
            self.round(empty(), gives).await?;
            None
        } else {
            let mut before = Span::zeroed(bytes);
            self.round(once((0, before.as_mut())), once((0, mine.as_ref()))).await?;
            Some(before)
        };
        if let Some(mut before) = before.clone() {
            op.combine(before.as_mut(), mine.as_mut())?;
        }
        Ok((before, mine))
    }

    /// All members' elements, including this member's.
    async fn collect_at_once(&self, mine: Span) -> Result<Vec<Span>, CommError> {
        let mut all = self.spans(mine.as_ref().len());
        self.round(self.places(&mut all), empty()).await?;
        all[self.me] = mine;
        Ok(all)
    }

    /// Combines as members do along the tree of [`Party::reduce`].
    fn combine_all(&self, mut all: Vec<Span>, op: &mut dyn Combine) -> Result<Span, CommError> {
        combined_at_first(&mut all, op)?;
        Ok(all.swap_remove(0))
    }

    /// Room for the elements of all other members; the own span is empty.
    fn spans(&self, bytes: usize) -> Vec<Span> {
        let room = |member| if member == self.me { 0 } else { bytes };
        (0..self.size()).map(|member| Span::zeroed(room(member))).collect()
    }

    /// The places of the other members among `spans`.
    pub(super) fn places<'s>(
        &self,
        all: &'s mut [Span],
    ) -> impl Iterator<Item = (usize, &'s mut [u8])> {
        let me = self.me;
        let all = all.iter_mut().enumerate().filter(move |(member, _)| *member != me);
        all.map(|(member, span)| (member, span.as_mut()))
    }

    /// The other members, beginning with the next, so that no member is the first of all others.
    pub(super) fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let (me, size) = (self.me, self.size());
        (1..size).map(move |step| (me + step) % size)
    }

    /// Receives from some members and sends to some, all at once.
    pub(super) async fn round<'b>(
        &self,
        takes: impl Iterator<Item = (usize, &'b mut [u8])>,
        gives: impl Iterator<Item = (usize, &'b [u8])>,
    ) -> Result<(), CommError> {
        let mut requests = Vec::new();
        for (member, place) in takes {
            // SAFETY: borrowed until `finish` has waited for all, or the engine ended.
            unsafe { self.start_take(&mut requests, member, place.as_mut_ptr(), place.len())? };
        }
        for (member, block) in gives {
            // SAFETY: as above.
            unsafe { self.start_give(&mut requests, member, block.as_ptr(), block.len())? };
        }
        self.finish(&requests).await
    }

    /// Starts to receive a block.
    ///
    /// # Safety
    /// Like [`Process::start_recv`](crate::Process::start_recv).
    unsafe fn start_take(
        &self,
        requests: &mut Vec<RequestId>,
        member: usize,
        start: *mut u8,
        bytes: usize,
    ) -> Result<(), CommError> {
        let pattern = self.pattern(member, Step::AtOnce)?;
        for piece in pieces(bytes) {
            let start = start.wrapping_add(piece.start);
            // SAFETY: a part of the memory that the caller vouches for.
            requests.push(unsafe { self.process.start_recv(pattern, start, piece.len())? });
        }
        Ok(())
    }

    /// Starts to send a block.
    ///
    /// # Safety
    /// Like [`Process::start_send`](crate::Process::start_send).
    unsafe fn start_give(
        &self,
        requests: &mut Vec<RequestId>,
        member: usize,
        start: *const u8,
        bytes: usize,
    ) -> Result<(), CommError> {
        let address = self.address(member, Step::AtOnce)?;
        for piece in pieces(bytes) {
            let (start, mode) = (start.wrapping_add(piece.start), SendMode::Standard);
            // SAFETY: a part of the memory that the caller vouches for.
            requests.push(unsafe { self.process.start_send(address, mode, start, piece.len())? });
        }
        Ok(())
    }
}

/// The messages that carry a block. Both sides know its length.
fn pieces(bytes: usize) -> impl Iterator<Item = Range<usize>> {
    let longest = if bytes <= PIECES * PIECE_BYTES { PIECE_BYTES } else { bytes };
    // An empty block is one empty message.
    let count = bytes.div_ceil(longest).max(1);
    (0..count).map(move |piece| piece * longest..bytes.min((piece + 1) * longest))
}

fn nothing(member: usize) -> (usize, &'static mut [u8]) {
    (member, &mut [])
}

/// Combines the elements of all members along the tree, at the first member. Its place has the
/// result, and the contents of the other places are undefined.
pub(super) fn combined_at_first(all: &mut [Span], op: &mut dyn Combine) -> Result<(), CommError> {
    subtree(all, 0, op)
}

/// Combines the elements of a member and of the members below it.
fn subtree(all: &mut [Span], member: usize, op: &mut dyn Combine) -> Result<(), CommError> {
    for child in Tree::new(member, all.len(), 0).children() {
        subtree(all, child, op)?;
        // Children come after their parents.
        let (before, from) = all.split_at_mut(child);
        op.combine(before[member].as_mut(), from[0].as_mut())?;
        all.swap(member, child);
    }
    Ok(())
}

/// Turns each member's elements into their combination with all before it, as along the chain of
/// [`Party::scan`].
fn chained(mut all: Vec<Span>, op: &mut dyn Combine) -> Result<Vec<Span>, CommError> {
    for at in 1..all.len() {
        let mut before = all[at - 1].clone();
        op.combine(before.as_mut(), all[at].as_mut())?;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An operation whose result differs for other operands or another order.
    struct Brackets;

    impl Combine for Brackets {
        fn combine(&mut self, left: &mut [u8], right: &mut [u8]) -> Result<(), CommError> {
            // The operation is neither associative nor commutative.
            for (l, r) in left.iter().zip(right) {
                *r = l.wrapping_mul(3) ^ r.wrapping_mul(5).rotate_left(3);
            }
            Ok(())
        }

        fn element_bytes(&self) -> usize {
            1
        }
    }

    /// The result of members that each know only their children's results.
    fn by_messages(data: &[Span], member: usize) -> Span {
        let mut sum = data[member].clone();
        for child in Tree::new(member, data.len(), 0).children() {
            let mut part = by_messages(data, child);
            Brackets.combine(sum.as_mut(), part.as_mut()).expect("it does");
            sum = part;
        }
        sum
    }

    proptest! {
        #[test]
        fn elements_are_combined_as_along_the_tree(
            data in (1usize..70, 0usize..9).prop_flat_map(|(members, bytes)| {
                prop::collection::vec(prop::collection::vec(any::<u8>(), bytes), members)
            }),
        ) {
            let mut all: Vec<Span> = data.iter().map(|bytes| Span::of(bytes)).collect();
            let expected = by_messages(&all, 0);
            combined_at_first(&mut all, &mut Brackets).expect("it does");
            prop_assert_eq!(all[0].as_ref(), expected.as_ref());
        }

        #[test]
        fn pieces_are_all_of_a_block_in_order(bytes in 0..2 * BLOCK_MAX_BYTES) {
            let (mut end, mut count) = (0, 0);
            for piece in pieces(bytes) {
                prop_assert!(piece.start == end && (piece.end > end || bytes == 0));
                (end, count) = (piece.end, count + 1);
            }
            prop_assert!(end == bytes && (1..=PIECES).contains(&count));
        }
    }
}
