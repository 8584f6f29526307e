//! What `fuzz/` reaches of what ranks say to each other, which is private. Compiled by
//! cargo-fuzz only.

use crate::segment::{CallDescriptor, Frame, Frames};
use crate::{engine, transport};

/// Bytes of the head of a frame.
pub const FRAME_BYTES: usize = engine::fuzzing::FRAME_BYTES;

/// The head of a frame: what decodes is encoded as it decodes.
///
/// # Panics
/// It is not.
pub fn frame(head: &[u8; FRAME_BYTES]) {
    engine::fuzzing::frame(head);
}

/// A rank's card, as it comes through PMI: what parses is written as it parses.
///
/// # Panics
/// It is not.
pub fn card(text: &str) {
    transport::fuzzing::card(text);
}

/// The first bytes of a connection; the rank that they name when they hold `token`.
pub fn hello(bytes: &[u8], token: u128) -> Option<u32> {
    transport::fuzzing::hello(bytes, token)
}

/// What a rank offers behind its hello: what is one is written as it reads.
///
/// # Panics
/// It is not.
pub fn offer(bytes: &[u8]) {
    transport::fuzzing::offer(bytes);
}

/// What a rank wrote into its segment: how many bytes of payload come out of it until the first that is
/// no frame, when they come in pieces of this length.
///
/// # Panics
/// A payload is longer than what came, or a collective is written other than as it reads.
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
