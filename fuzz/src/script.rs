//! The input of a target as a script: single bytes that choose a step, and encoded messages, one
//! after the other.
//!
//! `arbitrary` takes lengths from the end of the input. If a message were inserted, the messages
//! after it would be read as different ones. Here they stay the same, so anything libFuzzer has
//! learned about a message holds wherever it stands.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use storm_primitives::NodeId;

/// Steps of one script: longer ones find nothing that shorter ones do not.
const MAX_STEPS: usize = 256;

/// Reads a script from its start.
#[derive(Debug)]
pub struct Script<'a> {
    rest: &'a [u8],
    steps: usize,
}

impl<'a> Script<'a> {
    /// A script of all of `input`.
    pub fn new(input: &'a [u8]) -> Script<'a> {
        Script { rest: input, steps: 0 }
    }

    /// The next step, one of `count`; `None` at the end.
    pub fn step(&mut self, count: u8) -> Option<u8> {
        self.steps += 1;
        if self.steps > MAX_STEPS || self.rest.is_empty() {
            return None;
        }
        Some(self.byte() % count)
    }

    /// The next byte; 0 behind the end.
    pub fn byte(&mut self) -> u8 {
        match self.rest.split_first() {
            Some((first, rest)) => {
                self.rest = rest;
                *first
            }
            None => 0,
        }
    }

    /// One of the first `count` compute nodes.
    pub fn node(&mut self, count: u32) -> NodeId {
        NodeId(1 + u32::from(self.byte()) % count)
    }

    /// The index of an element of a list, if the list has any.
    pub fn pick(&mut self, count: usize) -> Option<usize> {
        (count > 0).then(|| usize::from(self.byte()) % count)
    }

    /// The next message as postcard encodes it. Bytes that are no message use the script up.
    pub fn message<T: DeserializeOwned>(&mut self) -> Option<T> {
        match postcard::take_from_bytes(self.rest) {
            Ok((message, rest)) => {
                self.rest = rest;
                Some(message)
            }
            Err(_) => {
                self.rest = &[];
                None
            }
        }
    }

    /// Up to 255 bytes; the byte before them gives their number.
    pub fn bytes(&mut self) -> Bytes {
        let length = usize::from(self.byte()).min(self.rest.len());
        let (bytes, rest) = self.rest.split_at(length);
        self.rest = rest;
        Bytes::copy_from_slice(bytes)
    }

    /// The bytes before the next line feed, which is consumed too.
    pub fn line(&mut self) -> &'a [u8] {
        let end = self.rest.iter().position(|byte| *byte == b'\n').unwrap_or(self.rest.len());
        let (line, rest) = self.rest.split_at(end);
        self.rest = rest.get(1..).unwrap_or_default();
        line
    }
}
