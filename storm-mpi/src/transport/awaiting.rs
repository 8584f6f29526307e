//! Looking for news, and waiting for them.
//!
//! A message that is answered at once comes before a clock could be read twice, so a wait begins with a
//! few looks that are not told to anybody and measured by none. Only when they bring nothing does the
//! rank say that it waits, and since when. Where it looks first depends on what it waits for: at a
//! neighbour's ring, which costs nothing; or at the one socket that the message comes by, which costs
//! a call of the kernel that brings the message as well. At all other sockets it looks less often.

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

/// Looks at shared memory before a wait counts as one: as many as take a microsecond or less, or 3 to 4 us at the ring
/// of a neighbour that sends more than a line, which is looked at more often (`local::LONG_LOOKS`).
pub(super) const GLANCES: u32 = 256;
/// Looks at the awaited socket before: some hundred nanoseconds each.
const SOCKET_GLANCES: u32 = 4;
/// Looks at shared memory between looks at the clock, and at sockets, while spinning.
const CHECKS_BETWEEN_LOOKS: u32 = 32;
/// Looks at the awaited socket between looks at the clock, and at all sockets.
const SOCKET_CHECKS_BETWEEN_LOOKS: u32 = 8;
/// Shared-memory news handled before the sockets get a look too.
pub(super) const NEWS_BETWEEN_SOCKET_POLLS: u32 = 64;

/// How long a sleep lasts at most while there was no descriptor for somebody who connects: others in this process or on
/// this host give one back, of which nobody tells. A look costs a system call, so that this is nothing for a processor.
pub(super) const BETWEEN_ACCEPTS: Duration = Duration::from_millis(20);

/// A wait that has begun.
pub(crate) struct Begun {
    /// How its node told it to wait then.
    pub(super) told: Way,
    pub(super) patience: Patience,
    /// Since when; of no matter to who looks until there is something.
    at: Option<Instant>,
}

/// Where a wait looks often.
#[derive(Clone, Copy)]
enum Lookout {
    /// At shared memory, which may be all there is.
    Memory,
    /// At shared memory, and there most often at the ring of this neighbour.
    Ring(LocalIndex, Rank),
    /// At shared memory and all sockets.
    Everything,
    /// At shared memory and at the socket of this rank.
    Socket(Rank),
}

impl Transport {
    /// Adds the peers with news to `news`; waits for the first when something is awaited. May come
    /// back with none: the caller looks at what it waits for and calls again.
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
        let told = self.told();
        if self.waiting.is_by_looking() {
            return Begun { told, patience: Patience::Endless, at: None };
        }
        let now = Instant::now();
        Begun { told, patience: self.waiting.patience(now, told), at: Some(now) }
    }

    /// The first looks have brought what it was for.
    #[inline]
    pub(super) fn waited(&mut self, begun: Begun) {
        if let Some(at) = begun.at {
            self.waiting.found(at);
        }
    }

    /// There were news at once. The sockets have their turn all the same: somebody whose messages are always
    /// there when they are wanted would keep all others out, and what is written to them in.
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

    /// How its node tells it to wait.
    pub(super) fn told(&self) -> Way {
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

    /// A few looks; whether there were news.
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

    /// The same at one neighbour's ring, which costs least; whether it has sent.
    #[inline]
    pub(super) fn glance_at(&self, index: LocalIndex) -> bool {
        self.local.as_ref().is_some_and(|local| local.glance(index, GLANCES))
    }

    /// One look; whether anything happened.
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

    /// Waits for news: looks for them, and then sleeps.
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

    /// Looks for news without sleeping, as long as it is worth it. False: there was none.
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
            if self.told() != begun.told {
                // It is no longer its turn: who waits sleeps.
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

    /// Tells whether anything happened, news or not.
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

    /// What happened at the sockets. Who waits at the listener for a descriptor is looked at again each time, and now
    /// and then in a sleep: nothing tells when there is one.
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

    /// What is under way by RDMA is looked at now and then, though nothing has told of it.
    fn look_at_requests(&mut self, news: &mut Vec<News>) -> Result<(), CommError> {
        let Some(tcp) = &mut self.tcp else { return Ok(()) };
        match tcp.look_at_requests(|peer| news.push(News { peer })) {
            Err(Lost { peer, .. }) if self.closing => tcp.forget(peer),
            Err(Lost { peer, error }) => return Err(lost(peer, error)),
            Ok(()) => {}
        }
        Ok(())
    }

    /// The adapter tells of whom there is news.
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

    /// Handles one event of the kernel; tells which peer it is news of.
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
