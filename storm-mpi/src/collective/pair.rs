//! Collectives of two members. Both send their data in one message at the same time; a tree needs
//! two messages, one after the other.

use super::{Combine, Party, Span, Step};
use crate::error::CommError;

impl Party<'_> {
    /// Whether there are two members. All members get the same answer.
    pub(super) fn are_two(&self) -> bool {
        self.size() == 2
    }

    /// For two members: combines the elements of both, at both.
    pub(super) async fn allreduce_of_two(
        &self,
        mut mine: Span,
        op: &mut dyn Combine,
    ) -> Result<Span, CommError> {
        let mut other = Span::zeroed(mine.as_ref().len());
        self.swap(mine.as_ref(), other.as_mut()).await?;
        if self.me == 1 {
            op.combine(other.as_mut(), mine.as_mut())?;
            return Ok(mine);
        }
        op.combine(mine.as_mut(), other.as_mut())?;
        Ok(other)
    }

    /// For two members: gives the root this member's elements, in pieces of at most `piece_bytes`
    /// bytes.
    pub(super) async fn give_to_be_reduced(
        &self,
        mine: &[u8],
        root: usize,
        piece_bytes: usize,
    ) -> Result<(), CommError> {
        for piece in mine.chunks(piece_bytes) {
            self.give(piece, root, Step::ToRoot).await?;
        }
        Ok(())
    }

    /// For two members, at the root: combines the elements of both in `all`, which holds the root's
    /// own. A piece of the other's elements stays in the cache until it is combined.
    pub(super) async fn reduce_of_two(
        &self,
        all: &mut [u8],
        op: &mut dyn Combine,
        piece_bytes: usize,
    ) -> Result<(), CommError> {
        let mut others = Span::zeroed(piece_bytes.min(all.len()));
        for own in all.chunks_mut(piece_bytes) {
            let other = &mut others.as_mut()[..own.len()];
            self.take(other, 1 - self.me, Step::ToRoot).await?;
            if self.me == 1 {
                op.combine(other, own)?;
            } else {
                op.combine(own, other)?;
                own.copy_from_slice(other);
            }
        }
        Ok(())
    }

    /// For two members: gives the other member `data`, and takes exactly `into.len()` bytes from
    /// it.
    pub(super) async fn swap(&self, data: &[u8], into: &mut [u8]) -> Result<(), CommError> {
        let other = 1 - self.me;
        let pattern = self.pattern(other, Step::Swap)?;
        // SAFETY: `into` stays borrowed until `finish` has waited for it, or the engine ended.
        let recv = unsafe { self.process.start_recv(pattern, into.as_mut_ptr(), into.len())? };
        let given = self.give(data, other, Step::Swap).await;
        // The receive is waited for even when the send failed.
        let taken = self.finish(&[recv]).await;
        given.and(taken)
    }
}
