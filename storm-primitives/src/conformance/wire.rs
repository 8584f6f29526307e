//! Commands and replies as bytes, for nodes in other processes.
//!
//! Frames of a little-endian `u32` length and that many bytes of postcard. Does
//! no I/O: a backend's test binary reads and writes the bytes.

use super::{Command, Reply};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// No command or reply is longer: bulk data travels as a pattern or a hash.
const MAX_FRAME_BYTES: u32 = 1 << 20;

const LENGTH_BYTES: usize = 4;

/// A command on its way to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Chosen by the sender; returned with the reply.
    pub id: u64,
    /// The command.
    pub command: Command,
}

/// A reply on its way back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// The id of the request.
    pub id: u64,
    /// The answer.
    pub reply: Reply,
}

/// Bytes that are no frame of this protocol.
#[derive(Debug, Error)]
pub enum WireError {
    /// The length exceeds the suite's longest frame.
    #[error("a frame of {len} bytes, longer than the limit of {MAX_FRAME_BYTES}")]
    TooLong {
        /// The length in bytes.
        len: u32,
    },
    /// The content does not decode, or the value does not encode.
    #[error("a frame that is not a message of the suite")]
    Malformed(#[from] postcard::Error),
}

/// The frame of one message.
///
/// # Errors
/// [`WireError::TooLong`] if the other side would refuse it.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, WireError> {
    let body = postcard::to_stdvec(message)?;
    let len = u32::try_from(body.len()).unwrap_or(u32::MAX);
    if len > MAX_FRAME_BYTES {
        return Err(WireError::TooLong { len });
    }
    let mut frame = len.to_le_bytes().to_vec();
    frame.extend_from_slice(&body);
    Ok(frame)
}

/// Cuts a stream of bytes into messages.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
}

impl Decoder {
    /// A decoder without input.
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// Adds bytes in the order in which they arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole message, or `None` until more bytes have arrived.
    ///
    /// # Errors
    /// [`WireError`] if the bytes are not from [`encode`]; the stream is then useless.
    pub fn pop<T: DeserializeOwned>(&mut self) -> Result<Option<T>, WireError> {
        let Some((length, rest)) = self.buffer.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let len = u32::from_le_bytes(*length);
        if len > MAX_FRAME_BYTES {
            return Err(WireError::TooLong { len });
        }
        let Some(body) = rest.get(..len as usize) else { return Ok(None) };
        let message = postcard::from_bytes(body)?;
        self.buffer.drain(..LENGTH_BYTES + len as usize);
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_survive_any_cut_of_the_stream() {
        let requests: Vec<Request> =
            (0..3).map(|id| Request { id, command: Command::Membership }).collect();
        let stream: Vec<u8> = requests.iter().flat_map(|r| encode(r).expect("short")).collect();
        let mut decoder = Decoder::new();
        let mut seen: Vec<Request> = Vec::new();
        for byte in stream {
            decoder.push(&[byte]);
            seen.extend(decoder.pop().expect("well formed"));
        }
        assert_eq!(seen, requests);
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_an_error_or_a_wait(
            bytes in prop::collection::vec(any::<u8>(), 0..200)
        ) {
            let mut decoder = Decoder::new();
            decoder.push(&bytes);
            // Each message takes at least its length prefix.
            for _ in 0..=bytes.len() / LENGTH_BYTES {
                match decoder.pop::<Request>() {
                    Ok(Some(_)) => continue,
                    Ok(None) | Err(_) => break,
                }
            }
            prop_assert!(decoder.buffer.len() <= bytes.len());
        }
    }
}
