//! Entry points for `fuzz/` into private decoders of the bytes that ranks exchange. Compiled by
//! cargo-fuzz only.

use crate::segment::{CallDescriptor, Frame, Frames};
use crate::{engine, transport};

/// Bytes of the head of a frame.
pub const FRAME_BYTES: usize = engine::fuzzing::FRAME_BYTES;

/// Decodes the header of a frame. A header that decodes is encoded and must decode to the same.
///
/// # Panics
/// The encoded head differs from the decoded one.
pub fn frame(head: &[u8; FRAME_BYTES]) {
    engine::fuzzing::frame(head);
}

/// Parses a rank's card, as it comes through PMI. A card that parses is written and must read the
/// same.
///
/// # Panics
/// The written card differs from the parsed one.
pub fn card(text: &str) {
    transport::fuzzing::card(text);
}

/// Parses the first bytes of a connection. Returns the rank that they name if they contain `token`.
pub fn hello(bytes: &[u8], token: u128) -> Option<u32> {
    transport::fuzzing::hello(bytes, token)
}

/// Parses a rank's offer behind its hello. An offer that parses is written and must read the same.
///
/// # Panics
/// The written offer differs from the parsed one.
pub fn offer(bytes: &[u8]) {
    transport::fuzzing::offer(bytes);
}

/// Reads the bytes that a rank wrote into its segment, in pieces of `piece` bytes. Returns the
/// number of payload bytes before the first bytes that are not a frame.
///
/// # Panics
/// A payload is longer than the bytes that came, or a collective is written otherwise than it was
/// read.
pub fn segment(bytes: &[u8], piece: usize) -> usize {
    let (mut frames, mut payload) = (Frames::default(), 0);
    for piece in bytes.chunks(piece.max(1)) {
        frames.buffer().extend_from_slice(piece);
        loop {
            match frames.next_frame() {
                Ok(None) => break,
                Err(_) => return payload,
                Ok(Some(Frame::Data { bytes, .. })) => payload += bytes.len(),
                Ok(Some(Frame::Call { descriptor, .. })) => {
                    payload += descriptor.len();
                    if let Ok(call) = CallDescriptor::decode(descriptor) {
                        assert_eq!(call.encode(), descriptor);
                    }
                }
                Ok(Some(_)) => {}
            }
        }
    }
    assert!(payload <= bytes.len());
    payload
}
