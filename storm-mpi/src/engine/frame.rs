//! The message protocol's frames: 32 bytes of head, then the payload of `Eager` and `Data`.
//!
//! `Eager` carries a small message at once, within the credit its receiver has given. Any other is
//! announced with `Rts`. The receiver, once it knows where the message goes, reads it in the sender's memory
//! if `Rts` says where it is and the kernel lets it, and answers `Taken`; otherwise it answers `Cts`; then
//! `Data` carries it. `Credit` gives eager credit back. So whatever arrives has a place to go, every
//! rank can always drain its connections, and no order of sends can block for good.

use super::requests::RequestId;
use crate::envelope::{Context, Envelope, Tag};
use crate::error::Violation;

/// Length of a frame's head.
pub(crate) const FRAME_BYTES: usize = 32;

const EAGER: u8 = 1;
const RTS: u8 = 2;
const CTS: u8 = 3;
const DATA: u8 = 4;
const CREDIT: u8 = 5;
const TAKEN: u8 = 6;

/// A message that waits at its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Announced {
    /// The sender's request.
    pub(super) send: RequestId,
    /// Where its bytes are, in the memory of the sender; 0: they cannot be read there.
    pub(super) at: u64,
}

/// One frame's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A whole message; its payload follows.
    Eager(Envelope),
    /// A message that waits at its sender.
    Rts { envelope: Envelope, announced: Announced },
    /// The receiver is ready for the announced message.
    Cts { send: RequestId, recv: RequestId },
    /// The announced message has been read where it was.
    Taken { send: RequestId },
    /// The announced message; its payload follows.
    Data { recv: RequestId, bytes: usize },
    /// Eager messages were consumed.
    Credit { bytes: usize },
}

impl Frame {
    /// kind, 1 unused, context (2), tag (4), length (8), two request ids, or one and an address (8
    /// each); little-endian.
    pub(super) fn encode(&self) -> [u8; FRAME_BYTES] {
        let no_envelope = |bytes| Envelope { context: Context(0), tag: Tag(0), bytes };
        let none = RequestId::NONE.to_wire();
        let (kind, envelope, a, b) = match *self {
            Frame::Eager(envelope) => (EAGER, envelope, none, none),
            Frame::Rts { envelope, announced } => {
                (RTS, envelope, announced.send.to_wire(), announced.at)
            }
            Frame::Cts { send, recv } => (CTS, no_envelope(0), send.to_wire(), recv.to_wire()),
            Frame::Taken { send } => (TAKEN, no_envelope(0), send.to_wire(), none),
            Frame::Data { recv, bytes } => (DATA, no_envelope(bytes), recv.to_wire(), none),
            Frame::Credit { bytes } => (CREDIT, no_envelope(bytes), none, none),
        };
        let mut out = [0; FRAME_BYTES];
        out[0] = kind;
        out[2..4].copy_from_slice(&envelope.context.0.to_le_bytes());
        out[4..8].copy_from_slice(&envelope.tag.0.to_le_bytes());
        out[8..16].copy_from_slice(&(envelope.bytes as u64).to_le_bytes());
        out[16..24].copy_from_slice(&a.to_le_bytes());
        out[24..32].copy_from_slice(&b.to_le_bytes());
        out
    }

    pub(super) fn decode(head: &[u8; FRAME_BYTES]) -> Result<Frame, Violation> {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| head[at + i]));
        let bytes = word(8) as usize;
        let envelope = Envelope {
            context: Context(u16::from_le_bytes([head[2], head[3]])),
            tag: Tag(i32::from_le_bytes([head[4], head[5], head[6], head[7]])),
            bytes,
        };
        let (a, b) = (RequestId::from_wire(word(16)), RequestId::from_wire(word(24)));
        match head[0] {
            EAGER => Ok(Frame::Eager(envelope)),
            RTS => Ok(Frame::Rts { envelope, announced: Announced { send: a, at: word(24) } }),
            CTS => Ok(Frame::Cts { send: a, recv: b }),
            DATA => Ok(Frame::Data { recv: a, bytes }),
            TAKEN => Ok(Frame::Taken { send: a }),
            CREDIT => Ok(Frame::Credit { bytes }),
            kind => Err(Violation::UnknownKind { kind }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_head_decodes_to_itself_or_an_error(head in any::<[u8; FRAME_BYTES]>()) {
            if let Ok(frame) = Frame::decode(&head) {
                prop_assert_eq!(Frame::decode(&frame.encode()), Ok(frame));
            } else {
                prop_assert!(head[0] == 0 || head[0] > TAKEN);
            }
        }
    }
}
