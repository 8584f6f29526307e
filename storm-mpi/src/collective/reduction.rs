//! Reductions. Every operation is applied in the order of the members, along a tree that depends
//! only on their number. So the bits are the same in every run, and operations that do not commute
//! give the right result.

use super::rooted::copy;
use super::{Blocks, Party, Reduction, Span, Step};
use crate::error::CommError;
use crate::segment::Call;
use std::ops::Range;

/// Length of the pieces of long messages along a chain. A piece stays in the processor's cache, and
/// the next member works while the previous one does.
const PIECE_BYTES: usize = 32 << 10;

/// The operation of a reduction on two stretches of elements of the same length.
pub trait Combine {
    /// Sets `right` to `left op right`, element by element. May change `left`.
    ///
    /// Both are aligned to 16.
    ///
    /// # Errors
    /// Errors of the operation itself.
    fn combine(&mut self, left: &mut [u8], right: &mut [u8]) -> Result<(), CommError>;

    /// Bytes of an element. A reduction may be split at multiples of it.
    fn element_bytes(&self) -> usize;

    /// The operation as a known operation on numbers, if it has the same bits. Nodes can then carry
    /// it out.
    fn known(&self) -> Option<Reduction> {
        None
    }
}

impl Party<'_> {
    /// Combines all members' elements at `root`, which gets them. The order of combination does not
    /// depend on `root`.
    ///
    /// # Errors
    /// [`CommError::LengthMismatch`] when members disagree on the length; others of communication.
    pub async fn reduce(
        &self,
        mine: Span,
        op: &mut dyn Combine,
        root: usize,
    ) -> Result<Option<Span>, CommError> {
        self.rank(root)?;
        if let Some(all) = self.reduced_in_slices(&mine, op, Some(root))? {
            return Ok((self.me == root).then_some(all));
        }
        if self.one_at_once(mine.as_ref().len()) {
            let all = self.reduce_at_once(mine, op, root).await?;
            return Ok((self.me == root).then_some(all));
        }
        let mut all = self.up(mine, op).await?;
        if self.me == 0 && root != 0 {
            self.give(all.as_ref(), root, Step::ToRoot).await?;
        }
        if self.me == root && root != 0 {
            self.take(all.as_mut(), 0, Step::ToRoot).await?;
        }
        Ok((self.me == root).then_some(all))
    }

    /// Combines all members' elements for all, with the same bits everywhere.
    ///
    /// # Errors
    /// Like [`Party::reduce`].
    pub async fn allreduce(&self, mine: Span, op: &mut dyn Combine) -> Result<Span, CommError> {
        if let Some(all) = self.reduced_in_slices(&mine, op, None)? {
            return Ok(all);
        }
        if self.one_at_once(mine.as_ref().len()) {
            return self.allreduce_at_once(mine, op).await;
        }
        if self.are_two() {
            return self.allreduce_of_two(mine, op).await;
        }
        let mut all = self.up(mine, op).await?;
        self.down(&self.tree(0), all.as_mut(), Step::Broadcast).await?;
        Ok(all)
    }

    /// Combines all members' elements and gives each member its part of the result.
    ///
    /// # Errors
    /// Like [`Party::reduce`].
    pub async fn reduce_scatter(
        &self,
        mine: Span,
        op: &mut dyn Combine,
        parts: &[Range<usize>],
        part: &mut [u8],
    ) -> Result<(), CommError> {
        if self.all_at_once(parts.iter().map(Range::len).max().unwrap_or(0)) {
            return self.reduce_scatter_at_once(&mine, op, parts, part).await;
        }
        let all = self.reduce(mine, op, 0).await?;
        let blocks = all.as_ref().map(|all| Blocks::new(all.as_ref(), parts)).transpose()?;
        self.scatter(blocks, Some(part), 0).await
    }

    /// Combines the elements of this member with those of all before it, in order. `all` holds the
    /// elements, and then the result.
    ///
    /// # Errors
    /// Like [`Party::reduce`].
    pub async fn scan(&self, all: &mut [u8], op: &mut dyn Combine) -> Result<(), CommError> {
        if self.one_at_once(all.len()) {
            return copy(self.prefix_at_once(Span::of(all), op).await?.1.as_ref(), all);
        }
        let (mut before, mut own) = (Span::default(), Span::default());
        for piece in all.chunks_mut(piece_bytes(op)) {
            own.resize(piece.len());
            copy(piece, own.as_mut())?;
            if self.before(&mut before, piece.len()).await? {
                op.combine(before.as_mut(), own.as_mut())?;
            }
            copy(own.as_ref(), piece)?;
            self.hand_to_next(own.as_ref()).await?;
        }
        Ok(())
    }

    /// Combines the elements of all members before this one, in order, into `before`, which stays
    /// unchanged at the first member. This member's elements are `mine`, or in `before` when `mine`
    /// is `None`.
    ///
    /// # Errors
    /// Like [`Party::reduce`].
    pub async fn exscan(
        &self,
        mine: Option<&[u8]>,
        into: &mut [u8],
        op: &mut dyn Combine,
    ) -> Result<(), CommError> {
        super::same_length(mine.map_or(into.len(), <[u8]>::len), into.len())?;
        if self.one_at_once(into.len()) {
            let before = self.prefix_at_once(Span::of(mine.unwrap_or(into)), op).await?.0;
            return before.map_or(Ok(()), |before| copy(before.as_ref(), into));
        }
        let (mut before, mut own, mut at) = (Span::default(), Span::default(), 0);
        for piece in into.chunks_mut(piece_bytes(op)) {
            let range = at..at + piece.len();
            at = range.end;
            own.resize(piece.len());
            copy(mine.map_or(&*piece, |mine| &mine[range]), own.as_mut())?;
            if self.before(&mut before, piece.len()).await? {
                copy(before.as_ref(), piece)?;
                op.combine(before.as_mut(), own.as_mut())?;
            }
            self.hand_to_next(own.as_ref()).await?;
        }
        Ok(())
    }

    /// Takes the combination of the members before this one; the first member has none. It arrives
    /// along a chain, piece by piece: the chain is the only order with `n - 1` messages.
    async fn before(&self, before: &mut Span, bytes: usize) -> Result<bool, CommError> {
        let Some(previous) = self.me.checked_sub(1) else { return Ok(false) };
        before.resize(bytes);
        self.take(before.as_mut(), previous, Step::Scan).await?;
        Ok(true)
    }

    async fn hand_to_next(&self, so_far: &[u8]) -> Result<(), CommError> {
        match self.me + 1 < self.size() {
            true => self.give(so_far, self.me + 1, Step::Scan).await,
            false => Ok(()),
        }
    }

    /// Lets the nodes combine along the same tree of members, if they can and it is quicker.
    /// Returns the result at members that need it.
    fn reduced_in_slices(
        &self,
        mine: &Span,
        op: &dyn Combine,
        root: Option<usize>,
    ) -> Result<Option<Span>, CommError> {
        let Some(reduction) = op.known() else { return Ok(None) };
        if self.are_few_on_several_nodes() {
            return Ok(None);
        }
        let data = mine.as_ref();
        let root = root.map(|root| root as u32);
        let result = self.in_slices(data.len(), Call::Reduce { reduction, root, data })?;
        let Some(result) = result else { return Ok(None) };
        if root.is_none_or(|root| root as usize == self.me) {
            super::same_length(data.len(), result.len())?;
        }
        Ok(Some(Span::of(&result)))
    }

    /// Combines up the tree; the result is complete at member 0.
    async fn up(&self, mine: Span, op: &mut dyn Combine) -> Result<Span, CommError> {
        let tree = self.tree(0);
        let mut sum = mine;
        for child in tree.children() {
            let mut part = Span::zeroed(sum.as_ref().len());
            self.take(part.as_mut(), child, Step::Reduce).await?;
            op.combine(sum.as_mut(), part.as_mut())?;
            sum = part;
        }
        if let Some(parent) = tree.parent() {
            self.give(sum.as_ref(), parent, Step::Reduce).await?;
        }
        Ok(sum)
    }
}

/// Length of the pieces along a chain, in whole elements.
fn piece_bytes(op: &dyn Combine) -> usize {
    PIECE_BYTES.next_multiple_of(op.element_bytes().max(1))
}
