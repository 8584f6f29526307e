//! Records carry the data of a sealed session in encrypted and authenticated pieces, each bound to
//! its place in the stream.
//!
//! ```text
//! length 2, little-endian | ciphertext of length - 16 bytes | tag 16
//! ```
//!
//! This module takes and returns bytes; it knows neither frames nor sockets. A record without plain
//! text is the end that the other side meant. A stream that stops without such a record was cut
//! off.

use super::handshake::broken;
use bytes::{Buf, Bytes, BytesMut};
use snow::TransportState;
use std::cell::{Cell, Ref, RefCell};
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
    /// Whether this end has sealed its end record.
    ended: Cell<bool>,
    /// Whether the peer's end record has come.
    peer_ended: Cell<bool>,
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
        Sealed {
            noise,
            out: RefCell::default(),
            incoming: RefCell::default(),
            ended: Cell::new(false),
            peer_ended: Cell::new(false),
        }
    }

    /// The bytes to write next: the rest of earlier records, else new records with data from the
    /// front of `out`. Empty if there is nothing to write.
    ///
    /// # Errors
    /// Noise fails to encrypt, which never happens in a properly made session; or there is data
    /// after [`seal_end`](Self::seal_end).
    pub fn seal(&self, out: &mut VecDeque<Bytes>) -> io::Result<Ref<'_, [u8]>> {
        if self.ended.get() && out.iter().any(|piece| !piece.is_empty()) {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "this end has ended the stream"));
        }
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

    /// Ends this direction: seals the end record behind all records. [`seal`](Self::seal) returns
    /// it with the rest. A second call does nothing.
    ///
    /// # Errors
    /// The errors of [`seal`](Self::seal).
    pub fn seal_end(&self) -> io::Result<()> {
        if !self.ended.replace(true) {
            self.append(&mut self.out.borrow_mut().records, &[])?;
        }
        Ok(())
    }

    /// Whether the peer has ended its direction. All of its data has been opened then.
    pub fn peer_has_ended(&self) -> bool {
        self.peer_ended.get()
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
    /// A record does not continue the records of the other end, or follows its end record.
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
        if self.peer_ended.get() {
            return Err(broken("a record follows the end of the stream"));
        }
        into.resize(start + len, 0);
        let mut noise = self.noise.borrow_mut();
        if noise.read_message(sealed, &mut into[start..]).is_err() {
            into.truncate(start);
            return Err(broken("a record is out of order in this session"));
        }
        if noise.receiving_nonce().is_multiple_of(REKEY_RECORDS) {
            noise.rekey_incoming();
        }
        self.peer_ended.set(len == 0);
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

    fn seal_end(end: &Sealed) -> Vec<u8> {
        end.seal_end().expect("it seals");
        seal(end, &[])
    }

    #[test]
    fn an_end_that_is_meant_differs_from_a_cut() {
        let (one, other) = pair();
        let records = seal(&one, &[b"last words".to_vec()]);
        assert_eq!(open(&other, &records, 9, 64).expect("own"), b"last words");
        assert!(!other.peer_has_ended(), "a stream that is cut here has no end");
        let end = seal_end(&one);
        let most = &end[..end.len() - 1];
        assert_eq!(open(&other, most, 9, 64).expect("a part"), b"");
        assert!(!other.peer_has_ended() && other.is_within_record());
        assert_eq!(open(&other, &end[most.len()..], 9, 64).expect("the rest"), b"");
        assert!(other.peer_has_ended() && !other.is_within_record());
        assert!(!one.peer_has_ended(), "the other direction goes on");
        let back = seal(&other, &[b"answer".to_vec()]);
        assert_eq!(open(&one, &back, 9, 64).expect("own"), b"answer");
    }

    #[test]
    fn an_end_cannot_be_forged_moved_or_repeated() {
        let forged = |end: &[u8], flip: usize| {
            let mut end = end.to_vec();
            end[flip] ^= 1;
            end
        };
        for flip in HEAD_BYTES..HEAD_BYTES + TAG_BYTES {
            let (one, other) = pair();
            assert!(open(&other, &forged(&seal_end(&one), flip), 64, 64).is_err(), "byte {flip}");
            assert!(!other.peer_has_ended());
        }
        let (one, other) = pair();
        let data = seal(&one, &[b"data".to_vec()]);
        let end = seal_end(&one);
        assert!(open(&other, &end, 64, 64).is_err(), "ahead of the data");
        let (_, stranger) = pair();
        assert!(open(&stranger, &end, 64, 64).is_err(), "of another session");
        let (one, other) = pair();
        let end = [seal(&one, &[b"data".to_vec()]), seal_end(&one)].concat();
        assert_ne!(data, end[..data.len()], "another session");
        assert_eq!(open(&other, &end, 64, 64).expect("own"), b"data");
        assert!(open(&other, &end[data.len()..], 64, 64).is_err(), "repeated");
    }

    #[test]
    fn nothing_is_sealed_after_the_end() {
        let (one, other) = pair();
        let end = seal_end(&one);
        assert_eq!(seal_end(&one), b"", "an end is sealed once");
        let mut more = VecDeque::from([Bytes::from_static(b"more")]);
        assert!(one.seal(&mut more).is_err());
        let lengthened = [end, vec![TAG_BYTES as u8, 0]].concat();
        open(&other, &lengthened, 64, 64).expect("the end, and a part of a record");
        assert!(open(&other, &[0; TAG_BYTES], 64, 64).is_err(), "the record is refused");
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
