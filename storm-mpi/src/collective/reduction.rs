//! Reductions. Every operation is applied in the order of the members, along a tree that depends on
//! their number only: the same bits in every run, and right for operations that do not commute.

use super::rooted::copy;
use super::{Blocks, Party, Reduction, Span, Step};
use crate::error::CommError;
use crate::segment::Call;
use std::ops::Range;

/// What a reduction makes of two stretches of elements of the same length.
pub trait Combine {
    /// Makes `right` to `left op right`, element by element. May change `left`.
    ///
    /// Both are aligned to 16.
    ///
    /// # Errors
    /// Whatever the operation may find wrong with them.
    fn combine(&mut self, left: &mut [u8], right: &mut [u8]) -> Result<(), CommError>;

    /// What it is, if it has the bits of a known operation on numbers: then nodes can do it too.
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

    /// Combines all members' elements for all: the same bits everywhere.
    ///
    /// # Errors
    /// As [`Party::reduce`].
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
    /// As [`Party::reduce`].
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

    /// Combines the elements of this member with those of all before it, in order.
    ///
    /// # Errors
    /// As [`Party::reduce`].
    pub async fn scan(&self, mine: Span, op: &mut dyn Combine) -> Result<Span, CommError> {
        Ok(self.prefix(mine, op).await?.1)
    }

    /// Combines the elements of all members before this one, in order; the first gets none.
    ///
    /// # Errors
    /// As [`Party::reduce`].
    pub async fn exscan(
        &self,
        mine: Span,
        op: &mut dyn Combine,
    ) -> Result<Option<Span>, CommError> {
        Ok(self.prefix(mine, op).await?.0)
    }

    /// Along a chain, unless at once. It is the one order of `n - 1` messages: what came before this member, and
    /// that with its own.
    async fn prefix(
        &self,
        mut mine: Span,
        op: &mut dyn Combine,
    ) -> Result<(Option<Span>, Span), CommError> {
        if self.one_at_once(mine.as_ref().len()) {
            return self.prefix_at_once(mine, op).await;
        }
        let mut before = None;
        if let Some(previous) = self.me.checked_sub(1) {
            let mut received = Span::zeroed(mine.as_ref().len());
            self.take(received.as_mut(), previous, Step::Scan).await?;
            before = Some(received.clone());
            op.combine(received.as_mut(), mine.as_mut())?;
        }
        if self.me + 1 < self.size() {
            self.give(mine.as_ref(), self.me + 1, Step::Scan).await?;
        }
        Ok((before, mine))
    }

    /// Lets the nodes combine, if they can and it is quicker: along the same tree of members. The result where
    /// it is wanted.
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

    /// Combines up the tree; whole at member 0.
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

/// Copies the result of a reduction to where it is wanted.
pub(super) fn deliver(result: &Span, into: &mut [u8]) -> Result<(), CommError> {
    copy(result.as_ref(), into)
}
