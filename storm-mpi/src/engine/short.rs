//! The short path of short messages: from the call to the ring, and from the ring to the call that
//! waits.
//!
//! The short path is optional. Each function of this module may refuse, and the full path through
//! requests and news then does the same. A function refuses in every unusual case:
//! - other receives or messages match;
//! - bytes are under way to or from the peer, or more than one message has arrived;
//! - there is no credit;
//! - the message is announced;
//! - the peer is on another node.

use super::frame::{FRAME_BYTES, Frame, FrameWords};
use super::matching::Matching;
use super::peer::eager_cost;
use super::requests::State;
use super::{Engine, Received, RequestId};
use crate::envelope::{Address, Envelope, Pattern, Source, Status};
use crate::error::CommError;
use crate::rank::Rank;
use crate::transport::NeighbourRing;

impl Engine {
    /// Sends a message, if the short path can do all of it.
    #[inline]
    pub(crate) fn send_short(
        &mut self,
        Address { to, context, tag }: Address,
        data: &[u8],
    ) -> Result<bool, CommError> {
        if self.ended {
            return Ok(false);
        }
        let Some(neighbour) = self.transport.neighbour(to) else { return Ok(false) };
        let peer = &mut self.peers[to.index()];
        let envelope = Envelope { context, tag, bytes: data.len() };
        let cost = eager_cost(&envelope);
        if cost > peer.credit || !peer.outbox.is_empty() {
            return Ok(false);
        }
        match self.transport.send_whole(neighbour, &Frame::Eager(envelope).words(), data) {
            Ok(true) => {
                peer.credit -= cost;
                Ok(true)
            }
            sent => self.end_if_failed(sent),
        }
    }

    /// Receives a message, if it is there or arrives at once, and no other receive should get it.
    #[inline]
    pub(crate) fn recv_short(
        &mut self,
        pattern: &Pattern,
        into: &mut [u8],
    ) -> Result<Option<Received>, CommError> {
        if self.ended || self.matching.look_for(pattern).is_some() {
            return Ok(None);
        }
        let Some(neighbour) = self.expected_of(pattern.source) else { return Ok(None) };
        let received = self.take_short(neighbour, into, |matching, from, envelope| {
            pattern.accepts(from, envelope) && !matching.is_posted(from, envelope)
        });
        self.end_if_failed(received)
    }

    /// Waits for a posted receive and collects it, if its message is there or arrives at once.
    #[inline]
    pub(crate) fn wait_short(&mut self, recv: RequestId) -> Result<Option<Received>, CommError> {
        let Some(&State::RecvPosted { into, from }) = self.requests.get(recv) else {
            return Ok(None);
        };
        let Some(neighbour) = self.expected_of(from) else { return Ok(None) };
        let place: &mut [u8] = match into.bytes {
            0 => &mut [],
            // SAFETY: lent for writing until the request is done, and it is not done yet.
            bytes => unsafe { std::slice::from_raw_parts_mut(into.start, bytes) },
        };
        // A message kept before the receive was posted is not for it, or the receive would have got
        // it.
        let received = self.take_short(neighbour, place, |matching, from, envelope| {
            matching.first_posted(from, envelope) == Some(recv)
        });
        let received = self.end_if_failed(received)?;
        if received.is_some() {
            self.matching.withdraw(recv);
            self.requests.remove(recv);
        }
        Ok(received)
    }

    /// The neighbour that may send the next message from `source`, after a few polls.
    #[inline]
    fn expected_of(&mut self, source: Source) -> Option<NeighbourRing> {
        match source {
            Source::Rank(from) => {
                let neighbour = self.transport.neighbour(from)?;
                let is_next = self.is_quiet(from) && self.transport.expects(neighbour);
                is_next.then_some(neighbour)
            }
            Source::Any => {
                let neighbour = self.transport.expects_any()?;
                self.is_quiet(neighbour.rank()).then_some(neighbour)
            }
        }
    }

    /// Whether no bytes are under way to or from the peer.
    #[inline]
    fn is_quiet(&self, peer: Rank) -> bool {
        let peer = &self.peers[peer.index()];
        peer.reading.is_between_frames() && peer.outbox.is_empty()
    }

    /// Takes the message that has arrived, if it is whole and by `is_wanted` it is for the receive.
    #[inline]
    fn take_short(
        &mut self,
        neighbour: NeighbourRing,
        into: &mut [u8],
        is_wanted: impl FnOnce(&Matching, Rank, &Envelope) -> bool,
    ) -> Result<Option<Received>, CommError> {
        let from = neighbour.rank();
        let Engine { transport, matching, peers, .. } = self;
        let given = peers[from.index()].given;
        let choose = |length: usize, head: &FrameWords| {
            let Ok(Frame::Eager(envelope)) = Frame::of_words(head) else { return None };
            let is_whole = length.checked_sub(FRAME_BYTES) == Some(envelope.bytes);
            let is_next =
                is_whole && is_wanted(matching, from, &envelope) && eager_cost(&envelope) <= given;
            is_next.then_some((envelope.bytes, envelope))
        };
        let Some(envelope) = transport.take_whole(neighbour, into, choose)? else {
            return Ok(None);
        };
        let cost = eager_cost(&envelope);
        peers[from.index()].given -= cost;
        self.give_credit_back(from, cost)?;
        self.transport.has_communicated();
        let status = Status { source: from, tag: envelope.tag, bytes: envelope.bytes };
        Ok(Some(Received { status, buffer_bytes: into.len() }))
    }
}
