//! The short path of short messages between neighbours. A message is pushed as a whole, and the
//! waiting receiver takes it as a whole, without news in between.
//!
//! Every function of this module may refuse. The full path through `send`, `poll` and `read` then
//! does the same.

use super::awaiting::{GLANCES, NEWS_BETWEEN_SOCKET_POLLS};
use super::directory::Place;
use super::inbox::LocalIndex;
#[cfg(doc)]
use super::local::Local;
use super::records::{WHOLE_MAX_BYTES, WORD_BYTES};
use super::waiting::Patience;
use super::{Transport, lost};
use crate::error::CommError;
use crate::rank::Rank;

/// A neighbour whose ring is open.
#[derive(Clone, Copy)]
pub(crate) struct NeighbourRing {
    rank: Rank,
    index: LocalIndex,
}

impl NeighbourRing {
    pub(crate) fn rank(self) -> Rank {
        self.rank
    }
}

impl Transport {
    /// The rank as a neighbour; `None` if it is not a neighbour, or is this rank itself.
    #[inline]
    pub(crate) fn neighbour(&self, rank: Rank) -> Option<NeighbourRing> {
        match self.directory.place(rank) {
            Some(Place::Here(index)) if self.local.is_some() && rank != self.me() => {
                Some(NeighbourRing { rank, index })
            }
            _ => None,
        }
    }

    /// Sends a header and its payload completely, or sends nothing and returns `false`.
    #[inline]
    pub(crate) fn send_whole<const WORDS: usize>(
        &mut self,
        to: NeighbourRing,
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
            // The full path handles a full ring and an error.
            Ok(false) | Err(_) => Ok(false),
        }
    }

    /// Whether bytes of that neighbour have arrived, after a few polls. Also false if others have
    /// sent, or if the sockets are due. If the polls find nothing, the next [`Transport::poll`]
    /// continues this wait.
    #[inline]
    pub(crate) fn expects(&mut self, NeighbourRing { index, .. }: NeighbourRing) -> bool {
        let Some(local) = &self.local else { return false };
        self.since_socket_poll += 1;
        if self.since_socket_poll >= NEWS_BETWEEN_SOCKET_POLLS {
            return false;
        }
        if let Some(place) = &self.place {
            place.has_looked();
        }
        if local.has_other_news(index) {
            return false;
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

    /// Like [`Transport::expects`], for a receiver of any rank's message: returns the next
    /// neighbour that has sent, in turn. Also returns `None` if any neighbour has poked. A rank
    /// with peers on other nodes polls only once, because it must poll sockets too.
    #[inline]
    pub(crate) fn expects_any(&mut self) -> Option<NeighbourRing> {
        let local = self.local.as_mut().filter(|local| !local.is_silent() && !local.has_poked())?;
        self.since_socket_poll += 1;
        if self.since_socket_poll >= NEWS_BETWEEN_SOCKET_POLLS {
            return None;
        }
        if let Some(place) = &self.place {
            place.has_looked();
        }
        let mut found = local.next_that_has_sent();
        if found.is_none() && self.tcp.is_none() {
            let begun = self.begin();
            if begun.patience != Patience::None {
                found = self.local.as_mut()?.glance_at_all(GLANCES);
            }
            if found.is_some() {
                self.waited(begun);
            } else {
                self.begun = Some(begun);
            }
        }
        let index = found?;
        Some(NeighbourRing { rank: self.directory.local_ranks()[index.0], index })
    }

    /// Like [`Local::take_whole`].
    #[inline]
    pub(crate) fn take_whole<const WORDS: usize, T>(
        &mut self,
        from: NeighbourRing,
        into: &mut [u8],
        choose: impl FnOnce(usize, &[[u8; WORD_BYTES]; WORDS]) -> Option<(usize, T)>,
    ) -> Result<Option<T>, CommError> {
        let Some(local) = &mut self.local else { return Ok(None) };
        match local.take_whole(from.index, into, choose) {
            Ok(None) => Ok(None),
            Ok(Some((told, false))) => Ok(Some(told)),
            Ok(Some((told, true))) => self.poke(from.rank, from.index).map(|()| Some(told)),
            Err(error) => Err(lost(from.rank, error)),
        }
    }
}
