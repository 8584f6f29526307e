//! Messages that are cancelled before the other side has them.

use super::Process;
use crate::engine::RequestId;
use crate::error::CommError;

impl Process {
    /// Cancels a receive that no message has matched. Returns whether it was such a receive. If so,
    /// the request is gone, and its memory belongs to the caller again.
    pub fn cancel_recv(&self, id: RequestId) -> bool {
        self.engine().cancel_recv(id)
    }

    /// Requests the return of a send that no receive has taken yet. The send becomes done in any
    /// case, and [`Process::wait_for_cancelled`] tells the result. The receiver answers when it is
    /// inside a function that waits, tests or probes.
    ///
    /// # Errors
    /// [`CommError`].
    pub fn cancel_send(&self, id: RequestId) -> Result<(), CommError> {
        self.engine().cancel_send(id)
    }

    /// Waits for a send whose return was requested, and collects it. Returns true if the send was
    /// cancelled and its receiver has not seen it.
    ///
    /// # Errors
    /// Like [`Process::wait`].
    pub fn wait_for_cancelled(&self, id: RequestId) -> Result<bool, CommError> {
        while !self.is_done(id)? {
            self.progress(true)?;
        }
        let is_back = self.engine.borrow().is_cancelled(id);
        self.engine.borrow_mut().collect(id)?;
        Ok(is_back)
    }
}
