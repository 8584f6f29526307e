//! The message protocol's frames: a header of 32 bytes, then the payload of `Eager` and `Data`.
//!
//! - `Eager` carries a small message at once, within the credit that its receiver has given.
//! - `Rts` announces any other message, and may tell its address in the sender's memory.
//! - `Taken` is the receiver's answer if the kernel let it read the message in the sender's memory.
//!   The receiver reads it once it knows the destination.
//! - `Cts` is the receiver's answer otherwise; `Data` then carries the message.
//! - `Cancel` is the sender's request to return an announced message.
//! - `Cancelled` answers that no receive has taken the message and none will. Otherwise `Cancel`
//!   gets no answer other than the `Cts` or `Taken` that is due.
//! - `Credit` gives eager credit back.
//!
//! Every frame has a destination, so every rank can always drain its connections, and no order of
//! sends can block for good.

use super::requests::RequestId;
use crate::envelope::{Context, Envelope, Tag};
use crate::error::Violation;

/// Length of a frame's head.
pub(crate) const FRAME_BYTES: usize = 8 * FRAME_WORDS;
/// Words of a frame's head.
pub(super) const FRAME_WORDS: usize = 4;

/// A frame's head in words.
pub(super) type FrameWords = [[u8; 8]; FRAME_WORDS];

const EAGER: u8 = 1;
const RTS: u8 = 2;
const CTS: u8 = 3;
const DATA: u8 = 4;
const CREDIT: u8 = 5;
const TAKEN: u8 = 6;
const CANCEL: u8 = 7;
const CANCELLED: u8 = 8;

/// A message that waits at its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Announced {
    /// The sender's request.
    pub(super) send: RequestId,
    /// Address of its bytes in the memory of the sender; 0 if they cannot be read there.
    pub(super) at: u64,
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A whole message; its payload follows.
    Eager(Envelope),
    /// A message that waits at its sender.
    Rts { envelope: Envelope, announced: Announced },
    /// The receiver is ready for the announced message.
    Cts { send: RequestId, recv: RequestId },
    /// The announced message has been read in its sender's memory.
    Taken { send: RequestId },
    /// The announced message; its payload follows.
    Data { recv: RequestId, bytes: usize },
    /// The sender requests the return of the announced message.
    Cancel { send: RequestId },
    /// The sender has the message back.
    Cancelled { send: RequestId },
    /// Eager messages were consumed.
    Credit { bytes: usize },
}

impl Frame {
    /// The bytes of the header: kind, 1 unused, context (2), tag (4), length (8), two request ids,
    /// or one and an address (8 each); little-endian.
    pub(super) fn encode(&self) -> [u8; FRAME_BYTES] {
        let mut out = [0; FRAME_BYTES];
        out.copy_from_slice(self.words().as_flattened());
        out
    }

    /// The encoded frame as words of the processor.
    #[inline]
    pub(super) fn words(&self) -> FrameWords {
        let no_envelope = |bytes| Envelope { context: Context(0), tag: Tag(0), bytes };
        let none = RequestId::NONE.to_wire();
        let (kind, envelope, a, b) = match *self {
            Frame::Eager(envelope) => (EAGER, envelope, none, none),
            Frame::Rts { envelope, announced } => {
                (RTS, envelope, announced.send.to_wire(), announced.at)
            }
            Frame::Cts { send, recv } => (CTS, no_envelope(0), send.to_wire(), recv.to_wire()),
            Frame::Taken { send } => (TAKEN, no_envelope(0), send.to_wire(), none),
            Frame::Cancel { send } => (CANCEL, no_envelope(0), send.to_wire(), none),
            Frame::Cancelled { send } => (CANCELLED, no_envelope(0), send.to_wire(), none),
            Frame::Data { recv, bytes } => (DATA, no_envelope(bytes), recv.to_wire(), none),
            Frame::Credit { bytes } => (CREDIT, no_envelope(bytes), none, none),
        };
        let Envelope { context, tag, bytes } = envelope;
        let tag = u64::from(tag.0.cast_unsigned());
        let first = u64::from(kind) | u64::from(context.0) << 16 | tag << 32;
        [first, bytes as u64, a, b].map(u64::to_le_bytes)
    }

    pub(super) fn decode(head: &[u8; FRAME_BYTES]) -> Result<Frame, Violation> {
        let mut words = FrameWords::default();
        words.as_flattened_mut().copy_from_slice(head);
        Self::of_words(&words)
    }

    /// Like [`Frame::decode`], from words.
    #[inline]
    pub(super) fn of_words(words: &FrameWords) -> Result<Frame, Violation> {
        let [first, length, a, b] = words.map(u64::from_le_bytes);
        let bytes = length as usize;
        let context = Context((first >> 16) as u16);
        let tag = Tag(((first >> 32) as u32).cast_signed());
        let envelope = Envelope { context, tag, bytes };
        let (send, recv) = (RequestId::from_wire(a), RequestId::from_wire(b));
        match first as u8 {
            EAGER => Ok(Frame::Eager(envelope)),
            RTS => Ok(Frame::Rts { envelope, announced: Announced { send, at: b } }),
            CTS => Ok(Frame::Cts { send, recv }),
            DATA => Ok(Frame::Data { recv: send, bytes }),
            TAKEN => Ok(Frame::Taken { send }),
            CANCEL => Ok(Frame::Cancel { send }),
            CANCELLED => Ok(Frame::Cancelled { send }),
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
                prop_assert!(head[0] == 0 || head[0] > CANCELLED);
            }
        }
    }
}
