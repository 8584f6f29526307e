//! Output of a job's ranks that may not have reached the Machine Manager. One call moves output
//! from a rank's pipe to a file in memory. The output is therefore in one of the two places at any
//! moment, even if a node manager is killed.

use super::memory_file;
use nix::fcntl::{FallocateFlags, SpliceFFlags, fallocate, splice};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use storm_rm::Rank;
use storm_rm::message::Stream;

/// The head of a record: mark, rank, stream, length (0 until its bytes have arrived) and offset in
/// the stream. The bytes follow.
const RECORD_BYTES: u64 = 24;
const MARK: u32 = u32::from_le_bytes(*b"outp");
/// How much output is kept. The Machine Manager has handled older output. The backlog of output and
/// the queue of reports bound the output on its way to a sixth of this size.
const KEPT_BYTES: u64 = 1 << 20;
/// How much each rank may add to the backlog.
const KEPT_BYTES_PER_RANK: u64 = 8 << 10;
/// The place of the first record's address. The totals of the streams, as of the last trim, follow.
const START_AT: u64 = 0;
const TOTALS_AT: u64 = 4096;
const TOTAL_BYTES: u64 = 24;
const RECORDS_AT: u64 = 1 << 20;

/// A stream of a rank.
type Key = (Rank, u32);

/// Output that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::live) struct Spooled {
    pub(in crate::live) rank: Rank,
    pub(in crate::live) stream: Stream,
    pub(in crate::live) offset: u64,
    pub(in crate::live) data: Vec<u8>,
}

/// The file of one job.
#[derive(Debug)]
pub(in crate::live) struct Spool {
    file: File,
    kept_bytes: u64,
    end: Cell<u64>,
    /// The places of the records, from the first that is kept.
    records: RefCell<VecDeque<u64>>,
    /// How many bytes of each stream have arrived.
    totals: RefCell<BTreeMap<Key, u64>>,
}

impl Spool {
    pub(super) fn make(ranks: u32) -> io::Result<Spool> {
        Ok(Spool::of(memory_file("storm-output")?, ranks))
    }

    fn of(file: File, ranks: u32) -> Spool {
        Spool {
            file,
            kept_bytes: KEPT_BYTES + u64::from(ranks) * KEPT_BYTES_PER_RANK,
            end: Cell::new(RECORDS_AT),
            records: RefCell::default(),
            totals: RefCell::default(),
        }
    }

    pub(super) fn open(file: OwnedFd, ranks: u32) -> io::Result<Spool> {
        let spool = Spool::of(File::from(file), ranks);
        let length = spool.file.metadata()?.len();
        let word = |at| {
            let mut bytes = [0; 8];
            spool.file.read_exact_at(&mut bytes, at).map(|()| u64::from_le_bytes(bytes))
        };
        if length == 0 {
            return Ok(spool);
        }
        let start = if length >= 8 { word(START_AT)?.max(RECORDS_AT) } else { RECORDS_AT };
        for place in 0..u64::from(ranks) * 2 {
            let at = TOTALS_AT + place * TOTAL_BYTES;
            if at + TOTAL_BYTES > length.min(RECORDS_AT) {
                break;
            }
            let (rank, total) = (word(at)?, word(at + 8)?);
            let key = (Rank((rank >> 32) as u32), rank as u32);
            if total > 0 {
                spool.totals.borrow_mut().insert(key, total);
            }
        }
        spool.end.set(start);
        let mut at = start;
        while let Some((key, offset, length)) = spool.record(at, length)? {
            spool.records.borrow_mut().push_back(at);
            spool.totals.borrow_mut().insert(key, offset + length);
            spool.set_length(at, length)?;
            at += RECORD_BYTES + length;
            spool.end.set(at);
        }
        Ok(spool)
    }

    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// How many bytes of a stream have arrived.
    pub(in crate::live) fn total(&self, rank: Rank, stream: Stream) -> u64 {
        self.totals.borrow().get(&(rank, number(stream))).copied().unwrap_or(0)
    }

    /// Takes the bytes in the pipe, at most `limit`.
    ///
    /// # Errors
    /// `WouldBlock` if the pipe is empty.
    pub(in crate::live) fn take(
        &self,
        (rank, stream): (Rank, Stream),
        pipe: BorrowedFd<'_>,
        limit: usize,
    ) -> io::Result<Vec<u8>> {
        let at = self.end.get();
        let key = (rank, number(stream));
        let offset = self.totals.borrow().get(&key).copied().unwrap_or(0);
        let mut head = [0; RECORD_BYTES as usize];
        head[..4].copy_from_slice(&MARK.to_le_bytes());
        head[4..8].copy_from_slice(&rank.0.to_le_bytes());
        head[8..12].copy_from_slice(&key.1.to_le_bytes());
        head[16..].copy_from_slice(&offset.to_le_bytes());
        self.file.write_all_at(&head, at)?;
        let mut into = (at + RECORD_BYTES) as i64;
        let flags = SpliceFFlags::SPLICE_F_NONBLOCK | SpliceFFlags::SPLICE_F_MOVE;
        let length = splice(pipe, None, &self.file, Some(&mut into), limit, flags)?;
        let mut data = vec![0; length];
        if length > 0 {
            self.set_length(at, length as u64)?;
            self.end.set(at + RECORD_BYTES + length as u64);
            self.records.borrow_mut().push_back(at);
            self.totals.borrow_mut().insert(key, offset + length as u64);
            self.file.read_exact_at(&mut data, at + RECORD_BYTES)?;
            self.trim()?;
        }
        Ok(data)
    }

    /// The output that is kept, in order.
    pub(in crate::live) fn kept(&self) -> io::Result<Vec<Spooled>> {
        let length = self.end.get();
        let mut kept = Vec::new();
        for at in self.records.borrow().iter() {
            let Some(((rank, stream), offset, bytes)) = self.record(*at, length)? else { break };
            let mut data = vec![0; bytes as usize];
            self.file.read_exact_at(&mut data, at + RECORD_BYTES)?;
            let stream =
                if stream == number(Stream::Stdout) { Stream::Stdout } else { Stream::Stderr };
            kept.push(Spooled { rank, stream, offset, data });
        }
        Ok(kept)
    }

    /// Forgets output that the Machine Manager has handled.
    fn trim(&self) -> io::Result<()> {
        let mut records = self.records.borrow_mut();
        let (Some(first), end) = (records.front().copied(), self.end.get()) else { return Ok(()) };
        if end - first < 2 * self.kept_bytes {
            return Ok(());
        }
        while records.get(1).is_some_and(|next| *next <= end - self.kept_bytes) {
            records.pop_front();
        }
        let start = records.front().copied().unwrap_or(end);
        for (place, ((rank, stream), total)) in (0..).zip(self.totals.borrow().iter()) {
            let at = TOTALS_AT + place * TOTAL_BYTES;
            if at + TOTAL_BYTES <= RECORDS_AT {
                let key = u64::from(rank.0) << 32 | u64::from(*stream);
                self.file.write_all_at(&key.to_le_bytes(), at)?;
                self.file.write_all_at(&total.to_le_bytes(), at + 8)?;
            }
        }
        self.file.write_all_at(&start.to_le_bytes(), START_AT)?;
        let hole = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        Ok(fallocate(&self.file, hole, first as i64, (start - first) as i64)?)
    }

    fn set_length(&self, at: u64, length: u64) -> io::Result<()> {
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        self.file.write_all_at(&length.to_le_bytes(), at + 12)
    }

    /// The record at `at`, in a file of `length` bytes. The last record may have no length yet.
    fn record(&self, at: u64, length: u64) -> io::Result<Option<(Key, u64, u64)>> {
        if at + RECORD_BYTES >= length {
            return Ok(None);
        }
        let mut head = [0; RECORD_BYTES as usize];
        self.file.read_exact_at(&mut head, at)?;
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if word(0) != MARK {
            return Ok(None);
        }
        let offset = u64::from(word(16)) | u64::from(word(20)) << 32;
        let bytes = match word(12) {
            0 => length - at - RECORD_BYTES,
            bytes => u64::from(bytes).min(length - at - RECORD_BYTES),
        };
        Ok(Some(((Rank(word(4)), word(8)), offset, bytes)))
    }
}

fn number(stream: Stream) -> u32 {
    match stream {
        Stream::Stdout => 1,
        Stream::Stderr => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::fcntl::OFlag;
    use nix::unistd::{pipe2, write};

    const OUT: (Rank, Stream) = (Rank(3), Stream::Stdout);
    const ERR: (Rank, Stream) = (Rank(3), Stream::Stderr);

    fn spooled((rank, stream): (Rank, Stream), offset: u64, data: &[u8]) -> Spooled {
        Spooled { rank, stream, offset, data: data.to_vec() }
    }

    #[test]
    fn bytes_that_have_left_a_pipe_are_found_by_the_next_daemon() {
        let spool = Spool::make(4).unwrap();
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).unwrap();
        let nothing = spool.take(OUT, reader.as_fd(), 100).expect_err("it is empty");
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        write(&writer, b"one two").unwrap();
        assert_eq!(spool.take(OUT, reader.as_fd(), 4).unwrap(), b"one ");
        assert_eq!(spool.take(ERR, reader.as_fd(), 100).unwrap(), b"two");
        write(&writer, b"!").unwrap();
        assert_eq!(spool.take(OUT, reader.as_fd(), 100).unwrap(), b"!");
        let file = spool.file().try_clone_to_owned().unwrap();
        drop(spool);
        let next = Spool::open(file, 4).unwrap();
        let all = [spooled(OUT, 0, b"one "), spooled(ERR, 0, b"two"), spooled(OUT, 4, b"!")];
        assert_eq!(next.kept().unwrap(), all);
        assert_eq!((next.total(OUT.0, OUT.1), next.total(ERR.0, ERR.1)), (5, 3));
        drop(writer);
        assert_eq!(next.take(OUT, reader.as_fd(), 100).unwrap(), b"", "the end");
    }

    #[test]
    fn bytes_that_were_read_and_not_counted_are_found() {
        let spool = Spool::make(4).unwrap();
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).unwrap();
        write(&writer, b"text").unwrap();
        spool.take(OUT, reader.as_fd(), 100).unwrap();
        spool.set_length(RECORDS_AT, 0).unwrap();
        let next = Spool::open(spool.file().try_clone_to_owned().unwrap(), 4).unwrap();
        assert_eq!(next.kept().unwrap(), [spooled(OUT, 0, b"text")]);
    }

    #[test]
    fn old_bytes_go_and_their_length_is_known() {
        let spool = Spool::make(1).unwrap();
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).unwrap();
        write(&writer, b"first").unwrap();
        spool.take(ERR, reader.as_fd(), 100).unwrap();
        let (piece, pieces) = ([b'x'; 4096], 1_000);
        for _ in 0..pieces {
            write(&writer, &piece).unwrap();
            assert_eq!(spool.take(OUT, reader.as_fd(), 4096).unwrap().len(), 4096);
        }
        let next = Spool::open(spool.file().try_clone_to_owned().unwrap(), 1).unwrap();
        assert_eq!(next.total(OUT.0, OUT.1), 4096 * pieces);
        assert_eq!(next.total(ERR.0, ERR.1), 5);
        let kept = next.kept().unwrap();
        assert_eq!(kept.last().unwrap().offset, 4096 * (pieces - 1));
        let bytes: usize = kept.iter().map(|spooled| spooled.data.len()).sum();
        assert!((KEPT_BYTES as usize..3 << 20).contains(&bytes), "{bytes}");
    }
}
