//! Polls for news, and waits for it.
//!
//! An immediate answer arrives before a clock could be read twice. So a wait begins with a few
//! polls that are neither reported nor measured. Only if they find nothing does the rank report
//! that it waits, and since when.
//!
//! The awaited source determines which source the rank polls first. A poll of a neighbour's ring
//! costs nothing. A poll of the socket on which the message arrives costs a system call, which also
//! reads the message. The rank polls all other sockets less often.

use super::directory::Place;
use super::inbox::LocalIndex;
use super::poller::{Happening, Watched};
use super::tcp::{Lost, Tcp};
use super::waiting::Patience;
use super::{Awaits, News, Transport, lost};
use crate::error::CommError;
use crate::page::{OwnPlace, Way};
use crate::rank::Rank;
use std::io;
use std::time::{Duration, Instant};

/// Polls of shared memory before a wait counts as a wait: as many as take a microsecond or less. At
/// the ring of a neighbour that sends more than a line, they take 3 to 4 us, because it is polled
/// more often (`local::LONG_LOOKS`).
pub(super) const GLANCES: u32 = 256;
/// Polls of the awaited socket before a wait counts as a wait: some hundred nanoseconds each.
const SOCKET_GLANCES: u32 = 4;
/// Polls of shared memory between readings of the clock and polls of sockets, while spinning.
const CHECKS_BETWEEN_LOOKS: u32 = 32;
/// Polls of the awaited socket between readings of the clock and polls of all sockets.
const SOCKET_CHECKS_BETWEEN_LOOKS: u32 = 8;
/// Shared-memory news handled before the sockets are polled too.
pub(super) const NEWS_BETWEEN_SOCKET_POLLS: u32 = 64;

/// Longest sleep while there was no descriptor for a connecting peer. Other code in this process or
/// on this host may free one without notice. A poll costs a system call, which is negligible at
/// this rate.
pub(super) const BETWEEN_ACCEPTS: Duration = Duration::from_millis(20);

/// A wait that has begun.
pub(crate) struct Begun {
    /// The way to wait that the Node Manager had set then.
    pub(super) told: Way,
    pub(super) patience: Patience,
    /// Start of the wait. A rank that polls until there is news does not need it.
    at: Option<Instant>,
}

/// Places where a wait looks often.
#[derive(Clone, Copy)]
enum Lookout {
    /// Shared memory, which may be the only source.
    Memory,
    /// Shared memory, most often the ring of this neighbour.
    Ring(LocalIndex, Rank),
    /// Shared memory and all sockets.
    Everything,
    /// Shared memory and the socket of this rank.
    Socket(Rank),
}

impl Transport {
    /// Adds the peers with news to `news`, and waits for the first if something is awaited. May
    /// return without news: the caller checks its condition and calls again.
    pub(crate) fn poll(&mut self, awaits: Awaits, news: &mut Vec<News>) -> Result<(), CommError> {
        let block = awaits != Awaits::Nothing;
        if self.buffered.is_some() {
            return self.poll_buffered(block, news);
        }
        let begun = self.begun.take();
        if let Some(place) = &self.place {
            place.has_looked();
        }
        self.local_news(news);
        if !news.is_empty() {
            if let Some(begun) = begun.filter(|begun| begun.patience != Patience::None) {
                self.waited(begun);
            }
            return self.others_turn(news);
        }
        if !block {
            return if self.tcp.is_some() || self.has_slept {
                self.socket_news(false, news).map(drop)
            } else {
                Ok(())
            };
        }
        if self.local.is_none() && self.tcp.is_none() && !self.closing {
            return Err(CommError::Deadlock);
        }
        let lookout = self.lookout(awaits);
        let begun = match begun {
            Some(begun) => begun,
            None => {
                let begun = self.begin();
                if begun.patience != Patience::None && self.glance(lookout, news)? {
                    self.waited(begun);
                    return self.others_turn(news);
                }
                begun
            }
        };
        self.say_waiting(true);
        let waited = self.wait(lookout, &begun, news);
        self.say_waiting(false);
        waited
    }

    /// A wait begins.
    #[inline]
    pub(super) fn begin(&mut self) -> Begun {
        let told = self.ordered_way();
        if self.waiting.is_by_looking() {
            return Begun { told, patience: Patience::Endless, at: None };
        }
        let now = Instant::now();
        Begun { told, patience: self.waiting.patience(now, told), at: Some(now) }
    }

    /// Ends a wait in which the first polls have found the awaited news.
    #[inline]
    pub(super) fn waited(&mut self, begun: Begun) {
        if let Some(at) = begun.at {
            self.waiting.found(at);
        }
    }

    /// Polls the sockets although there was news at once. Otherwise a peer whose messages are
    /// always ready would keep out all others, and would keep this rank's own bytes from being
    /// written.
    fn others_turn(&mut self, news: &mut Vec<News>) -> Result<(), CommError> {
        self.since_socket_poll += 1;
        if self.since_socket_poll < NEWS_BETWEEN_SOCKET_POLLS {
            return Ok(());
        }
        self.since_socket_poll = 0;
        if self.tcp.is_some() { self.socket_news(false, news).map(drop) } else { Ok(()) }
    }

    fn say_waiting(&self, waiting: bool) {
        if let Some(place) = &self.place {
            place.wait(waiting);
        }
    }

    /// The way to wait that the Node Manager has set.
    pub(super) fn ordered_way(&self) -> Way {
        self.place.as_ref().map_or(Way::Own, OwnPlace::way)
    }

    fn lookout(&self, awaits: Awaits) -> Lookout {
        if let Awaits::From(peer) = awaits {
            match (self.directory.place(peer), &self.tcp) {
                (Some(Place::Here(index)), _) => return Lookout::Ring(index, peer),
                (Some(Place::Elsewhere), Some(tcp)) if tcp.hears(peer) => {
                    return Lookout::Socket(peer);
                }
                _ => {}
            }
        }
        if self.tcp.is_none() && !self.closing { Lookout::Memory } else { Lookout::Everything }
    }

    /// Polls a few times. Returns whether there was news.
    fn glance(&mut self, lookout: Lookout, news: &mut Vec<News>) -> Result<bool, CommError> {
        let looks = match (lookout, &self.local) {
            (Lookout::Ring(index, peer), Some(_)) => {
                let has_sent = self.glance_at(index);
                news.extend(has_sent.then_some(News { peer }));
                return Ok(has_sent);
            }
            (Lookout::Memory | Lookout::Ring(..), _) => GLANCES,
            (Lookout::Everything | Lookout::Socket(_), _) => SOCKET_GLANCES,
        };
        for _ in 0..looks {
            if self.look(lookout, news)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Polls one neighbour's ring a few times, which costs least. Returns whether the neighbour has
    /// sent.
    #[inline]
    pub(super) fn glance_at(&self, index: LocalIndex) -> bool {
        self.local.as_ref().is_some_and(|local| local.glance(index, GLANCES))
    }

    /// Polls once. Returns whether anything happened.
    #[inline]
    fn look(&mut self, lookout: Lookout, news: &mut Vec<News>) -> Result<bool, CommError> {
        self.local_news(news);
        if !news.is_empty() {
            return Ok(true);
        }
        match (lookout, &mut self.tcp) {
            (Lookout::Memory | Lookout::Ring(..), _) | (Lookout::Socket(_), None) => Ok(false),
            (Lookout::Everything, _) => self.socket_news(false, news),
            (Lookout::Socket(peer), Some(tcp)) => {
                let has_sent = tcp.look_at(peer);
                news.extend(has_sent.then_some(News { peer }));
                Ok(has_sent)
            }
        }
    }

    /// Waits for news: polls, and then sleeps.
    fn wait(
        &mut self,
        lookout: Lookout,
        begun: &Begun,
        news: &mut Vec<News>,
    ) -> Result<(), CommError> {
        if begun.patience != Patience::None && self.spin(lookout, begun, news)? {
            return Ok(());
        }
        if self.local.as_ref().is_none_or(|local| local.fall_asleep()) {
            let slept = self.socket_news(true, news);
            if let Some(local) = &self.local {
                local.wake_up();
            }
            slept?;
        }
        self.local_news(news);
        if !news.is_empty() {
            self.waiting.woken(Instant::now());
        }
        Ok(())
    }

    /// Polls for news without sleeping, as long as polling is worthwhile. Returns false if there
    /// was none.
    fn spin(
        &mut self,
        lookout: Lookout,
        begun: &Begun,
        news: &mut Vec<News>,
    ) -> Result<bool, CommError> {
        let checks = match lookout {
            Lookout::Memory | Lookout::Ring(..) => CHECKS_BETWEEN_LOOKS,
            Lookout::Everything | Lookout::Socket(_) => SOCKET_CHECKS_BETWEEN_LOOKS,
        };
        loop {
            for _ in 0..checks {
                if self.look(lookout, news)? {
                    self.waiting.found(Instant::now());
                    return self.others_turn(news).map(|()| true);
                }
                std::hint::spin_loop();
            }
            if self.ordered_way() != begun.told {
                // The time for polling is over: the rank sleeps.
                return Ok(false);
            }
            let now = Instant::now();
            if (self.tcp.is_some() || self.closing) && self.socket_news(false, news)? {
                self.waiting.found(now);
                return Ok(true);
            }
            if matches!(begun.patience, Patience::Until(end) if now >= end) {
                self.waiting.gave_up();
                return Ok(false);
            }
        }
    }

    #[inline]
    fn local_news(&mut self, news: &mut Vec<News>) {
        if let Some(local) = &mut self.local {
            let ranks = self.directory.local_ranks();
            local.take_news(|source| news.push(News { peer: ranks[source.0] }));
        }
    }

    /// Returns whether anything happened, news or not.
    pub(super) fn socket_news(
        &mut self,
        block: bool,
        news: &mut Vec<News>,
    ) -> Result<bool, CommError> {
        (self.since_socket_poll, self.has_slept) = (0, false);
        let mut happenings = std::mem::take(&mut self.happenings);
        let before = news.len();
        let outcome = match self.look_at_sockets(block, &mut happenings) {
            Err(error) => Err(CommError::Wait(error)),
            Ok(()) => happenings.iter().try_for_each(|&happening| match happening.watched {
                Watched::Adapter => self.hear_adapter(news),
                _ => {
                    news.extend(self.handle(happening)?.map(|peer| News { peer }));
                    Ok(())
                }
            }),
        };
        let outcome = outcome.and_then(|()| self.look_at_requests(news));
        let any = !happenings.is_empty() || news.len() > before;
        self.socket_events += happenings.len() as u64;
        self.happenings = happenings;
        outcome.map(|()| any)
    }

    /// Collects the events at the sockets. While a connecting peer waits at the listener for a
    /// descriptor, the listener is polled each time, and regularly during a sleep, because nothing
    /// announces a free descriptor.
    fn look_at_sockets(&mut self, block: bool, happenings: &mut Vec<Happening>) -> io::Result<()> {
        if let Some(tcp) = self.tcp.as_mut().filter(|tcp| tcp.is_deaf()) {
            tcp.accept(&self.poller)?;
            if block && tcp.is_deaf() {
                return self.poller.wait_for(BETWEEN_ACCEPTS, happenings);
            }
        }
        match self.tcp.as_ref().and_then(Tcp::longest_sleep).filter(|_| block) {
            Some(longest) => self.poller.wait_for(longest, happenings),
            None => self.poller.wait(block, happenings),
        }
    }

    /// Regularly checks requests under way by RDMA, even if nothing has announced news.
    fn look_at_requests(&mut self, news: &mut Vec<News>) -> Result<(), CommError> {
        let Some(tcp) = &mut self.tcp else { return Ok(()) };
        match tcp.look_at_requests(|peer| news.push(News { peer })) {
            Err(Lost { peer, .. }) if self.closing => tcp.forget(peer),
            Err(Lost { peer, error }) => return Err(lost(peer, error)),
            Ok(()) => {}
        }
        Ok(())
    }

    /// Collects news from the adapter.
    fn hear_adapter(&mut self, news: &mut Vec<News>) -> Result<(), CommError> {
        let Some(tcp) = &mut self.tcp else { return Ok(()) };
        while let Some(name) = tcp.next_of_adapter().map_err(CommError::Wait)? {
            match tcp.hear_adapter(name) {
                Ok(peer) => news.extend(peer.map(|peer| News { peer })),
                Err(Lost { peer, .. }) if self.closing => tcp.forget(peer),
                Err(Lost { peer, error }) => return Err(lost(peer, error)),
            }
        }
        Ok(())
    }

    /// Handles one event of the kernel. Returns the peer with news.
    fn handle(&mut self, happening: Happening) -> Result<Option<Rank>, CommError> {
        match happening.watched {
            Watched::Bell => {
                if let Some(local) = &self.local {
                    local.answer_bell();
                }
                if let Some(buffered) = &self.buffered {
                    buffered.answer_bell();
                }
                Ok(None)
            }
            Watched::ProcessManager | Watched::Adapter => Ok(None),
            Watched::Listener => match &mut self.tcp {
                None => Ok(None),
                Some(tcp) => tcp.accept(&self.poller).map(|()| None).map_err(CommError::Wait),
            },
            Watched::Connection(slot) => {
                let Some(tcp) = &mut self.tcp else { return Ok(None) };
                let directory = &self.directory;
                let is_remote = |rank| directory.place(rank) == Some(Place::Elsewhere);
                match tcp.event(slot, happening, is_remote, &self.poller) {
                    Ok(news) => Ok(news),
                    Err(Lost { peer, .. }) if self.closing => {
                        tcp.forget(peer);
                        Ok(None)
                    }
                    Err(Lost { peer, error }) => Err(lost(peer, error)),
                }
            }
        }
    }
}
