//! Context ids, which keep the messages of different communicators apart.
//!
//! A process uses an id for one communicator at a time. The members of a new communicator agree on
//! the lowest id that is free at all of them, by a bitwise-and over their sets of free ids. The
//! agreement is one reduction of 512 bytes, as in MPICH. Agreements in the background
//! ([`claim`](super::claim)) use ids of another range, because two agreements at once could choose
//! the same id.

use crate::collective::{Combine, Party, Span, now};
use crate::envelope::Context;
use crate::error::CommError;
use std::cell::RefCell;

/// Communicators that a process may have at the same time. A context is 16 bits on the wire. The
/// limit keeps the sets for agreements small.
const MAX_COMMUNICATORS: usize = 4096;
/// Bytes of the ids for blocking agreements; the ids for the background follow.
const AT_ONCE_BYTES: usize = MAX_COMMUNICATORS / 8;
/// Bytes of all ids: the background has as many.
const ALL_BYTES: usize = 2 * AT_ONCE_BYTES;

/// A communicator's id. It is not unique in the job: communicators without a common member may
/// share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextId(u16);

impl ContextId {
    /// The id of the communicator of all ranks.
    pub const WORLD: ContextId = ContextId(0);
    /// The id of each process's own communicator.
    pub const SELF: ContextId = ContextId(1);
    /// The id of a communicator whose members have none yet. It is above all ids in pools.
    pub const NONE: ContextId = ContextId(u16::MAX / 2);

    /// The id in the form in which a leader sends it to the members of its group.
    pub(super) fn to_word(self) -> u32 {
        u32::from(self.0)
    }

    /// The id of a word that [`ContextId::to_word`] made; `None` if no communicator may have it.
    pub(super) fn from_word(word: u32) -> Option<Self> {
        let id = u16::try_from(word).ok()?;
        (usize::from(id) < MAX_COMMUNICATORS).then_some(ContextId(id))
    }

    /// The context of the application's messages.
    pub fn point_to_point(self) -> Context {
        Context(2 * self.0)
    }

    /// The context of the collectives' messages.
    pub fn collective(self) -> Context {
        Context(2 * self.0 + 1)
    }
}

/// The ids that this process may still use.
#[derive(Clone, Debug)]
pub struct ContextPool {
    /// A bit per id: 1 if it is free.
    free: Vec<u8>,
}

impl Default for ContextPool {
    /// All ids but those of [`ContextId::WORLD`] and [`ContextId::SELF`].
    fn default() -> Self {
        let mut free = vec![u8::MAX; ALL_BYTES];
        free[0] = u8::MAX << 2;
        ContextPool { free }
    }
}

impl ContextPool {
    /// The ids that are free at all of these members. All of them call it.
    ///
    /// # Errors
    /// [`CommError`].
    pub fn free_at_all(
        pool: &RefCell<Self>,
        members: Party<'_>,
    ) -> Result<FreeContexts, CommError> {
        let free = Span::of(&pool.borrow().free[..AT_ONCE_BYTES]);
        let all = now(members.allreduce(free, &mut InBoth))?;
        Ok(FreeContexts(all.as_ref().to_vec()))
    }

    /// Takes an id that was agreed on.
    pub fn take(&mut self, id: ContextId) {
        self.free[usize::from(id.0) / 8] &= !(1 << (id.0 % 8));
    }

    /// Returns an id when no communication under it is left.
    pub fn give_back(&mut self, id: ContextId) {
        if let Some(byte) = self.free.get_mut(usize::from(id.0) / 8) {
            *byte |= 1 << (id.0 % 8);
        }
    }

    /// The ids that may be claimed in the background.
    pub(super) fn claimable(&self) -> &[u8] {
        &self.free[AT_ONCE_BYTES..]
    }

    /// Takes an id if it is still free. Returns whether it was.
    pub(super) fn take_if_free(&mut self, id: ContextId) -> bool {
        let was_free = self.free[usize::from(id.0) / 8] & 1 << (id.0 % 8) != 0;
        self.take(id);
        was_free
    }
}

impl ContextId {
    /// The first claimable id from the `start`-th on, and then from the beginning.
    pub(super) fn claimable(free: &[u8], start: usize) -> Option<Self> {
        let place = place_of_free(free, start)?;
        // At most twice `MAX_COMMUNICATORS`, which fits.
        Some(ContextId((8 * AT_ONCE_BYTES + place) as u16))
    }
}

/// Ids that are free at all members of a group.
#[derive(Clone, Debug)]
pub struct FreeContexts(Vec<u8>);

impl FreeContexts {
    /// Bytes of [`FreeContexts::as_bytes`].
    pub(super) const BYTES: usize = AT_ONCE_BYTES;

    /// The ids in the form that another group gets.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Keeps only ids that are also free in another group, whose bytes are `other`.
    pub(super) fn keep_those_of(&mut self, other: &[u8]) {
        self.0.iter_mut().zip(other).for_each(|(mine, theirs)| *mine &= theirs);
    }

    /// The lowest of the ids.
    pub(super) fn lowest(&self) -> Option<ContextId> {
        lowest(&self.0)
    }

    /// The first id from the `start`-th on, and then from the beginning.
    pub(super) fn first_from(&self, start: usize) -> Option<ContextId> {
        // Fewer than `MAX_COMMUNICATORS`, which fits.
        place_of_free(&self.0, start).map(|place| ContextId(place as u16))
    }
}

fn place_of_free(free: &[u8], start: usize) -> Option<usize> {
    let count = 8 * free.len();
    let is_free = |place: &usize| free[place / 8] & 1 << (place % 8) != 0;
    (0..count).map(|skip| (start % count + skip) % count).find(is_free)
}

fn lowest(free: &[u8]) -> Option<ContextId> {
    let byte = free.iter().position(|&byte| byte != 0)?;
    // At most `MAX_COMMUNICATORS`, which fits.
    Some(ContextId((8 * byte) as u16 + free[byte].trailing_zeros() as u16))
}

/// Keeps the bits that all members have.
pub(super) struct InBoth;

impl Combine for InBoth {
    fn combine(&mut self, left: &mut [u8], right: &mut [u8]) -> Result<(), CommError> {
        left.iter().zip(right).for_each(|(l, r)| *r &= l);
        Ok(())
    }

    fn element_bytes(&self) -> usize {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_taken_lowest_first_and_used_again() {
        let mut pool = ContextPool::default();
        let first = |pool: &ContextPool| lowest(&pool.free[..AT_ONCE_BYTES]);
        assert_eq!(first(&pool), Some(ContextId(2)));
        for id in 2..MAX_COMMUNICATORS as u16 {
            assert_eq!(first(&pool), Some(ContextId(id)));
            pool.take(ContextId(id));
        }
        assert_eq!(first(&pool), None);
        pool.give_back(ContextId(77));
        assert_eq!(first(&pool), Some(ContextId(77)));
        pool.give_back(ContextId::NONE);
    }

    #[test]
    fn ids_of_the_background_are_others_and_looked_for_from_anywhere() {
        let mut pool = ContextPool::default();
        let most = MAX_COMMUNICATORS;
        let found = |pool: &ContextPool, start| ContextId::claimable(pool.claimable(), start);
        assert_eq!(found(&pool, 0), Some(ContextId(most as u16)));
        assert_eq!(found(&pool, most - 1), Some(ContextId(2 * most as u16 - 1)));
        assert!(pool.take_if_free(ContextId(2 * most as u16 - 1)));
        assert!(!pool.take_if_free(ContextId(2 * most as u16 - 1)));
        assert_eq!(found(&pool, most - 1), Some(ContextId(most as u16)), "around");
        for id in most..2 * most {
            pool.take(ContextId(id as u16));
        }
        assert_eq!(found(&pool, 5), None);
    }
}
