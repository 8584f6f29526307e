//! The straight way of short messages between neighbours: what is pushed as a whole, and taken as a whole where it is
//! waited for, without news in between.
//!
//! All here may say no, which costs nothing but the longer way: through `send`, `poll` and `read`.

use super::awaiting::NEWS_BETWEEN_SOCKET_POLLS;
use super::directory::Place;
use super::inbox::LocalIndex;
use super::records::{FirstBytes, WHOLE_MAX_BYTES, WORD_BYTES};
use super::waiting::Patience;
use super::{Transport, lost};
use crate::error::CommError;
use crate::rank::Rank;

/// A neighbour whose ring is at hand.
#[derive(Clone, Copy)]
pub(crate) struct Neighbour {
    rank: Rank,
    index: LocalIndex,
}

impl Neighbour {
    pub(crate) fn rank(self) -> Rank {
        self.rank
    }
}

impl Transport {
    /// The rank as a neighbour; `None` if it is none, or this rank itself.
    #[inline]
    pub(crate) fn neighbour(&self, rank: Rank) -> Option<Neighbour> {
        match self.directory.place(rank) {
            Some(Place::Here(index)) if self.local.is_some() && rank != self.me() => {
                Some(Neighbour { rank, index })
            }
            _ => None,
        }
    }

    /// Sends a head and what is behind it, all of it or, as `false` tells, nothing.
    #[inline]
    pub(crate) fn send_whole<const WORDS: usize>(
        &mut self,
        to: Neighbour,
        head: &[[u8; WORD_BYTES]; WORDS],
        payload: &[u8],
    ) -> Result<bool, CommError> {
        let Some(local) = self.local.as_mut().filter(|_| payload.len() <= WHOLE_MAX_BYTES) else {
            return Ok(false);
        };
        match local.send_whole(to.index, head, payload) {
            Ok(true) => {
                if let Some(place) = &self.place {
                    place.has_sent(to.index.0);
                }
                Ok(true)
            }
            Err(error) if !self.closing => Err(lost(to.rank, error)),
            // In the other case the longer way knows what to do.
            Ok(false) | Err(_) => Ok(false),
        }
    }

    /// Whether something of that neighbour has come, after a few looks. False also when all others are to
    /// have their turn. Where it was in vain the next [`Transport::poll`] goes on with this wait.
    #[inline]
    pub(crate) fn expects(&mut self, Neighbour { index, .. }: Neighbour) -> bool {
        let Some(local) = &self.local else { return false };
        self.since_socket_poll += 1;
        if self.since_socket_poll >= NEWS_BETWEEN_SOCKET_POLLS {
            return false;
        }
        if let Some(place) = &self.place {
            place.has_looked();
        }
        if local.has_sent(index) {
            return true;
        }
        let begun = self.begin();
        if begun.patience != Patience::None && self.glance_at(index) {
            self.waited(begun);
            return true;
        }
        self.begun = Some(begun);
        false
    }

    /// What that neighbour has pushed at once, if nothing of it is taken: its length, and its first bytes.
    #[inline]
    pub(crate) fn whole(
        &mut self,
        from: Neighbour,
    ) -> Result<Option<(usize, &FirstBytes)>, CommError> {
        let Some(local) = &mut self.local else { return Ok(None) };
        local.whole(from.index).map_err(|error| lost(from.rank, error))
    }

    /// Takes it: what is behind a head of `WORDS` words, as much as there is room for.
    #[inline]
    pub(crate) fn take_whole<const WORDS: usize>(
        &mut self,
        from: Neighbour,
        bytes: usize,
        into: &mut [u8],
    ) -> Result<(), CommError> {
        let Some(local) = &mut self.local else { return Ok(()) };
        let room = into.len().min(bytes);
        local.copy_whole::<WORDS>(from.index, &mut into[..room]);
        if local.advance(from.index, WORDS * WORD_BYTES + bytes) {
            return self.poke(from.rank, from.index);
        }
        Ok(())
    }
}
