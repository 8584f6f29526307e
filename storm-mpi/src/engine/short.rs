//! The straight way of short messages: from the call to the ring, and from the ring to the call that waits for it.
//!
//! Whoever calls can do without: each of these may say no, and then the longer way, by requests and news, does the same. It
//! says no when anything is out of the ordinary: other receives or messages that would match, bytes under
//! way to or from that peer, no credit, a message that is announced, more than one in what has come, a peer on another node.

use super::frame::{FRAME_BYTES, Frame, FrameWords};
use super::peer::eager_cost;
use super::{Engine, Received};
use crate::envelope::{Address, Envelope, Pattern, Source, Status};
use crate::error::CommError;
use crate::transport::NeighbourRing;

impl Engine {
    /// Sends a message, if that is all there is to do for it.
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

    /// Receives a message, if it is there or comes at once and goes to nobody else.
    #[inline]
    pub(crate) fn recv_short(
        &mut self,
        pattern: &Pattern,
        into: &mut [u8],
    ) -> Result<Option<Received>, CommError> {
        let Source::Rank(from) = pattern.source else { return Ok(None) };
        let Some(neighbour) = self.transport.neighbour(from) else { return Ok(None) };
        let peer = &self.peers[from.index()];
        let is_usual = !self.ended
            && peer.reading.is_between_frames()
            && peer.outbox.is_empty()
            && self.matching.look_for(pattern).is_none();
        if !is_usual || !self.transport.expects(neighbour) {
            return Ok(None);
        }
        let received = self.take_short(neighbour, pattern, into);
        self.end_if_failed(received)
    }

    /// Takes the message that has come, if it is a whole one that this receive gets.
    #[inline]
    fn take_short(
        &mut self,
        neighbour: NeighbourRing,
        pattern: &Pattern,
        into: &mut [u8],
    ) -> Result<Option<Received>, CommError> {
        let from = neighbour.rank();
        let Engine { transport, matching, peers, .. } = self;
        let given = peers[from.index()].given;
        let choose = |length: usize, head: &FrameWords| {
            let Ok(Frame::Eager(envelope)) = Frame::of_words(head) else { return None };
            let is_whole = length.checked_sub(FRAME_BYTES) == Some(envelope.bytes);
            let is_wanted = pattern.accepts(from, &envelope)
                && !matching.is_posted(from, &envelope)
                && eager_cost(&envelope) <= given;
            (is_whole && is_wanted).then_some((envelope.bytes, envelope))
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
