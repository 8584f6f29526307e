//! Collectives with a root: broadcast, gather, scatter.

use super::{Blocks, BlocksMut, Party, Step, Tree};
use crate::envelope::SendMode;
use crate::error::CommError;
use crate::segment::Call;

impl Party<'_> {
    /// Gives every member the root's `data`.
    ///
    /// # Errors
    /// [`CommError::LengthMismatch`] when members disagree on its length; others of communication.
    pub async fn bcast(&self, data: &mut [u8], root: usize) -> Result<(), CommError> {
        self.rank(root)?;
        if self.me == root {
            return self.bcast_from(data).await;
        }
        let call = Call::Broadcast { root: root as u32, data: &[] };
        match self.in_slices(data.len(), call)? {
            Some(came) => copy(&came, data),
            None if self.one_at_once(data.len()) => self.told_at_once(data, root).await,
            None => self.down(&self.tree(root), data, Step::Broadcast).await,
        }
    }

    /// The root's part in [`Party::bcast`]; its memory is only read.
    ///
    /// # Errors
    /// Like [`Party::bcast`].
    pub async fn bcast_from(&self, data: &[u8]) -> Result<(), CommError> {
        let root = self.me;
        match self.in_slices(data.len(), Call::Broadcast { root: root as u32, data })? {
            Some(_) => Ok(()),
            None if self.one_at_once(data.len()) => self.tell_at_once(data).await,
            None => self.hand_on(&self.tree(root), data, Step::Broadcast).await,
        }
    }

    /// Brings every member's block to the root, which passes `into`. The root's own block is
    /// `mine`, or already in its place when `mine` is `None`.
    ///
    /// # Errors
    /// [`CommError::LengthMismatch`] when a block is not as long as its place; others of
    /// communication.
    pub async fn gather(
        &self,
        mine: Option<&[u8]>,
        into: Option<&mut BlocksMut<'_>>,
        root: usize,
    ) -> Result<(), CommError> {
        let Some(into) = into.filter(|_| self.me == root) else {
            return self.give(mine.unwrap_or(&[]), root, Step::Gather).await;
        };
        let mut requests = Vec::with_capacity(self.size());
        for member in (0..self.size()).filter(|&member| member != root) {
            let pattern = self.pattern(member, Step::Gather)?;
            let place = into.of(member);
            // SAFETY: `into` stays borrowed until `finish` has waited for all, or the engine ended.
            requests.push(unsafe {
                self.process.start_recv(pattern, place.as_mut_ptr(), place.len())?
            });
        }
        let own = mine.map_or(Ok(()), |mine| copy(mine, into.of(root)));
        self.finish(&requests).await.and(own)
    }

    /// Gives every member its block of `from`, which the root passes. The block arrives in `mine`;
    /// the root's block stays in its place when `mine` is `None`.
    ///
    /// # Errors
    /// Like [`Party::gather`].
    pub async fn scatter(
        &self,
        from: Option<Blocks<'_>>,
        mine: Option<&mut [u8]>,
        root: usize,
    ) -> Result<(), CommError> {
        let Some(from) = from.filter(|_| self.me == root) else {
            return self.take(mine.unwrap_or(&mut []), root, Step::Scatter).await;
        };
        let mut requests = Vec::with_capacity(self.size());
        for member in (0..self.size()).filter(|&member| member != root) {
            let address = self.address(member, Step::Scatter)?;
            let block = from.of(member);
            // SAFETY: `from` stays borrowed until `finish` has waited for all, or the engine ended.
            requests.push(unsafe {
                let (start, bytes) = (block.as_ptr(), block.len());
                self.process.start_send(address, SendMode::Standard, start, bytes)?
            });
        }
        let own = mine.map_or(Ok(()), |mine| copy(from.of(root), mine));
        self.finish(&requests).await.and(own)
    }

    /// Passes `data` from the tree's root to all members.
    pub(super) async fn down(
        &self,
        tree: &Tree,
        data: &mut [u8],
        step: Step,
    ) -> Result<(), CommError> {
        if let Some(parent) = tree.parent() {
            self.take(data, parent, step).await?;
        }
        self.hand_on(tree, data, step).await
    }

    /// Gives `data` to all members below this one.
    async fn hand_on(&self, tree: &Tree, data: &[u8], step: Step) -> Result<(), CommError> {
        // The largest subtree comes first, because it takes longest.
        for child in tree.children().rev() {
            self.give(data, child, step).await?;
        }
        Ok(())
    }
}

/// Copies a block to a place of its length.
pub(super) fn copy(from: &[u8], into: &mut [u8]) -> Result<(), CommError> {
    super::same_length(into.len(), from.len())?;
    into.copy_from_slice(from);
    Ok(())
}
