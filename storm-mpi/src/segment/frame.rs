//! The contents of the rings: a header of 12 bytes, then the payload.

use crate::envelope::Context;
use crate::rank::Rank;
use thiserror::Error;

/// Length of a frame's header: kind, peer and length, 4 bytes each, in the host's order.
pub(crate) const HEAD_BYTES: usize = 12;
/// The longest payload.
pub(crate) const PAYLOAD_MAX_BYTES: usize = 64 << 10;

const DATA: u32 = 1;
const ROOM: u32 = 2;
const OVER: u32 = 3;
const CALL: u32 = 4;
const RESULT: u32 = 5;
const REFUSED: u32 = 6;

/// A frame, at either end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// The next bytes of a stream: outward, to this peer; inward, from this peer.
    Data {
        /// The peer.
        peer: Rank,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// This many bytes have been sent to the peer, and as many more may follow. Inward only.
    Room {
        /// The peer.
        peer: Rank,
        /// Number of bytes.
        bytes: u32,
    },
    /// The job's communication is over. Inward only.
    Over {
        /// The reason, for people.
        reason: &'a str,
    },
    /// The rank calls a collective, and waits for its end. Outward only.
    Call {
        /// The context of the communicator's collectives.
        context: Context,
        /// A [`CallDescriptor`](super::CallDescriptor), whose bytes are not checked here.
        descriptor: &'a [u8],
    },
    /// The rank's collective is over. Inward only.
    Result {
        /// The data of a broadcast, or of a reduction if the rank gets the result.
        data: &'a [u8],
    },
    /// Nodes do not carry out collectives of this communicator. Its members must pass messages, now
    /// and always. Inward only.
    Refused,
}

/// The bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a segment holds data that is not a frame")]
pub struct BadFrame;

impl<'a> Frame<'a> {
    /// The frame's header and payload. A payload longer than a frame is cut; the caller then makes
    /// several frames.
    pub(crate) fn parts(self) -> ([u8; HEAD_BYTES], &'a [u8]) {
        let cut = |bytes: &'a [u8]| &bytes[..bytes.len().min(PAYLOAD_MAX_BYTES)];
        let (kind, peer, length, payload) = match self {
            Frame::Data { peer, bytes } => (DATA, peer.0, cut(bytes).len() as u32, cut(bytes)),
            Frame::Room { peer, bytes } => (ROOM, peer.0, bytes, &[][..]),
            Frame::Over { reason } => {
                (OVER, 0, cut(reason.as_bytes()).len() as u32, cut(reason.as_bytes()))
            }
            Frame::Call { context, descriptor } => {
                (CALL, u32::from(context.0), cut(descriptor).len() as u32, cut(descriptor))
            }
            Frame::Result { data } => (RESULT, 0, cut(data).len() as u32, cut(data)),
            Frame::Refused => (REFUSED, 0, 0, &[][..]),
        };
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&kind.to_ne_bytes());
        head[4..8].copy_from_slice(&peer.to_ne_bytes());
        head[8..].copy_from_slice(&length.to_ne_bytes());
        (head, payload)
    }
}

/// Frames as they come out of a ring, in pieces.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    at: usize,
}

impl Frames {
    /// The buffer to which bytes out of a ring are appended.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        self.bytes.drain(..self.at);
        self.at = 0;
        &mut self.bytes
    }

    /// Frames that continue with bytes that came earlier.
    pub fn resume(bytes: Vec<u8>) -> Frames {
        Frames { bytes, at: 0 }
    }

    /// The bytes that are not a complete frame yet, or were not taken.
    pub fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    /// The next complete frame.
    ///
    /// # Errors
    /// [`BadFrame`].
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, BadFrame> {
        let Some((head, rest)) = self.bytes[self.at..].split_first_chunk::<HEAD_BYTES>() else {
            return Ok(None);
        };
        let word =
            |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (kind, peer, length) = (word(0), Rank(word(4)), word(8));
        let payload = match kind {
            ROOM | REFUSED => 0,
            DATA | OVER | CALL | RESULT => length as usize,
            _ => return Err(BadFrame),
        };
        if payload > PAYLOAD_MAX_BYTES {
            return Err(BadFrame);
        }
        let Some(payload) = rest.get(..payload) else { return Ok(None) };
        self.at += HEAD_BYTES + payload.len();
        Ok(Some(match kind {
            DATA => Frame::Data { peer, bytes: payload },
            ROOM => Frame::Room { peer, bytes: length },
            CALL => Frame::Call {
                context: Context(u16::try_from(peer.0).map_err(|_| BadFrame)?),
                descriptor: payload,
            },
            RESULT => Frame::Result { data: payload },
            REFUSED => Frame::Refused,
            _ => Frame::Over { reason: std::str::from_utf8(payload).map_err(|_| BadFrame)? },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn frames_come_out_whole_however_they_are_cut() {
        let frames = [
            Frame::Data { peer: Rank(7), bytes: b"hello" },
            Frame::Room { peer: Rank(1), bytes: u32::MAX },
            Frame::Data { peer: Rank(0), bytes: b"" },
            Frame::Call { context: Context(u16::MAX), descriptor: b"together" },
            Frame::Result { data: b"" },
            Frame::Refused,
            Frame::Over { reason: "a node is gone" },
        ];
        let mut all = Vec::new();
        for frame in frames {
            let (head, payload) = frame.parts();
            all.extend_from_slice(&head);
            all.extend_from_slice(payload);
        }
        let (mut reader, mut seen) = (Frames::default(), 0);
        for byte in all {
            reader.buffer().push(byte);
            if let Some(frame) = reader.next_frame().expect("a frame") {
                assert_eq!(frame, frames[seen]);
                seen += 1;
            }
        }
        assert_eq!(seen, frames.len());
    }

    proptest! {
        #[test]
        fn any_bytes_are_frames_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut frames = Frames::default();
            frames.buffer().extend_from_slice(&bytes);
            while let Ok(Some(_)) = frames.next_frame() {}
        }
    }
}
