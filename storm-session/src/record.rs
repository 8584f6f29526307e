//! Records carry the data of a sealed session in encrypted and authenticated pieces, each bound to
//! its place in the stream.
//!
//! ```text
//! length 2, little-endian | ciphertext of length - 16 bytes | tag 16
//! ```
//!
//! This module takes and returns bytes; it knows neither frames nor sockets. A stream that is cut
//! off between two records ends like a TCP stream. A protocol that must recognise the real end
//! announces it in a message.

use super::handshake::broken;
use bytes::{Buf, Bytes, BytesMut};
use snow::TransportState;
use std::cell::{Ref, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::io;

/// Length of a record's head in bytes.
const HEAD_BYTES: usize = 2;
/// Length of a tag in bytes.
const TAG_BYTES: usize = 16;
/// Longest Noise message (section 3), and the largest number of two bytes.
const MAX_RECORD_BYTES: usize = u16::MAX as usize;
/// Most plain text in a record.
pub(super) const MAX_PLAIN_BYTES: usize = MAX_RECORD_BYTES - TAG_BYTES;
/// Bytes of records that are enough for a write: two full records exceed it.
const BATCH_BYTES: usize = 96 << 10;
/// Shorter pieces are combined, because a record for each would cost more.
const MIN_OWN_RECORD_BYTES: usize = 8 << 10;
/// Least free room for data of a peer.
const READ_BLOCK_BYTES: usize = 16 << 10;
/// A key encrypts this many records, at most 4 GiB: 2^28 blocks, far below the birthday bound of
/// AES-GCM (2^64). Then both ends continue with the next key (Noise, section 11.3).
const REKEY_RECORDS: u64 = 1 << 16;

/// Both directions of a session.
pub struct Sealed {
    noise: RefCell<TransportState>,
    out: RefCell<Outgoing>,
    incoming: RefCell<Incoming>,
}

#[derive(Default)]
struct Outgoing {
    records: Vec<u8>,
    /// The number of bytes of `records` that are already written.
    at: usize,
}

#[derive(Default)]
struct Incoming {
    records: BytesMut,
    /// Plain text of a record that did not fit the reader's buffer.
    plain: BytesMut,
}

impl Sealed {
    pub(super) fn new(noise: TransportState) -> Sealed {
        let noise = RefCell::new(noise);
        Sealed { noise, out: RefCell::default(), incoming: RefCell::default() }
    }

    /// The bytes to write next: the rest of earlier records, else new records with data from the
    /// front of `out`. Empty if there is nothing to write.
    ///
    /// # Errors
    /// Noise fails to encrypt, which never happens in a properly made session.
    pub fn seal(&self, out: &mut VecDeque<Bytes>) -> io::Result<Ref<'_, [u8]>> {
        let mut outgoing = self.out.borrow_mut();
        if outgoing.at == outgoing.records.len() {
            outgoing.at = 0;
            outgoing.records.clear();
            while outgoing.records.len() < BATCH_BYTES {
                let Some(plain) = take_plain(out) else { break };
                self.append(&mut outgoing.records, &plain)?;
            }
            if outgoing.records.is_empty() {
                // An idle connection holds no memory.
                outgoing.records = Vec::new();
            }
        }
        drop(outgoing);
        Ok(Ref::map(self.out.borrow(), |outgoing| &outgoing.records[outgoing.at..]))
    }

    /// `len` bytes of [`seal`](Self::seal)'s result are written.
    pub fn written(&self, len: usize) {
        self.out.borrow_mut().at += len;
    }

    fn append(&self, records: &mut Vec<u8>, plain: &[u8]) -> io::Result<()> {
        let mut noise = self.noise.borrow_mut();
        let (start, len) = (records.len(), plain.len() + TAG_BYTES);
        records.resize(start + HEAD_BYTES + len, 0);
        let (head, body) = records[start..].split_at_mut(HEAD_BYTES);
        head.copy_from_slice(&(len as u16).to_le_bytes());
        noise.write_message(plain, body).map_err(broken)?;
        if noise.sending_nonce().is_multiple_of(REKEY_RECORDS) {
            noise.rekey_outgoing();
        }
        Ok(())
    }

    /// Passes the buffer for the peer's next bytes to `read`, and returns its result.
    pub fn fill<T>(&self, read: impl FnOnce(&mut BytesMut) -> T) -> T {
        let records = &mut self.incoming.borrow_mut().records;
        let wanted = announced(records).map_or(0, |len| len + HEAD_BYTES);
        records.reserve(wanted.saturating_sub(records.len()).max(READ_BLOCK_BYTES));
        read(records)
    }

    /// Decrypts received records into the spare room of `into`, which must not be empty. Returns
    /// the number of bytes; 0 if no record is complete.
    ///
    /// # Errors
    /// A record does not continue the records of the other end.
    pub fn open(&self, into: &mut BytesMut) -> io::Result<usize> {
        let mut incoming = self.incoming.borrow_mut();
        let Incoming { records, plain } = &mut *incoming;
        let before = into.len();
        loop {
            let spare = into.capacity() - into.len();
            let some = plain.len().min(spare);
            into.extend_from_slice(&plain[..some]);
            plain.advance(some);
            let Some(len) = announced(records).filter(|len| records.len() >= *len) else { break };
            if !plain.is_empty() || some == spare {
                break;
            }
            let room = spare - some;
            let record = records.split_to(len);
            if room >= len {
                self.open_record(&record, into)?;
            } else {
                self.open_record(&record, plain)?;
            }
        }
        if records.is_empty() && plain.is_empty() {
            // An idle connection holds no memory.
            *incoming = Incoming::default();
        }
        Ok(into.len() - before)
    }

    fn open_record(&self, record: &[u8], into: &mut BytesMut) -> io::Result<()> {
        let broken = |why| io::Error::new(io::ErrorKind::InvalidData, why);
        let sealed = &record[HEAD_BYTES..];
        let start = into.len();
        let Some(len) = sealed.len().checked_sub(TAG_BYTES) else {
            return Err(broken("a record is shorter than its tag"));
        };
        into.resize(start + len, 0);
        let mut noise = self.noise.borrow_mut();
        if noise.read_message(sealed, &mut into[start..]).is_err() {
            into.truncate(start);
            return Err(broken("a record is out of order in this session"));
        }
        if noise.receiving_nonce().is_multiple_of(REKEY_RECORDS) {
            noise.rekey_incoming();
        }
        Ok(())
    }

    /// Whether a record of the peer is incomplete.
    pub fn is_within_record(&self) -> bool {
        !self.incoming.borrow().records.is_empty()
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealed")
    }
}

/// Length of the first record with its head, if the head is complete.
fn announced(records: &BytesMut) -> Option<usize> {
    let head = records.first_chunk::<HEAD_BYTES>()?;
    Some(HEAD_BYTES + usize::from(u16::from_le_bytes(*head)))
}

/// The plain text of the next record: a part of a long piece at the front, or several short pieces.
fn take_plain(out: &mut VecDeque<Bytes>) -> Option<Bytes> {
    while out.front().is_some_and(Bytes::is_empty) {
        out.pop_front();
    }
    let front = out.front_mut()?;
    if front.len() >= MIN_OWN_RECORD_BYTES {
        return Some(front.split_to(front.len().min(MAX_PLAIN_BYTES)));
    }
    let mut plain = BytesMut::new();
    while let Some(next) = out.front().filter(|next| next.len() < MIN_OWN_RECORD_BYTES) {
        if plain.len() + next.len() > MAX_PLAIN_BYTES {
            break;
        }
        plain.extend_from_slice(next);
        out.pop_front();
    }
    Some(plain.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_memory::{open, pair, seal};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn sealed_records_open_however_they_are_split(
            lengths in prop::collection::vec(0usize..200_000, 0..6),
            short in prop::collection::vec(0usize..300, 0..20),
            cut in 1usize..100_000,
            room in 1usize..100_000,
        ) {
            let (one, other) = pair();
            let frame = |len: usize| (0..len).map(|at| (at * 7 % 251) as u8).collect();
            let frames: Vec<Vec<u8>> = lengths.into_iter().chain(short).map(frame).collect();
            let cut = cut.max(frames.concat().len() / 500 + 1);
            let records = seal(&one, &frames);
            let plain = open(&other, &records, cut, room.max(64)).expect("own records");
            prop_assert!(plain == frames.concat());
            prop_assert!(!other.is_within_record());
        }

        #[test]
        fn any_bytes_are_refused_without_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..2000),
        ) {
            let (_, other) = pair();
            let plain = open(&other, &bytes, 100, 4096).unwrap_or_default();
            prop_assert!(plain.is_empty());
        }
    }

    #[test]
    fn records_are_bound_to_their_place() {
        let records = |end: &Sealed| [b"one", b"two"].map(|text| seal(end, &[text.to_vec()]));
        let (one, other) = pair();
        let [first, second] = records(&one);
        assert!(open(&other, &second, 9, 64).is_err(), "left out");
        let (one, other) = pair();
        let [first_again, _] = records(&one);
        assert_ne!(first, first_again, "another session");
        assert_eq!(open(&other, &first_again, 9, 64).expect("in its place"), b"one");
        assert!(open(&other, &first_again, 9, 64).is_err(), "played again");
        assert!(open(&one, &first_again, 9, 64).is_err(), "sent back");
    }

    #[test]
    fn both_ends_change_keys_at_the_same_record() {
        let (one, other) = pair();
        for number in 0..2 * REKEY_RECORDS + 2 {
            let frame = number.to_le_bytes().to_vec();
            let records = seal(&one, std::slice::from_ref(&frame));
            assert_eq!(open(&other, &records, 64, 64).expect("the next"), frame);
        }
    }

    #[test]
    fn an_idle_session_holds_no_memory() {
        let (one, other) = pair();
        let records = seal(&one, &[vec![1; 1 << 20]]);
        assert_eq!(open(&other, &records, 1 << 16, 1 << 14).expect("own").len(), 1 << 20);
        assert_eq!(one.out.borrow().records.capacity(), 0);
        let incoming = other.incoming.borrow();
        assert_eq!((incoming.records.capacity(), incoming.plain.capacity()), (0, 0));
    }
}
