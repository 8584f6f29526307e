//! Context ids: what keeps the messages of different communicators apart.
//!
//! A process uses an id for one communicator at a time. The members of a new one agree on the
//! lowest id that is free at all of them, by a bitwise-and over their sets of free ids: one
//! reduction of 512 bytes, as MPICH does it.

use crate::collective::{Combine, Party, Span, now};
use crate::envelope::Context;
use crate::error::CommError;

/// Communicators that a process may have at once. A context is 16 bits on the wire; this many keep
/// the sets that are agreed on small.
const MAX_COMMUNICATORS: usize = 4096;

/// A communicator's id. Not unique in the job: communicators without a common member may share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextId(u16);

impl ContextId {
    /// That of all ranks.
    pub const WORLD: ContextId = ContextId(0);
    /// That of each process alone.
    pub const SELF: ContextId = ContextId(1);

    /// As a leader tells it to the members of its group.
    pub(super) fn to_word(self) -> u32 {
        u32::from(self.0)
    }

    /// The id that [`ContextId::to_word`] made this of; `None`: it is none that a communicator may have.
    pub(super) fn from_word(word: u32) -> Option<Self> {
        let id = u16::try_from(word).ok()?;
        (usize::from(id) < MAX_COMMUNICATORS).then_some(ContextId(id))
    }

    /// The context of the application's messages.
    pub fn point_to_point(self) -> Context {
        Context(2 * self.0)
    }

    /// The context of the messages that collectives are made of.
    pub fn collective(self) -> Context {
        Context(2 * self.0 + 1)
    }
}

/// The ids that this process may still use.
#[derive(Clone, Debug)]
pub struct ContextPool {
    /// A bit per id: free.
    free: Vec<u8>,
}

impl Default for ContextPool {
    /// All ids but those of [`ContextId::WORLD`] and [`ContextId::SELF`].
    fn default() -> Self {
        let mut free = vec![u8::MAX; MAX_COMMUNICATORS / 8];
        free[0] = u8::MAX << 2;
        ContextPool { free }
    }
}

impl ContextPool {
    /// Agrees with all members of `parent` on an id for a new communicator of some of them; all
    /// call it. `None`: no id is free at all of them.
    ///
    /// # Errors
    /// [`CommError`].
    pub fn agree(&self, parent: Party<'_>) -> Result<Option<ContextId>, CommError> {
        Ok(self.free_at_all(parent)?.lowest())
    }

    /// The ids that are free at all of these members, who all call it.
    ///
    /// # Errors
    /// [`CommError`].
    pub fn free_at_all(&self, members: Party<'_>) -> Result<FreeContexts, CommError> {
        let all = now(members.allreduce(Span::of(&self.free), &mut InBoth))?;
        Ok(FreeContexts(all.as_ref().to_vec()))
    }

    /// Uses an id that was agreed on.
    pub fn take(&mut self, id: ContextId) {
        self.free[usize::from(id.0) / 8] &= !(1 << (id.0 % 8));
    }

    /// Gives an id back, when nothing communicates under it any more.
    pub fn give_back(&mut self, id: ContextId) {
        self.free[usize::from(id.0) / 8] |= 1 << (id.0 % 8);
    }
}

/// Ids that are free at all members of a group.
#[derive(Clone, Debug)]
pub struct FreeContexts(Vec<u8>);

impl FreeContexts {
    /// Bytes of [`FreeContexts::as_bytes`].
    pub(super) const BYTES: usize = MAX_COMMUNICATORS / 8;

    /// As they are told to another group.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Leaves those that are free in another group too, of which these are the bytes.
    pub(super) fn keep_those_of(&mut self, other: &[u8]) {
        self.0.iter_mut().zip(other).for_each(|(mine, theirs)| *mine &= theirs);
    }

    /// The lowest of them.
    pub(super) fn lowest(&self) -> Option<ContextId> {
        lowest(&self.0)
    }
}

fn lowest(free: &[u8]) -> Option<ContextId> {
    let byte = free.iter().position(|&byte| byte != 0)?;
    // At most `MAX_COMMUNICATORS`, which fits.
    Some(ContextId((8 * byte) as u16 + free[byte].trailing_zeros() as u16))
}

struct InBoth;

impl Combine for InBoth {
    fn combine(&mut self, left: &mut [u8], right: &mut [u8]) -> Result<(), CommError> {
        left.iter().zip(right).for_each(|(l, r)| *r &= l);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_taken_lowest_first_and_used_again() {
        let mut pool = ContextPool::default();
        assert_eq!(lowest(&pool.free), Some(ContextId(2)));
        for id in 2..MAX_COMMUNICATORS as u16 {
            assert_eq!(lowest(&pool.free), Some(ContextId(id)));
            pool.take(ContextId(id));
        }
        assert_eq!(lowest(&pool.free), None);
        pool.give_back(ContextId(77));
        assert_eq!(lowest(&pool.free), Some(ContextId(77)));
    }
}
