//! Cancelled messages (MPI-4.1, section 3.8.4): receives that nothing has matched, and sends that
//! no receive has matched.
//!
//! A send that left eagerly is done and stays done. For an announced send, the receiver decides,
//! because only it knows whether a receive has taken the message, and both sides must agree. A send
//! whose announcement has not left this process is cancelled at once.

use super::frame::Frame;
use super::requests::{RequestId, State};
use super::{CommError, Engine};
use crate::rank::Rank;

impl Engine {
    /// Cancels a receive that no message has matched. Returns whether it was such a receive. The
    /// request is then forgotten, and its memory belongs to the lender again.
    pub(crate) fn cancel_recv(&mut self, id: RequestId) -> bool {
        let cancelled = self.matching.withdraw(id);
        if cancelled {
            self.requests.remove(id);
        }
        cancelled
    }

    /// Cancels a send, unless its receiver has taken it. The result is not returned here. The
    /// request becomes done in either case, when this process or the receiver has decided.
    pub(crate) fn cancel_send(&mut self, id: RequestId) -> Result<(), CommError> {
        let Some(&State::SendAnnounced { to, data }) = self.requests.get(id) else { return Ok(()) };
        if to == self.me {
            // A message that a probe has taken waits for its receive.
            if self.matching.drop_announced(to, id) {
                self.requests.set(id, State::Cancelled);
            }
            return Ok(());
        }
        if self.withdraw_announcement(to, id) {
            self.is_back(id, to, data.bytes);
            return Ok(());
        }
        self.requests.set(id, State::SendAskedBack { to, data });
        let asked = self.post_frame(to, Frame::Cancel { send: id });
        self.end_if_failed(asked)
    }

    /// Whether a send is done because it was cancelled.
    pub(crate) fn is_cancelled(&self, id: RequestId) -> bool {
        matches!(self.requests.get(id), Some(State::Cancelled))
    }

    /// Handles a peer's request to return an announced message. Without an answer, the peer waits
    /// for the reply that is under way, or that follows when a probed message is received.
    pub(super) fn give_back(&mut self, to: Rank, send: RequestId) -> Result<(), CommError> {
        match self.matching.drop_announced(to, send) {
            true => self.post_frame(to, Frame::Cancelled { send }),
            false => Ok(()),
        }
    }

    /// Records that a send was cancelled: its memory belongs to the lender again.
    pub(super) fn is_back(&mut self, id: RequestId, to: Rank, bytes: usize) {
        self.lend(to, |lent| lent.wrapping_sub(bytes));
        self.requests.set(id, State::Cancelled);
    }

    /// Removes an announcement from the outbox, unless a part of it has left.
    fn withdraw_announcement(&mut self, to: Rank, id: RequestId) -> bool {
        let outbox = &mut self.peers[to.index()].outbox;
        let is_it = |item: &super::OutItem| {
            let announced = matches!(
                Frame::decode(&item.head),
                Ok(Frame::Rts { announced, .. }) if announced.send == id
            );
            item.sent == 0 && announced
        };
        let at = outbox.iter().position(is_it);
        at.is_some_and(|at| outbox.remove(at).is_some())
    }
}
