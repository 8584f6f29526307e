//! The streams of a job under buffered coscheduling. They pass through the segment that this rank
//! shares with its node, which moves bytes once per slice.
//!
//! A rank that waits sleeps at once, whatever its settings: the awaited bytes arrive when a slice
//! begins, and until then another job uses the processor.

use super::directory::{Card, Directory, random_u128};
use super::doorbell::BellName;
use super::poller::{Poller, Watched};
use super::waiting::Wish;
use super::{News, Transport};
use crate::envelope::Context;
use crate::error::{CommError, InitError};
use crate::rank::Rank;
use crate::segment::{Call, RankEnd, TRANSPORT_BCS, TRANSPORT_VARIABLE};

/// Whether the environment gives this rank a segment.
pub(super) fn is_wanted() -> Result<bool, InitError> {
    match std::env::var(TRANSPORT_VARIABLE) {
        Err(_) => Ok(false),
        Ok(value) => match value.trim() {
            "" | "direct" => Ok(false),
            TRANSPORT_BCS => Ok(true),
            _ => Err(InitError::Setting { variable: TRANSPORT_VARIABLE, value }),
        },
    }
}

impl Transport {
    /// Joins a job whose bytes the nodes move. No rank sends before all have their segments,
    /// because the cards are exchanged in a barrier.
    pub(super) fn open_buffered(
        mut directory: Directory,
        poller: Poller,
        wish: &Wish,
    ) -> Result<Self, InitError> {
        let (me, size) = (directory.me(), directory.size());
        let descriptors = match directory.pmi() {
            Some(pmi) => pmi.segment()?,
            None => return Err(InitError::Token),
        };
        let end = RankEnd::attach(descriptors, me, size)
            .map_err(InitError::os("mapping the memory shared with the node"))?;
        poller.watch(&end, Watched::Bell, false).map_err(InitError::os("epoll"))?;
        let bell = BellName(random_u128().map_err(InitError::os("reading random bytes"))?);
        let pid = std::process::id();
        directory.publish(&Card { pid, inbox_fd: -1, mark: 0, bell, address: None })?;
        Ok(Transport {
            directory,
            poller,
            local: None,
            tcp: None,
            buffered: Some(end),
            waiting: wish.waiting(true, true),
            place: None,
            since_socket_poll: 0,
            begun: None,
            happenings: Vec::new(),
            socket_events: 0,
            has_slept: false,
            closing: false,
        })
    }

    /// [`Transport::poll`] if the node moves the bytes.
    pub(super) fn poll_buffered(
        &mut self,
        block: bool,
        news: &mut Vec<News>,
    ) -> Result<(), CommError> {
        if self.size() == 1 && block && !self.closing {
            return Err(CommError::Deadlock);
        }
        self.buffered_news(news)?;
        if !news.is_empty() || !block {
            if (self.closing || self.has_slept) && !block {
                self.socket_news(false, news)?;
            }
            return Ok(());
        }
        let sleeps = self.buffered.as_ref().map_or(Ok(false), RankEnd::fall_asleep)?;
        if sleeps {
            let slept = self.socket_news(true, news);
            if let Some(end) = &self.buffered {
                end.wake_up();
            }
            slept?;
        }
        self.buffered_news(news)
    }

    /// Encodes a collective for the node. `None` if the nodes carry out no collectives, or none of
    /// this kind.
    pub(crate) fn call_frame(
        &mut self,
        context: Context,
        members: &[Rank],
        call: Call<'_>,
    ) -> Option<Vec<u8>> {
        self.buffered.as_mut()?.call_descriptor(context, members, call)
    }

    /// Posts a collective to the node. Returns false if there is no room now; news tells when to
    /// try again.
    pub(crate) fn post_call(
        &mut self,
        context: Context,
        descriptor: &[u8],
    ) -> Result<bool, CommError> {
        self.buffered.as_mut().map_or(Ok(false), |end| end.post_call(context, descriptor))
    }

    /// Takes the result of the collective when it is over, in the form of [`Process::collective`].
    ///
    /// [`Process::collective`]: crate::Process
    pub(crate) fn take_result(&mut self) -> Option<Option<Vec<u8>>> {
        self.buffered.as_mut()?.take_result()
    }

    fn buffered_news(&mut self, news: &mut Vec<News>) -> Result<(), CommError> {
        if let Some(end) = &mut self.buffered {
            news.extend(end.news()?.into_iter().map(|peer| News { peer: Rank(peer) }));
        }
        Ok(())
    }
}
