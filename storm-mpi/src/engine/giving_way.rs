//! Waiting in steps. Between two steps, other threads of the process may use the engine, as
//! [`Threads`] arranges.
//!
//! [`Threads`]: crate::Threads

use super::Engine;
use super::requests::{RequestId, State};
use crate::error::CommError;
use crate::transport::Begun;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

impl Engine {
    /// Number of events so far: something arrived, or something may continue.
    pub(crate) fn events(&self) -> u64 {
        self.heard.wrapping_add(self.transport.socket_events())
    }

    /// Descriptor that is readable when something has happened at the sockets.
    pub(crate) fn sockets(&self) -> io::Result<OwnedFd> {
        self.transport.sockets()
    }

    /// Begins a wait. `None` means that polling before the sleep is not worthwhile.
    pub(crate) fn begin_looking(&mut self) -> Option<Begun> {
        self.transport.begin_looking()
    }

    /// Whether polling is still worthwhile, after it has found nothing so far.
    pub(crate) fn goes_on_looking(&mut self, begun: &Begun) -> bool {
        self.transport.goes_on_looking(begun)
    }

    /// Records that looking has brought news.
    pub(crate) fn has_found(&mut self, begun: Begun) {
        self.transport.has_found(begun);
    }

    /// Announces that all threads that could poll for news are asleep. Returns false if there is
    /// news; they must then not sleep.
    pub(crate) fn fall_asleep(&mut self) -> Result<bool, CommError> {
        let sleeps = self.transport.fall_asleep();
        self.end_if_failed(sleeps)
    }

    /// Longest time that the sleep may last.
    pub(crate) fn longest_sleep(&self) -> Option<Duration> {
        self.transport.longest_sleep()
    }

    /// Records that a thread is awake again.
    pub(crate) fn wake_up(&mut self) {
        self.transport.wake_up();
    }

    /// Records that a request that was waited for is done.
    pub(crate) fn has_waited(&self, is_send: bool) {
        // As in `wait`: a send counts only if it is answered.
        if is_send {
            self.transport.has_communicated();
        }
    }

    /// Whether a request is a send that is done and was not collected.
    pub(crate) fn is_sent(&self, id: RequestId) -> bool {
        matches!(self.requests.get(id), Some(State::Done { received: None }))
    }

    /// Whether several threads call the library at any rank of the job. All ranks get the same
    /// answer.
    pub(crate) fn job_has_threads(&mut self) -> Result<bool, CommError> {
        let has_threads = self.transport.job_has_threads();
        self.end_if_failed(has_threads)
    }
}
