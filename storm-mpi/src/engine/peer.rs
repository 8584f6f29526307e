//! State that this rank keeps per peer: outgoing bytes, arriving bytes, and eager credit.

use super::frame::FRAME_BYTES;
use super::requests::{Lent, RequestId};
use crate::envelope::Envelope;
use std::collections::VecDeque;

/// Largest message that is sent without a request: its copies (2 us each) cost less than the
/// wake-ups of a round trip (6 us each).
pub(super) const EAGER_MAX_BYTES: usize = 16 << 10;
/// The eager limit if a node moves the bytes. A round trip then takes two more slices, and copies
/// far less. The limit is a quarter of the credit, so a few messages can be under way.
pub(crate) const EAGER_MAX_BYTES_BUFFERED: usize = 64 << 10;
/// Eager bytes that a sender may have unconsumed at one receiver: 16 of the largest messages. It
/// bounds the memory that a receiver keeps per peer.
pub(super) const EAGER_CREDIT_BYTES: usize = 256 << 10;
/// Cost of a message beyond its payload, so that empty messages are bounded too.
const EAGER_OVERHEAD_BYTES: usize = 64;

/// The credit that an eager message costs.
pub(super) fn eager_cost(envelope: &Envelope) -> usize {
    // A peer may claim any length; the caller refuses it when it checks this cost.
    envelope.bytes.saturating_add(EAGER_OVERHEAD_BYTES)
}

/// One peer.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) outbox: VecDeque<OutItem>,
    pub(super) reading: Reading,
    /// Eager bytes that this rank may still send.
    pub(super) credit: usize,
    /// Eager bytes that the peer may still send.
    pub(super) given: usize,
    /// Credit that the peer will get back with the next `Credit`.
    pub(super) owed: usize,
}

impl Peer {
    pub(super) fn new() -> Self {
        Peer {
            outbox: VecDeque::new(),
            reading: Reading::start(),
            credit: EAGER_CREDIT_BYTES,
            given: EAGER_CREDIT_BYTES,
            owed: 0,
        }
    }
}

/// An outgoing frame.
#[derive(Debug)]
pub(super) struct OutItem {
    pub(super) head: [u8; FRAME_BYTES],
    pub(super) payload: Payload,
    /// Bytes of head and payload that have left.
    pub(super) sent: usize,
    /// The send that is done when all bytes have left.
    pub(super) completes: Option<RequestId>,
}

#[derive(Debug)]
pub(super) enum Payload {
    Own(Vec<u8>),
    Lent(Lent),
}

impl OutItem {
    /// The bytes that have not left yet, and their number.
    pub(super) fn rest(&self) -> ([&[u8]; 2], usize) {
        let payload = match &self.payload {
            Payload::Own(bytes) => bytes.as_slice(),
            // SAFETY: the application lent this memory until the request is done, and the request
            // is done only when this item has left the outbox.
            Payload::Lent(lent) => unsafe { lent.bytes() },
        };
        let head = self.sent.min(FRAME_BYTES);
        let rest = [&self.head[head..], &payload[self.sent - head..]];
        (rest, FRAME_BYTES + payload.len() - self.sent)
    }
}

/// The state of reading from the peer.
#[derive(Debug)]
pub(super) enum Reading {
    Head {
        head: [u8; FRAME_BYTES],
        got: usize,
    },
    /// A payload for a receive's buffer. An eager payload gives back `cost` at its end.
    Direct {
        recv: RequestId,
        left: usize,
        cost: Option<usize>,
    },
    /// An eager message that has no receive so far.
    Staged {
        envelope: Envelope,
        bytes: Vec<u8>,
        got: usize,
    },
}

impl Reading {
    pub(super) fn start() -> Self {
        Reading::Head { head: [0; FRAME_BYTES], got: 0 }
    }

    /// Whether the next byte begins a frame.
    pub(super) fn is_between_frames(&self) -> bool {
        matches!(self, Reading::Head { got: 0, .. })
    }
}
