//! What `fuzz/` reaches of what ranks say to each other, which is private. Compiled by
//! cargo-fuzz only.

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
