//! Reductions of many elements. Each member combines one block of them, which the others send to
//! it. The combined blocks are then sent to the members that need them.
//!
//! No member sends or combines much more than its own elements. Along a tree ([`Party::reduce`]),
//! all elements would pass through one member at each level. The reduction proceeds in rounds. In
//! each round, every member combines a piece of its block. The rounds need little memory, so it
//! stays in the processor's cache. The kernel need not provide it again for each reduction, unlike
//! large memory.
//!
//! Each member combines all members' elements of its block along the tree from the first member, so
//! the bits are the same.

use super::at_once::combined_at_first;
use super::rooted::copy;
use super::{BlocksMut, Combine, Party, Span};
use crate::error::CommError;
use std::iter::{empty, once};
use std::ops::Range;

/// Shortest mean block that is worthwhile: with shorter ones, messages take longer than their
/// bytes.
const BLOCK_MIN_BYTES: usize = 8 << 10;
/// Memory for the pieces of all members together in a round, if pieces are no shorter than the
/// shortest block. It stays in the cache.
const ROUND_BYTES: usize = 64 << 10;
/// Like [`ROUND_BYTES`], for members on several nodes. Their messages take longer than copying the
/// bytes.
const ROUND_BYTES_APART: usize = 256 << 10;
/// Limit of members that all send to all: `n (n - 1)` messages in a round.
const MAX_MEMBERS: usize = 64;

/// Memory of a reduction for the pieces that all members have for this member.
struct Rounds {
    spans: Vec<Span>,
    /// The longest piece.
    bytes: usize,
}

impl Party<'_> {
    /// Combines all members' elements, which are in `all`, for all members, as [`Party::allreduce`]
    /// does.
    ///
    /// # Errors
    /// Like [`Party::reduce`].
    pub async fn allreduce_into(
        &self,
        all: &mut [u8],
        op: &mut dyn Combine,
    ) -> Result<(), CommError> {
        if !self.goes_by_blocks(all.len()) {
            return copy(self.allreduce(Span::of(all), op).await?.as_ref(), all);
        }
        let blocks = self.equal_blocks(all.len(), op.element_bytes());
        let mut rounds = self.rounds(op.element_bytes());
        for pieces in rounds.of(&blocks) {
            let combined = self.combined(&mut rounds.spans, all, &pieces, op).await?;
            all[pieces[self.me].clone()].copy_from_slice(combined);
        }
        self.around(&mut BlocksMut::new(all, &blocks)?).await
    }

    /// Combines all members' elements at `root`, which passes `into`, as [`Party::reduce`] does.
    /// The root's own elements are `mine`, or already in `into` when `mine` is `None`.
    ///
    /// # Errors
    /// Like [`Party::reduce`].
    pub async fn reduce_into(
        &self,
        mine: Option<&[u8]>,
        mut into: Option<&mut [u8]>,
        op: &mut dyn Combine,
        root: usize,
    ) -> Result<(), CommError> {
        let bytes = mine.or(into.as_deref()).map_or(0, <[u8]>::len);
        let place = into.as_deref().filter(|_| self.me == root);
        super::same_length(place.map_or(bytes, <[u8]>::len), bytes)?;
        if self.rank(root).is_err() || !self.goes_by_blocks(bytes) {
            let own = Span::of(mine.or(into.as_deref()).unwrap_or(&[]));
            let all = self.reduce(own, op, root).await?;
            return all.zip(into).map_or(Ok(()), |(all, into)| copy(all.as_ref(), into));
        }
        if self.are_two() {
            let piece_bytes = self.piece_bytes(1, op.element_bytes());
            let Some(into) = into.as_deref_mut().filter(|_| self.me == root) else {
                let own = mine.or(into.as_deref()).unwrap_or(&[]);
                return self.give_to_be_reduced(own, root, piece_bytes).await;
            };
            mine.map_or(Ok(()), |mine| copy(mine, into))?;
            return self.reduce_of_two(into, op, piece_bytes).await;
        }
        let blocks = self.equal_blocks(bytes, op.element_bytes());
        let mut rounds = self.rounds(op.element_bytes());
        for pieces in rounds.of(&blocks) {
            let own = mine.or(into.as_deref()).unwrap_or(&[]);
            let combined = self.combined(&mut rounds.spans, own, &pieces, op).await?;
            match into.as_deref_mut().filter(|_| self.me == root) {
                None => {
                    let piece = once((root, combined)).filter(|(_, piece)| !piece.is_empty());
                    self.round(empty(), piece).await?;
                }
                Some(into) => {
                    into[pieces[self.me].clone()].copy_from_slice(combined);
                    let places = apart(into, &pieces).into_iter().enumerate();
                    let others = places.filter(|(m, place)| *m != self.me && !place.is_empty());
                    self.round(others, empty()).await?;
                }
            }
        }
        Ok(())
    }

    /// Combines each member's part of all members' elements at that member, as
    /// [`Party::reduce_scatter`] does.
    ///
    /// # Errors
    /// Like [`Party::reduce`].
    pub async fn reduce_scatter_into(
        &self,
        mine: &[u8],
        op: &mut dyn Combine,
        parts: &[Range<usize>],
        part: &mut [u8],
    ) -> Result<(), CommError> {
        if !self.goes_by_blocks(mine.len()) {
            return self.reduce_scatter(Span::of(mine), op, parts, part).await;
        }
        let own = super::Blocks::new(mine, parts)?.of(self.me);
        super::same_length(own.len(), part.len())?;
        let mut rounds = self.rounds(op.element_bytes());
        let mut done = 0;
        for pieces in rounds.of(parts) {
            let combined = self.combined(&mut rounds.spans, mine, &pieces, op).await?;
            part[done..done + combined.len()].copy_from_slice(combined);
            done += combined.len();
        }
        Ok(())
    }

    /// Whether a reduction of `bytes` bytes is divided into blocks. All members get the same
    /// answer.
    fn goes_by_blocks(&self, bytes: usize) -> bool {
        let size = self.size();
        !self.at_once && (2..=MAX_MEMBERS).contains(&size) && bytes / size >= BLOCK_MIN_BYTES
    }

    /// Blocks of equally many elements; they differ by at most one element.
    fn equal_blocks(&self, bytes: usize, element_bytes: usize) -> Vec<Range<usize>> {
        let (size, element) = (self.size(), element_bytes.max(1));
        let edge = |member: usize| bytes / element * member / size * element;
        (0..size).map(|member| edge(member)..edge(member + 1)).collect()
    }

    fn rounds(&self, element_bytes: usize) -> Rounds {
        let size = self.size();
        let bytes = self.piece_bytes(size, element_bytes);
        Rounds { spans: vec![Span::default(); size], bytes }
    }

    /// Length of a piece in whole elements, if `pieces` pieces are kept together.
    fn piece_bytes(&self, pieces: usize, element_bytes: usize) -> usize {
        let all = match self.process.are_on_this_node(self.members) {
            true => ROUND_BYTES,
            false => ROUND_BYTES_APART,
        };
        (all / pieces).max(BLOCK_MIN_BYTES).next_multiple_of(element_bytes.max(1))
    }

    /// Sends each other member its piece of `mine`, and combines all members' pieces for this
    /// member.
    async fn combined<'s>(
        &self,
        spans: &'s mut [Span],
        mine: &[u8],
        pieces: &[Range<usize>],
        op: &mut dyn Combine,
    ) -> Result<&'s [u8], CommError> {
        let own = &mine[pieces[self.me].clone()];
        spans.iter_mut().for_each(|span| span.resize(own.len()));
        copy(own, spans[self.me].as_mut())?;
        // Empty pieces are not sent: all members know the blocks.
        let takes = self.places(spans).filter(|(_, place)| !place.is_empty());
        let gives = self.others().map(|member| (member, &mine[pieces[member].clone()]));
        self.round(takes, gives.filter(|(_, piece)| !piece.is_empty())).await?;
        combined_at_first(spans, op)?;
        Ok(spans[0].as_ref())
    }
}

impl Rounds {
    /// The pieces of the members' blocks, round by round; a piece is empty if its block has ended.
    fn of(&self, blocks: &[Range<usize>]) -> impl Iterator<Item = Vec<Range<usize>>> + use<> {
        let (bytes, blocks) = (self.bytes, blocks.to_vec());
        let longest = blocks.iter().map(Range::len).max().unwrap_or(0);
        (0..longest).step_by(bytes).map(move |start| {
            let edge = |block: &Range<usize>, at| block.end.min(block.start + at);
            blocks.iter().map(|block| edge(block, start)..edge(block, start + bytes)).collect()
        })
    }
}

/// Splits `all` at the places, which lie one after the other.
fn apart<'a>(all: &'a mut [u8], places: &[Range<usize>]) -> Vec<&'a mut [u8]> {
    let (mut rest, mut at) = (all, 0);
    let cut = |place: &Range<usize>| {
        let (_, behind) = std::mem::take(&mut rest).split_at_mut(place.start - at);
        let (piece, behind) = behind.split_at_mut(place.len());
        (rest, at) = (behind, place.end);
        piece
    };
    places.iter().map(cut).collect()
}
