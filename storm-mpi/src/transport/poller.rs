//! The place where a rank sleeps: one `epoll` set over the doorbell and all sockets,
//! level-triggered.

use super::slot_index::SlotIndex;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Most events taken from the kernel at once; the rest come with the next call.
const EVENTS_AT_ONCE: usize = 64;

/// The meaning of a descriptor in the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watched {
    Bell,
    ProcessManager,
    Listener,
    Connection(SlotIndex),
    Adapter,
}

/// An event at a descriptor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Happening {
    pub(super) watched: Watched,
    pub(super) writable: bool,
    /// Readable, closed or failed.
    pub(super) readable: bool,
}

pub(super) struct Poller {
    epoll: Epoll,
}

impl Poller {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Poller { epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)? })
    }

    /// Descriptor that is readable when something has happened.
    pub(super) fn as_raw_fd(&self) -> RawFd {
        self.epoll.0.as_raw_fd()
    }

    /// A duplicate of the descriptor, for an owner that may outlive this poller.
    pub(super) fn try_clone(&self) -> io::Result<OwnedFd> {
        self.epoll.0.as_fd().try_clone_to_owned()
    }

    pub(super) fn watch(&self, fd: impl AsFd, watched: Watched, writable: bool) -> io::Result<()> {
        Ok(self.epoll.add(fd, EpollEvent::new(interest(writable), watched.encode()))?)
    }

    pub(super) fn change(&self, fd: impl AsFd, watched: Watched, writable: bool) -> io::Result<()> {
        let mut event = EpollEvent::new(interest(writable), watched.encode());
        Ok(self.epoll.modify(fd, &mut event)?)
    }

    /// Reports nothing about the descriptor until the next `change`.
    pub(super) fn ignore(&self, fd: impl AsFd, watched: Watched) -> io::Result<()> {
        let mut event = EpollEvent::new(EpollFlags::empty(), watched.encode());
        Ok(self.epoll.modify(fd, &mut event)?)
    }

    /// Puts the events into `happenings`. With `block` it waits for the first. An interrupted wait
    /// gives none.
    pub(super) fn wait(&self, block: bool, happenings: &mut Vec<Happening>) -> io::Result<()> {
        self.wait_until(if block { EpollTimeout::NONE } else { EpollTimeout::ZERO }, happenings)
    }

    /// Like [`Poller::wait`], for at most this long, to the millisecond.
    pub(super) fn wait_for(
        &self,
        longest: Duration,
        happenings: &mut Vec<Happening>,
    ) -> io::Result<()> {
        let timeout = EpollTimeout::try_from(longest).unwrap_or(EpollTimeout::MAX);
        self.wait_until(timeout, happenings)
    }

    fn wait_until(&self, timeout: EpollTimeout, happenings: &mut Vec<Happening>) -> io::Result<()> {
        happenings.clear();
        let mut events = [EpollEvent::empty(); EVENTS_AT_ONCE];
        let count = match self.epoll.wait(&mut events, timeout) {
            Ok(count) => count,
            // The freezer and signals without a handler interrupt the call; the caller polls again.
            Err(Errno::EINTR) => 0,
            Err(e) => return Err(e.into()),
        };
        happenings.extend(events[..count].iter().map(happening));
        Ok(())
    }
}

impl Watched {
    fn encode(self) -> u64 {
        let (kind, index) = match self {
            Watched::Bell => (0, 0),
            Watched::ProcessManager => (1, 0),
            Watched::Listener => (2, 0),
            Watched::Connection(slot) => (3, slot.0),
            Watched::Adapter => (4, 0),
        };
        kind << 32 | u64::from(index)
    }

    fn decode(data: u64) -> Self {
        let index = data as u32;
        match data >> 32 {
            0 => Watched::Bell,
            1 => Watched::ProcessManager,
            2 => Watched::Listener,
            4 => Watched::Adapter,
            _ => Watched::Connection(SlotIndex(index)),
        }
    }
}

fn interest(writable: bool) -> EpollFlags {
    let base = EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP;
    if writable { base | EpollFlags::EPOLLOUT } else { base }
}

fn happening(event: &EpollEvent) -> Happening {
    let flags = event.events();
    Happening {
        watched: Watched::decode(event.data()),
        writable: flags.contains(EpollFlags::EPOLLOUT),
        readable: flags.intersects(
            EpollFlags::EPOLLIN
                | EpollFlags::EPOLLRDHUP
                | EpollFlags::EPOLLHUP
                | EpollFlags::EPOLLERR,
        ),
    }
}
