//! Frames: a fixed header, a postcard body, and a payload that is not copied.
//!
//! ```text
//! 0        4          8
//! | body   | payload  | body ... | payload ... |    lengths: u32, little-endian
//! ```
//!
//! The reader sets the longest frame that it accepts, and allocates nothing for a longer one. The
//! message types define the body.

use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use thiserror::Error;

/// Length of the header in bytes.
const HEADER_BYTES: usize = 8;
/// The longest body: the member list of a cluster of 16,384 nodes fits.
const MAX_BODY_BYTES: usize = 1 << 20;
/// The longest payload: inline data and chunks are shorter.
pub const MAX_PAYLOAD_BYTES: usize = (1 << 20) + (4 << 10);
/// The longest frame before a peer has shown that it belongs here.
const MAX_HELLO_BYTES: usize = 4096;
/// The initial buffer for the bytes of a peer.
const READ_BLOCK_BYTES: usize = 16 << 10;
/// The smallest block that is reused. Fresh memory from the system costs as much as the copy into
/// it.
const MIN_REUSED_BYTES: usize = 64 << 10;
/// Read together with a long frame. The header tells how long the next frame is.
const NEXT_HEADER_BYTES: usize = 64;
/// Blocks kept for reuse: some 10 MiB with chunks of 1 MiB.
const MAX_RETIRED: usize = 10;

/// Why bytes are not a frame.
#[derive(Debug, Error)]
pub enum DecodeError {
    /// The header announces more than the link allows.
    #[error("a frame of {body} + {payload} bytes is longer than this link allows")]
    TooLong {
        /// Announced length of the body in bytes.
        body: usize,
        /// Announced length of the payload in bytes.
        payload: usize,
    },
    /// The body is not the message that this link carries.
    #[error("a frame is not the message expected here")]
    Malformed(#[from] postcard::Error),
    /// The body continues after the message.
    #[error("{extra} bytes follow the message in a frame")]
    Trailing {
        /// The number of extra bytes.
        extra: usize,
    },
}

/// One frame as it was received.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The whole frame, to be forwarded unchanged.
    pub raw: Bytes,
    /// The offset of the payload in `raw`.
    payload_at: usize,
}

impl Frame {
    /// The bytes behind the message.
    pub fn payload(&self) -> Bytes {
        self.raw.slice(self.payload_at..)
    }

    /// The message.
    ///
    /// # Errors
    /// [`DecodeError`] when the body is anything else.
    pub fn message<T: DeserializeOwned>(&self) -> Result<T, DecodeError> {
        let (message, rest) = postcard::take_from_bytes(&self.raw[HEADER_BYTES..self.payload_at])?;
        if rest.is_empty() { Ok(message) } else { Err(DecodeError::Trailing { extra: rest.len() }) }
    }

    /// Decodes the beginning of the body and ignores the rest.
    ///
    /// # Errors
    /// [`DecodeError`] if the body begins with anything else.
    pub fn beginning<T: DeserializeOwned>(&self) -> Result<T, DecodeError> {
        Ok(postcard::take_from_bytes(&self.raw[HEADER_BYTES..self.payload_at])?.0)
    }
}

/// The frame that carries `message` and a copy of `payload`.
pub fn encode<T: Serialize>(message: &T, payload: &[u8]) -> Bytes {
    let mut out = head(message, payload.len());
    out.put_slice(payload);
    out.freeze()
}

/// The frame of `message` up to its payload of `payload_len` bytes. The caller sends the payload
/// right after it.
pub fn encode_head<T: Serialize>(message: &T, payload_len: usize) -> Bytes {
    head(message, payload_len).freeze()
}

fn head<T: Serialize>(message: &T, payload_len: usize) -> BytesMut {
    let mut out = Vec::with_capacity(64 + payload_len.min(MAX_PAYLOAD_BYTES));
    out.resize(HEADER_BYTES, 0);
    // Infallible: messages are plain data, and the vector grows.
    let mut out = postcard::to_extend(message, out).unwrap_or_default();
    let body = (out.len().saturating_sub(HEADER_BYTES)) as u32;
    if out.len() >= HEADER_BYTES {
        out[..4].copy_from_slice(&body.to_le_bytes());
        out[4..HEADER_BYTES].copy_from_slice(&(payload_len as u32).to_le_bytes());
    }
    BytesMut::from(Bytes::from(out))
}

/// Reads one message and its payload from the start of `bytes`, as a link in use does. `None` if
/// the bytes end too early. For fuzzing.
///
/// # Errors
/// [`DecodeError`] if no continuation can make `bytes` a frame.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<Option<(T, Bytes)>, DecodeError> {
    let mut buffer = FrameBuffer::new();
    buffer.admit();
    buffer.buffer.extend_from_slice(bytes);
    match buffer.next_frame()? {
        Some(frame) => Ok(Some((frame.message()?, frame.payload()))),
        None => Ok(None),
    }
}

/// Cuts a stream of bytes into frames.
#[derive(Debug)]
pub struct FrameBuffer {
    buffer: BytesMut,
    /// Blocks whose frames may still be in use elsewhere, the oldest first.
    retired: VecDeque<BytesMut>,
    /// Length of the last frame if it had a block of its own. The next is likely to be as long.
    last_long_bytes: usize,
    max_body_bytes: usize,
    max_payload_bytes: usize,
}

impl FrameBuffer {
    /// For a peer that has sent nothing yet: accepts only short frames.
    pub fn new() -> FrameBuffer {
        let (buffer, retired) = (BytesMut::new(), VecDeque::new());
        FrameBuffer {
            buffer,
            retired,
            last_long_bytes: 0,
            max_body_bytes: MAX_HELLO_BYTES,
            max_payload_bytes: 0,
        }
    }

    /// The peer has proved to belong to the cluster: accepts all frames that the protocol allows.
    pub fn admit(&mut self) {
        self.max_body_bytes = MAX_BODY_BYTES;
        self.max_payload_bytes = MAX_PAYLOAD_BYTES;
    }

    /// Takes bytes that another carrier delivered in order. If they are exactly one frame, returns
    /// the frame without a copy.
    ///
    /// # Errors
    /// [`DecodeError::TooLong`].
    pub(crate) fn take_run(&mut self, run: Bytes) -> Result<Option<Frame>, DecodeError> {
        if self.buffer.is_empty() && run.len() >= HEADER_BYTES {
            let (body, payload) = (length_at(&run, 0), length_at(&run, 4));
            self.check_lengths(body, payload)?;
            if run.len() == HEADER_BYTES + body + payload {
                return Ok(Some(Frame { raw: run, payload_at: HEADER_BYTES + body }));
            }
        }
        self.buffer.extend_from_slice(&run);
        Ok(None)
    }

    /// Whether the bytes that are not consumed yet begin with `bytes`.
    pub(crate) fn begins_with(&self, bytes: &[u8]) -> bool {
        self.buffer.starts_with(bytes)
    }

    /// The buffer for the next read, with room in it.
    pub fn spare(&mut self) -> &mut BytesMut {
        // Makes room for the rest of the current frame and the header of the next. A single call
        // then reads a chunk into a block of its own.
        let wanted = match self.announced() {
            Ok(Some(len)) => (len + NEXT_HEADER_BYTES).saturating_sub(self.buffer.len()),
            _ => self.last_long_bytes,
        };
        let free = self.buffer.capacity() - self.buffer.len();
        if free < wanted.max(1024) {
            if wanted >= MIN_REUSED_BYTES {
                self.change_block(wanted);
            } else {
                self.buffer.reserve(wanted.max(READ_BLOCK_BYTES));
            }
        }
        &mut self.buffer
    }

    /// Continues in a block with room for the buffered bytes and `wanted` more.
    fn change_block(&mut self, wanted: usize) {
        let room = self.buffer.len() + wanted;
        let free = self.retired.iter_mut().position(|block| block.try_reclaim(room));
        let reused = free.and_then(|at| self.retired.remove(at));
        let mut block = reused.unwrap_or_else(|| BytesMut::with_capacity(room));
        block.extend_from_slice(&self.buffer);
        self.buffer.clear();
        let old = std::mem::replace(&mut self.buffer, block);
        self.retired.push_back(old);
        if self.retired.len() > MAX_RETIRED {
            self.retired.pop_front();
        }
    }

    /// Whether blocks are kept for long frames to come.
    pub(crate) fn has_blocks_ready(&self) -> bool {
        !self.retired.is_empty() || self.last_long_bytes > 0
    }

    /// Frees the kept blocks, because no long frame has followed for a while. Keeps the bytes of
    /// the next frame.
    pub(crate) fn let_go(&mut self) {
        self.retired.clear();
        self.last_long_bytes = 0;
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
        }
    }

    /// The next whole frame, if it is there.
    ///
    /// # Errors
    /// [`DecodeError::TooLong`] as soon as a header announces too much.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, DecodeError> {
        let Some(len) = self.announced()? else { return Ok(None) };
        if self.buffer.len() < len {
            return Ok(None);
        }
        let payload_at = HEADER_BYTES + length_at(&self.buffer, 0);
        self.last_long_bytes = if len >= MIN_REUSED_BYTES { len + NEXT_HEADER_BYTES } else { 0 };
        Ok(Some(Frame { raw: self.buffer.split_to(len).freeze(), payload_at }))
    }

    /// Length of the current frame, if its header is complete.
    fn announced(&self) -> Result<Option<usize>, DecodeError> {
        if self.buffer.len() < HEADER_BYTES {
            return Ok(None);
        }
        let (body, payload) = (length_at(&self.buffer, 0), length_at(&self.buffer, 4));
        self.check_lengths(body, payload)?;
        Ok(Some(HEADER_BYTES + body + payload))
    }

    fn check_lengths(&self, body: usize, payload: usize) -> Result<(), DecodeError> {
        if body > self.max_body_bytes || payload > self.max_payload_bytes {
            return Err(DecodeError::TooLong { body, payload });
        }
        Ok(())
    }
}

/// Reads a length from a complete header.
fn length_at(header: &[u8], at: usize) -> usize {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&header[at..at + 4]);
    u32::from_le_bytes(bytes) as usize
}

impl Default for FrameBuffer {
    fn default() -> Self {
        FrameBuffer::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Chunk, Down, FromNode, FromRoot, Hello, Up};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn frames_survive_any_cutting(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..8),
            cut in 1usize..50,
        ) {
            let mut stream = Vec::new();
            for (index, payload) in payloads.iter().enumerate() {
                stream.extend_from_slice(&encode(&(index as u64), payload));
            }
            let mut buffer = FrameBuffer::new();
            buffer.admit();
            let mut seen = Vec::new();
            for piece in stream.chunks(cut) {
                buffer.spare().extend_from_slice(piece);
                while let Some(frame) = buffer.next_frame().expect("own frames") {
                    prop_assert_eq!(frame.message::<u64>().expect("a number"), seen.len() as u64);
                    seen.push(frame.payload().to_vec());
                }
            }
            prop_assert_eq!(seen, payloads);
        }

        #[test]
        fn any_bytes_are_decoded_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode::<Hello>(&bytes);
            let _ = decode::<FromNode>(&bytes);
            let _ = decode::<FromRoot>(&bytes);
            let _ = decode::<Down>(&bytes);
            let _ = decode::<Up>(&bytes);
            let _ = decode::<Chunk>(&bytes);
        }
    }

    #[test]
    fn memory_for_long_frames_can_go_at_any_time() {
        let frames: Vec<Bytes> =
            (0..6_u64).map(|index| encode(&index, &vec![index as u8; 100 << 10])).collect();
        let stream = frames.concat();
        let mut buffer = FrameBuffer::new();
        buffer.admit();
        let (mut seen, mut were_ready) = (0, false);
        for piece in stream.chunks(40 << 10) {
            buffer.spare().extend_from_slice(piece);
            while let Some(frame) = buffer.next_frame().expect("own frames") {
                assert_eq!(frame.raw, frames[seen]);
                seen += 1;
            }
            were_ready |= buffer.has_blocks_ready();
            buffer.let_go();
            assert!(!buffer.has_blocks_ready());
        }
        assert!(were_ready);
        assert_eq!(seen, frames.len());
        assert_eq!(buffer.buffer.capacity(), 0);
    }

    #[test]
    fn a_stranger_cannot_announce_a_long_frame() {
        let mut buffer = FrameBuffer::new();
        buffer.spare().extend_from_slice(&[0xff; 8]);
        assert!(matches!(buffer.next_frame(), Err(DecodeError::TooLong { .. })));
    }
}
