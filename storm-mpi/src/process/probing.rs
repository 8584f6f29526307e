//! Messages that no receive has taken yet: probing and taking them.

use super::Process;
use crate::engine::{LentMut, MessageId, RequestId};
use crate::envelope::{Pattern, Status};
use crate::error::CommError;

impl Process {
    /// Status of the next matching message that no receive has taken. Moves bytes and does not
    /// wait.
    ///
    /// # Errors
    /// [`CommError`].
    pub fn probe(&self, pattern: &Pattern) -> Result<Option<Status>, CommError> {
        let found = self.engine.borrow().look_for(pattern)?;
        if found.is_some() {
            return Ok(found);
        }
        self.progress(false)?;
        self.engine.borrow().look_for(pattern)
    }

    /// Waits for a matching message and does not take it.
    ///
    /// # Errors
    /// [`CommError`].
    pub fn await_message(&self, pattern: &Pattern) -> Result<Status, CommError> {
        loop {
            if let Some(status) = self.engine.borrow().look_for(pattern)? {
                return Ok(status);
            }
            self.progress(true)?;
        }
    }

    /// Like [`Process::probe`], and takes the message (`MPI_Improbe`).
    ///
    /// # Errors
    /// [`CommError`].
    pub fn hold(&self, pattern: &Pattern) -> Result<Option<(MessageId, Status)>, CommError> {
        let held = self.hold_arrived(pattern)?;
        if held.is_some() {
            return Ok(held);
        }
        self.progress(false)?;
        self.hold_arrived(pattern)
    }

    /// Waits for a matching message and takes it (`MPI_Mprobe`). Only [a receive of
    /// it](Process::start_recv_of) gets it.
    ///
    /// # Errors
    /// [`CommError`].
    pub fn await_and_hold(&self, pattern: &Pattern) -> Result<(MessageId, Status), CommError> {
        loop {
            if let Some(held) = self.hold_arrived(pattern)? {
                return Ok(held);
            }
            self.progress(true)?;
        }
    }

    /// Starts to receive a message that was taken.
    ///
    /// # Safety
    /// Like [`Process::start_recv`].
    ///
    /// # Errors
    /// [`CommError`], which ends all communication unless the message was received before.
    pub unsafe fn start_recv_of(
        &self,
        message: MessageId,
        start: *mut u8,
        bytes: usize,
    ) -> Result<RequestId, CommError> {
        // SAFETY: the caller vouches for the memory, under the same contract.
        unsafe { self.engine().start_recv_of(message, LentMut { start, bytes }) }
    }

    /// Like [`Process::hold`], for background work: checks only messages that have arrived, because
    /// the code that runs the background work moves the bytes.
    ///
    /// # Errors
    /// [`CommError`].
    pub fn hold_arrived(
        &self,
        pattern: &Pattern,
    ) -> Result<Option<(MessageId, Status)>, CommError> {
        let held = self.engine.borrow_mut().hold(pattern)?;
        if held.is_some() {
            self.has_changed();
        }
        Ok(held)
    }
}
