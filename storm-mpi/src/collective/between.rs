//! Collectives between two groups (MPI-4.1, section 6.2.3): the data of the members of one group is
//! sent to the members of the other.
//!
//! Each collective consists of collectives of one group, of messages across, or of both, in the one
//! context that the groups share. Every message of a collective is received from a named member, so
//! messages inside a group and messages across do not mix. Nodes carry out none of them, because
//! both groups communicate in that context.
//!
//! Reductions combine the elements of each group as a party of that group alone does, so the bits
//! are the same.

use super::{Blocks, BlocksMut, Combine, Neighbours, Party, Span, Turn};
use crate::envelope::Context;
use crate::error::CommError;
use crate::process::Process;
use crate::rank::Rank;
use std::iter::once;
use std::ops::Range;
use std::slice::from_ref;

/// Two groups without a common member, seen from a member of either.
#[derive(Clone, Copy)]
pub struct Between<'a> {
    process: &'a Process,
    local: &'a [Rank],
    remote: &'a [Rank],
    me: usize,
    context: Context,
    turn: Turn,
}

/// The root of a collective, as a member names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// This process (`MPI_ROOT`).
    Here,
    /// Another member of this group (`MPI_PROC_NULL`); this process then has no part in the
    /// collective.
    LocalPeer,
    /// This member of the other group.
    Remote(usize),
}

impl<'a> Between<'a> {
    /// The two groups as seen by this process, the `me`-th of `local`. Only collectives of both
    /// groups may communicate in the context.
    pub fn new(
        process: &'a Process,
        local: &'a [Rank],
        remote: &'a [Rank],
        me: usize,
        context: Context,
    ) -> Self {
        Between { process, local, remote, me, context, turn: Turn::default() }
    }

    /// The same groups, with collectives that yield instead of waiting.
    ///
    /// # Safety
    /// Like [`Party::in_background`].
    pub unsafe fn in_background(self, turn: Turn) -> Self {
        Between { turn, ..self }
    }

    /// All members of both groups, in the same order at every member, and this process's place
    /// among them.
    pub fn both(&self) -> (Vec<Rank>, usize) {
        // The groups have no member in common, so their first members differ.
        match self.local.first() < self.remote.first() {
            true => ([self.local, self.remote].concat(), self.me),
            false => ([self.remote, self.local].concat(), self.remote.len() + self.me),
        }
    }

    /// A party of these processes, which must be members.
    pub fn party<'p>(&self, members: &'p [Rank], me: usize) -> Party<'p>
    where
        'a: 'p,
    {
        Party { turn: self.turn, ..Party::new(self.process, members, me, self.context) }
            .by_messages()
    }

    /// Brings the blocks `mine` of all members to all; all have the same length. Returns the blocks
    /// of this group one after the other, and those of the other group.
    ///
    /// # Errors
    /// [`CommError`].
    pub async fn gathered(&self, mine: &[u8]) -> Result<[Vec<u8>; 2], CommError> {
        let (both, me) = self.both();
        let bytes = mine.len();
        let places: Vec<_> = (0..both.len()).map(|at| at * bytes..(at + 1) * bytes).collect();
        let mut all = vec![0; both.len() * bytes];
        let party = self.party(&both, me);
        party.allgather(Some(mine), &mut BlocksMut::new(&mut all, &places)?).await?;
        // This group's blocks begin at its first member's place.
        Ok(if me == self.me {
            let remote = all.split_off(self.local.len() * bytes);
            [all, remote]
        } else {
            let local = all.split_off(self.remote.len() * bytes);
            [local, all]
        })
    }

    /// Returns when every member of both groups has called it.
    ///
    /// # Errors
    /// [`CommError`].
    pub async fn barrier(&self) -> Result<(), CommError> {
        let (both, me) = self.both();
        self.party(&both, me).barrier().await
    }

    /// Gives every member of the other group the root's `data`.
    ///
    /// # Errors
    /// Like [`Party::bcast`].
    pub async fn bcast(&self, data: &mut [u8], root: Root) -> Result<(), CommError> {
        let root = match root {
            Root::LocalPeer => return Ok(()),
            Root::Here => return self.bcast_from(data).await,
            Root::Remote(root) => self.remote_party().rank(root)?,
        };
        let members: Vec<Rank> = once(root).chain(self.local.iter().copied()).collect();
        self.party(&members, self.me + 1).bcast(data, 0).await
    }

    /// The root's part in [`Between::bcast`]; its memory is only read.
    ///
    /// # Errors
    /// Like [`Between::bcast`].
    pub async fn bcast_from(&self, data: &[u8]) -> Result<(), CommError> {
        let own = self.local[self.me];
        let members: Vec<Rank> = once(own).chain(self.remote.iter().copied()).collect();
        self.party(&members, 0).bcast_from(data).await
    }

    /// Brings every member's block to the root in the other group. The root passes `into`.
    ///
    /// # Errors
    /// Like [`Party::gather`].
    pub async fn gather(
        &self,
        mine: &[u8],
        into: Option<&mut BlocksMut<'_>>,
        root: Root,
    ) -> Result<(), CommError> {
        match (root, into) {
            (Root::Remote(root), _) => self.give(mine, root).await,
            (Root::Here, Some(into)) => {
                self.exchange((0..self.remote.len(), 0..0), Blocks::none(), into).await
            }
            (Root::Here, None) | (Root::LocalPeer, _) => Ok(()),
        }
    }

    /// Gives every member of the other group its block of the root's `from`. The block arrives in
    /// `mine`.
    ///
    /// # Errors
    /// Like [`Party::gather`].
    pub async fn scatter(
        &self,
        from: Option<Blocks<'_>>,
        mine: &mut [u8],
        root: Root,
    ) -> Result<(), CommError> {
        match (root, from) {
            (Root::Remote(root), _) => self.take(mine, root).await,
            (Root::Here, Some(from)) => {
                let to = 0..self.remote.len();
                self.exchange((0..0, to), from, &mut BlocksMut::new(&mut [], &[])?).await
            }
            (Root::Here, None) | (Root::LocalPeer, _) => Ok(()),
        }
    }

    /// Brings the block of every member of each group to all members of the other.
    ///
    /// Each block is sent to one member only. A member gets about as many blocks as the others of
    /// its group, and distributes them in it.
    ///
    /// # Errors
    /// Like [`Party::gather`].
    pub async fn allgather(&self, mine: &[u8], into: &mut BlocksMut<'_>) -> Result<(), CommError> {
        let (here, there) = (self.local.len(), self.remote.len());
        let (into, places) = into.parts();
        let held: Vec<_> = (0..here).map(|member| share(member, here, there)).collect();
        let blocks = |share: &Range<usize>| places.get(share.clone()).unwrap_or_default();
        let lengths = held.iter().map(|share| blocks(share).iter().map(Range::len).sum());
        let parts = super::blocks::in_a_row(lengths);
        let mut all = vec![0; parts.last().map_or(0, |part| part.end)];
        let own = parts[self.me].clone();
        let sources = held[self.me].clone();
        let within = super::blocks::in_a_row(blocks(&sources).iter().map(Range::len));
        let holder = (0..there).find(|&member| share(member, there, here).contains(&self.me));
        let holder = holder.unwrap_or_default();
        let from = 0..mine.len();
        let mut own = BlocksMut::new(&mut all[own], &within)?;
        let who = (sources, holder..holder + 1);
        self.exchange(who, Blocks::new(mine, from_ref(&from))?, &mut own).await?;
        let mut shares = BlocksMut::new(&mut all, &parts)?;
        self.local().allgather(None, &mut shares).await?;
        let mut rest = &all[..];
        for place in places {
            let (block, later) = rest.split_at(place.len().min(rest.len()));
            super::rooted::copy(block, &mut into[place.clone()])?;
            rest = later;
        }
        Ok(())
    }

    /// Sends each member of the other group its block of `from`, and receives one from each.
    ///
    /// # Errors
    /// Like [`Party::gather`].
    pub async fn alltoall(
        &self,
        from: Blocks<'_>,
        into: &mut BlocksMut<'_>,
    ) -> Result<(), CommError> {
        let all = 0..self.remote.len();
        self.exchange((all.clone(), all), from, into).await
    }

    /// Combines the elements of the members of one group at the root in the other group. The root's
    /// `mine` only gives their length.
    ///
    /// # Errors
    /// Like [`Party::reduce`].
    pub async fn reduce(
        &self,
        mut mine: Span,
        op: &mut dyn Combine,
        root: Root,
    ) -> Result<Option<Span>, CommError> {
        match root {
            Root::LocalPeer => Ok(None),
            Root::Here => {
                self.take(mine.as_mut(), FIRST).await?;
                Ok(Some(mine))
            }
            Root::Remote(root) => {
                if let Some(all) = self.local().reduce(mine, op, FIRST).await? {
                    self.give(all.as_ref(), root).await?;
                }
                Ok(None)
            }
        }
    }

    /// Combines the elements of each group for all members of the other, with the same bits at all
    /// of them.
    ///
    /// # Errors
    /// Like [`Party::reduce`].
    pub async fn allreduce(&self, mine: Span, op: &mut dyn Combine) -> Result<Span, CommError> {
        let mut theirs = Span::zeroed(mine.as_ref().len());
        self.reduced_between(mine, op, &mut theirs).await?;
        self.local().bcast(theirs.as_mut(), FIRST).await?;
        Ok(theirs)
    }

    /// Combines the elements of each group. Each member of the other group gets its part of the
    /// result.
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
        let mut theirs = Span::zeroed(mine.as_ref().len());
        self.reduced_between(mine, op, &mut theirs).await?;
        let blocks = Blocks::new(theirs.as_ref(), parts)?;
        self.local().scatter((self.me == FIRST).then_some(blocks), Some(part), FIRST).await
    }

    /// Combines the elements of each group at its first member, and brings the result to the other
    /// group's first member.
    async fn reduced_between(
        &self,
        mine: Span,
        op: &mut dyn Combine,
        theirs: &mut Span,
    ) -> Result<(), CommError> {
        let Some(all) = self.local().reduce(mine, op, FIRST).await? else { return Ok(()) };
        let (first, whole) = (FIRST..FIRST + 1, 0..all.as_ref().len());
        let mut theirs = BlocksMut::new(theirs.as_mut(), from_ref(&whole))?;
        let from = Blocks::new(all.as_ref(), from_ref(&whole))?;
        self.exchange((first.clone(), first), from, &mut theirs).await
    }

    async fn give(&self, data: &[u8], to: usize) -> Result<(), CommError> {
        let whole = 0..data.len();
        let from = Blocks::new(data, from_ref(&whole))?;
        self.exchange((0..0, to..to + 1), from, &mut BlocksMut::new(&mut [], &[])?).await
    }

    async fn take(&self, data: &mut [u8], from: usize) -> Result<(), CommError> {
        let whole = 0..data.len();
        let mut into = BlocksMut::new(data, from_ref(&whole))?;
        self.exchange((from..from + 1, 0..0), Blocks::none(), &mut into).await
    }

    /// Receives blocks from some members of the other group, and sends blocks to some.
    async fn exchange(
        &self,
        (sources, destinations): (Range<usize>, Range<usize>),
        from: Blocks<'_>,
        into: &mut BlocksMut<'_>,
    ) -> Result<(), CommError> {
        let neighbours = Neighbours::in_graph(sources, destinations);
        self.remote_party().exchange(&neighbours, from, into).await
    }

    fn local(&self) -> Party<'a> {
        self.party(self.local, self.me)
    }

    /// The other group, for messages to and from its members. This process has no place in it.
    fn remote_party(&self) -> Party<'a> {
        self.party(self.remote, usize::MAX)
    }
}

/// The member of each group that gets the combination of the group's elements.
const FIRST: usize = 0;

/// The share of `blocks` blocks that a member of `members` holds: about as many as each other
/// member.
fn share(member: usize, members: usize, blocks: usize) -> Range<usize> {
    member * blocks / members..(member + 1) * blocks / members
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn every_block_is_held_by_one_member() {
        for (members, blocks) in [(1, 1), (1, 7), (7, 1), (3, 8), (8, 3), (5, 5)] {
            let held: Vec<_> = (0..members).flat_map(|m| share(m, members, blocks)).collect();
            assert_eq!(held, (0..blocks).collect::<Vec<_>>());
        }
    }
}
