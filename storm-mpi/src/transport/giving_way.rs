//! Waiting in steps. Between two steps, other threads of the process may use the transport
//! ([`Threads`]).
//!
//! A process of several threads does not report to its node that it waits, because other threads
//! may be at work.
//!
//! [`Threads`]: crate::Threads

use super::Transport;
use super::awaiting::{BETWEEN_ACCEPTS, Begun};
use super::waiting::Patience;
use crate::error::CommError;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

impl Transport {
    /// Descriptor that is readable when something has happened at the sockets.
    pub(crate) fn sockets(&self) -> io::Result<OwnedFd> {
        self.poller.try_clone()
    }

    /// Number of events at the sockets so far.
    pub(crate) fn socket_events(&self) -> u64 {
        self.socket_events
    }

    /// Begins a wait. `None` means that polling before the sleep is not worthwhile.
    pub(crate) fn begin_looking(&mut self) -> Option<Begun> {
        if self.buffered.is_some() {
            return None;
        }
        let begun = self.begin();
        (begun.patience != Patience::None).then_some(begun)
    }

    /// Whether polling is still worthwhile, after it has found nothing so far.
    pub(crate) fn goes_on_looking(&mut self, begun: &Begun) -> bool {
        if self.ordered_way() != begun.told {
            return false;
        }
        let is_over = matches!(begun.patience, Patience::Until(end) if Instant::now() >= end);
        if is_over {
            self.waiting.gave_up();
        }
        !is_over
    }

    /// Records that looking has brought news.
    pub(crate) fn has_found(&mut self, begun: Begun) {
        self.waited(begun);
    }

    /// Announces that all threads that could poll for news are asleep. Returns false if there is
    /// news; they must then not sleep.
    pub(crate) fn fall_asleep(&mut self) -> Result<bool, CommError> {
        if let Some(end) = &self.buffered {
            return end.fall_asleep();
        }
        Ok(self.local.as_ref().is_none_or(|local| local.fall_asleep()))
    }

    /// Longest time that the sleep may last.
    pub(crate) fn longest_sleep(&self) -> Option<Duration> {
        let is_deaf = self.tcp.as_ref().is_some_and(|tcp| tcp.is_deaf());
        is_deaf.then_some(BETWEEN_ACCEPTS)
    }

    /// Records that a thread is awake again.
    pub(crate) fn wake_up(&mut self) {
        if let Some(end) = &self.buffered {
            end.wake_up();
        }
        if let Some(local) = &self.local {
            local.wake_up();
        }
        self.has_slept = true;
        // The cause was news, or another thread. The messages of another thread are an equally good
        // reason to be patient.
        self.waiting.woken(Instant::now());
    }

    /// Whether several threads call the library at any rank of the job. The first call asks the
    /// process manager.
    pub(crate) fn job_has_threads(&mut self) -> Result<bool, CommError> {
        self.directory.has_threads()
    }
}
