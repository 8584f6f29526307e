//! The facts about a job that the next node manager needs, if this node manager ends before the
//! job. The facts are in a file in memory that the keeper holds
//! (`docs/decisions/0130-a-node-managers-jobs-outlive-it.md`).
//!
//! The file is written as things happen, since a node manager that is killed has no time to write
//! it. The file shows the next node manager whether a step was taken:
//!
//! - Output leaves a rank's pipe for a file by one call (splice(2)), so the file's length shows how
//!   much has left.
//! - A PMI request stays in its socket until it is in the ledger, and in the ledger until it is
//!   answered.
//! - Two calls that make one step (sending an answer, writing input) have a mark between them. A
//!   node manager that is killed between the calls leaves the mark. The job then ends with this
//!   reason, since a message may be lost or doubled.

mod spool;

pub(super) use spool::{Spool, Spooled};

use crate::{JobKey, JobTask, PmiStep};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::rc::Rc;
use storm_mpi::pmi::wire::MAX_LINE_BYTES;
use storm_rm::Rank;
use storm_rm::message::LaunchJob;

/// The layout of the file. The file is sparse: unwritten parts take no memory.
const LAUNCH_AT: u64 = 16;
const FATE_AT: u64 = 17;
const ENTRY_LENGTH_AT: u64 = 24;
const ENTRY_AT: u64 = 4096;
const RANKS_AT: u64 = 64 << 20;
const LOG_AT: u64 = 128 << 20;
/// The longest log, enough for the keys of 10,000 ranks several times over. A job with a longer log
/// is not taken over.
const LOG_MAX_BYTES: u64 = 64 << 20;

/// The place of a rank, and the layout in it.
const RANK_BYTES: u64 = 8192;
const ANSWERING_AT: u64 = 0;
const WRITING_AT: u64 = 1;
const UNREAD_AT: u64 = 4;
const LINE_LENGTH_AT: u64 = 8;
const SEQUENCE_AT: u64 = 12;
const TAKEN_AT: u64 = 16;
const LINE_AT: u64 = 64;

/// A record of the log: kind, rank, sequence, length; then as many bytes.
const RECORD_BYTES: u64 = 16;
const LINE_RECORD: u32 = 1;
const FENCE_RECORD: u32 = 2;
/// A record that was read: its kind, rank, sequence and body.
type Record = (u32, Rank, u32, Vec<u8>);

/// Requests that change nothing: they are not logged.
const QUESTIONS: [&str; 6] = [
    "cmd=get ",
    "cmd=get_maxes",
    "cmd=get_appnum",
    "cmd=get_my_kvsname",
    "cmd=get_universe_size",
    // The answer to this request, memory, is made by the present node manager.
    "cmd=storm_segment ",
];

/// The part that is written once, before the ranks start.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    launch: LaunchJob,
    first: Rank,
    count: u32,
    pub(super) program: PathBuf,
    pub(super) memory_limit_bytes: Option<u64>,
    pub(super) memory_kills_before: u64,
    /// The files that belong to this file.
    pub(super) has_spool: bool,
    pub(super) has_page: bool,
    pub(super) has_lock: bool,
    pub(super) has_shared_files: bool,
}

impl Entry {
    pub(super) fn new(task: &JobTask) -> Entry {
        Entry {
            launch: (*task.launch).clone(),
            first: task.first,
            count: task.count,
            program: PathBuf::new(),
            memory_limit_bytes: None,
            memory_kills_before: 0,
            has_spool: task.output_to_client(),
            has_page: false,
            has_lock: false,
            has_shared_files: task.shares_files(),
        }
    }

    pub(super) fn task(&self) -> JobTask {
        let launch = Rc::new(self.launch.clone());
        JobTask { launch, first: self.first, count: self.count }
    }
}

/// The progress of the launch of a job's ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaunchProgress {
    /// No rank has been ordered to start.
    Nobody,
    /// Some ranks may have been ordered to start.
    Some,
    /// Every rank has been ordered to start.
    All,
    /// The keeper could not be given all ranks.
    Unkept,
}

/// Whether a job can continue without the node manager that wrote its ledger. A node manager that
/// does not know of `HandedOver` takes it for `Ends`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It can.
    Continues = 0,
    /// It cannot: the node manager holds messages of its ranks.
    Ends = 1,
    /// It can, with what the node manager handed over of these messages.
    HandedOver = 2,
}

/// The file of one job.
#[derive(Debug)]
pub(super) struct Ledger {
    file: File,
    first: Rank,
    spool: Option<Spool>,
    log_end: Cell<u64>,
}

/// The past of a job's PMI connections, as its ledger has it.
#[derive(Debug, Default)]
pub(super) struct PmiPast {
    /// The steps, in order.
    pub(super) steps: Vec<PmiStep>,
    /// The requests without an answer.
    pub(super) open: Vec<OpenRequest>,
}

/// A request without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenRequest {
    pub(super) rank: Rank,
    pub(super) line: String,
    /// Whether the request is among the steps.
    pub(super) logged: bool,
    /// Whether its answer was about to be sent.
    pub(super) answering: bool,
    /// How many bytes of it may still be in the socket.
    pub(super) unread: usize,
}

impl Ledger {
    /// Makes a ledger.
    ///
    /// # Errors
    /// The file cannot be made, or a limit of this process bounds the size of its files.
    pub(super) fn make(key: JobKey, entry: &Entry) -> io::Result<Ledger> {
        let limit = getrlimit(Resource::RLIMIT_FSIZE)?.0;
        if limit != RLIM_INFINITY {
            return Err(io::Error::other("its files may not grow beyond the limit of file sizes"));
        }
        let file = memory_file(&format!("storm-job-{}", key.file_name()))?;
        let spool = entry.has_spool.then(|| Spool::make(entry.count)).transpose()?;
        let encoded = postcard::to_stdvec(entry).map_err(io::Error::other)?;
        file.write_all_at(&encoded, ENTRY_AT)?;
        file.write_all_at(&(encoded.len() as u64).to_le_bytes(), ENTRY_LENGTH_AT)?;
        // Make the places of all ranks readable.
        file.set_len(LOG_AT)?;
        Ok(Ledger { file, first: entry.first, spool, log_end: Cell::new(LOG_AT) })
    }

    /// Opens the ledger of a former node manager.
    ///
    /// # Errors
    /// The ledger makes no sense.
    pub(super) fn open(file: OwnedFd, spool: Option<OwnedFd>) -> io::Result<(Ledger, Entry)> {
        let file = File::from(file);
        let mut encoded = vec![0; read_u64(&file, ENTRY_LENGTH_AT)?.min(RANKS_AT) as usize];
        file.read_exact_at(&mut encoded, ENTRY_AT)?;
        let entry: Entry = postcard::from_bytes(&encoded).map_err(io::Error::other)?;
        let spool = spool.map(|spool| Spool::open(spool, entry.count)).transpose()?;
        Ok((Ledger { file, first: entry.first, spool, log_end: Cell::new(LOG_AT) }, entry))
    }

    /// The files that go to the keeper.
    pub(super) fn files(&self) -> Vec<BorrowedFd<'_>> {
        let spool = self.spool.as_ref().map(Spool::file);
        [self.file.as_fd()].into_iter().chain(spool).collect()
    }

    pub(super) fn spool(&self) -> Option<&Spool> {
        self.spool.as_ref()
    }

    /// Notes the progress of the launch.
    pub(super) fn set_progress(&self, told: LaunchProgress) -> io::Result<()> {
        if self.progress()? == LaunchProgress::Unkept {
            return Ok(());
        }
        self.file.write_all_at(&[told as u8], LAUNCH_AT)
    }

    pub(super) fn progress(&self) -> io::Result<LaunchProgress> {
        let mut byte = [0];
        self.file.read_exact_at(&mut byte, LAUNCH_AT)?;
        Ok(match byte[0] {
            0 => LaunchProgress::Nobody,
            1 => LaunchProgress::Some,
            2 => LaunchProgress::All,
            _ => LaunchProgress::Unkept,
        })
    }

    /// Notes whether the job can continue without the present node manager.
    pub(super) fn set_fate(&self, fate: Fate) -> io::Result<()> {
        self.file.write_all_at(&[fate as u8], FATE_AT)
    }

    pub(super) fn fate(&self) -> io::Result<Fate> {
        let mut byte = [0];
        self.file.read_exact_at(&mut byte, FATE_AT)?;
        Ok(match byte[0] {
            0 => Fate::Continues,
            2 => Fate::HandedOver,
            _ => Fate::Ends,
        })
    }

    /// Notes the `bytes` that are about to be read from the rank's PMI socket. `before` bytes of
    /// the same line were read earlier.
    pub(super) fn will_read(&self, rank: Rank, before: usize, bytes: &[u8]) -> io::Result<()> {
        if before == 0 {
            let sequence = self.read_u32(rank, SEQUENCE_AT)?.wrapping_add(1);
            self.write(rank, SEQUENCE_AT, &sequence.to_le_bytes())?;
        }
        let room = MAX_LINE_BYTES.saturating_sub(before);
        let kept = &bytes[..bytes.len().min(room)];
        self.write(rank, LINE_AT + before as u64, kept)?;
        let length = u32::try_from(before + kept.len()).unwrap_or(u32::MAX);
        self.write(rank, LINE_LENGTH_AT, &length.to_le_bytes())?;
        self.write(rank, UNREAD_AT, &(bytes.len() as u32).to_le_bytes())
    }

    /// Notes that the bytes have been read.
    pub(super) fn has_read(&self, rank: Rank) -> io::Result<()> {
        self.write(rank, UNREAD_AT, &0_u32.to_le_bytes())
    }

    /// Logs a request, if it changes anything.
    pub(super) fn log_line(&self, rank: Rank, line: &str) -> io::Result<()> {
        let sequence = self.read_u32(rank, SEQUENCE_AT)?;
        let text = line.trim_start();
        if QUESTIONS.iter().any(|question| text.starts_with(question)) {
            return Ok(());
        }
        self.log(LINE_RECORD, rank, sequence, line.as_bytes())
    }

    /// Logs the end of a fence.
    pub(super) fn log_fence(&self, sequence: u64, puts: &[(String, String)]) -> io::Result<()> {
        let encoded = postcard::to_stdvec(&(sequence, puts)).map_err(io::Error::other)?;
        self.log(FENCE_RECORD, self.first, 0, &encoded)
    }

    /// Notes that the answer to the rank's request is about to be sent.
    pub(super) fn will_answer(&self, rank: Rank) -> io::Result<()> {
        self.write(rank, ANSWERING_AT, &[1])
    }

    /// Notes that the answer has been sent.
    pub(super) fn has_answered(&self, rank: Rank) -> io::Result<()> {
        self.write(rank, LINE_LENGTH_AT, &0_u32.to_le_bytes())?;
        self.write(rank, ANSWERING_AT, &[0])
    }

    /// Notes that input is about to be written to the rank.
    pub(super) fn will_write(&self, rank: Rank) -> io::Result<()> {
        self.write(rank, WRITING_AT, &[1])
    }

    /// Notes that the rank has taken `taken_bytes` of input in all.
    pub(super) fn has_written(&self, rank: Rank, taken_bytes: u64) -> io::Result<()> {
        self.write(rank, TAKEN_AT, &taken_bytes.to_le_bytes())?;
        self.write(rank, WRITING_AT, &[0])
    }

    /// How much input the rank has taken; `None` if a former node manager was just writing some.
    pub(super) fn taken(&self, rank: Rank) -> io::Result<Option<u64>> {
        if self.end_of(rank).is_none() {
            return Ok(Some(0));
        }
        let at = self.start_of(rank);
        let mut writing = [0];
        self.file.read_exact_at(&mut writing, at + WRITING_AT)?;
        Ok((writing[0] == 0).then_some(read_u64(&self.file, at + TAKEN_AT)?))
    }

    /// The past of these ranks' PMI connections. The log continues behind it from now on.
    pub(super) fn pmi_past(&self, ranks: impl Iterator<Item = Rank>) -> io::Result<PmiPast> {
        let mut past = PmiPast::default();
        let mut last: std::collections::BTreeMap<Rank, u32> = std::collections::BTreeMap::new();
        let mut at = LOG_AT;
        while let Some((kind, rank, sequence, body)) = self.record(at)? {
            at += RECORD_BYTES + body.len() as u64;
            match kind {
                LINE_RECORD => {
                    last.insert(rank, sequence);
                    let line = String::from_utf8_lossy(&body).into_owned();
                    past.steps.push(PmiStep::Line { rank, line });
                }
                FENCE_RECORD => {
                    let (sequence, puts) = postcard::from_bytes(&body).map_err(io::Error::other)?;
                    past.steps.push(PmiStep::FenceDone { sequence, puts });
                }
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        self.log_end.set(at);
        for rank in ranks {
            past.open.extend(self.open_request(rank, last.get(&rank).copied())?);
        }
        Ok(past)
    }

    fn open_request(&self, rank: Rank, last: Option<u32>) -> io::Result<Option<OpenRequest>> {
        if self.end_of(rank).is_none() {
            return Ok(None);
        }
        let length = self.read_u32(rank, LINE_LENGTH_AT)? as usize;
        if length == 0 {
            return Ok(None);
        }
        let mut line = vec![0; length.min(MAX_LINE_BYTES)];
        self.file.read_exact_at(&mut line, self.start_of(rank) + LINE_AT)?;
        let line = String::from_utf8_lossy(&line).into_owned();
        let mut answering = [0];
        self.file.read_exact_at(&mut answering, self.start_of(rank) + ANSWERING_AT)?;
        let unread = self.read_u32(rank, UNREAD_AT)? as usize;
        let logged = last.is_some() && last == Some(self.read_u32(rank, SEQUENCE_AT)?);
        let answering = answering[0] != 0;
        Ok(Some(OpenRequest { rank, line, logged: logged && unread == 0, answering, unread }))
    }

    fn log(&self, kind: u32, rank: Rank, sequence: u32, body: &[u8]) -> io::Result<()> {
        let at = self.log_end.get();
        let end = at + RECORD_BYTES + body.len() as u64;
        if end > LOG_AT + LOG_MAX_BYTES {
            return Err(io::Error::other("its ranks exchange too much through PMI"));
        }
        self.file.write_all_at(body, at + RECORD_BYTES)?;
        let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
        let words = [kind, rank.0, sequence, length].map(u32::to_le_bytes);
        // Write the header last and in one piece: a record counts only with its header.
        self.file.write_all_at(words.as_flattened(), at)?;
        self.log_end.set(end);
        Ok(())
    }

    fn record(&self, at: u64) -> io::Result<Option<Record>> {
        let mut words = [[0; 4]; 4];
        if at + RECORD_BYTES > self.length() {
            return Ok(None);
        }
        self.file.read_exact_at(words.as_flattened_mut(), at)?;
        let [kind, rank, sequence, length] = words.map(u32::from_le_bytes);
        if kind == 0 || u64::from(length) > LOG_MAX_BYTES {
            return Ok(None);
        }
        let mut body = vec![0; length as usize];
        self.file.read_exact_at(&mut body, at + RECORD_BYTES)?;
        Ok(Some((kind, Rank(rank), sequence, body)))
    }

    fn length(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.len())
    }

    fn start_of(&self, rank: Rank) -> u64 {
        RANKS_AT + u64::from(rank.0.saturating_sub(self.first.0)) * RANK_BYTES
    }

    /// The end of the rank's place, if the file has room for it.
    fn end_of(&self, rank: Rank) -> Option<u64> {
        let end = self.start_of(rank) + RANK_BYTES;
        (end <= LOG_AT).then_some(end)
    }

    fn write(&self, rank: Rank, at: u64, bytes: &[u8]) -> io::Result<()> {
        if self.end_of(rank).is_none() {
            return Err(io::Error::other("it has more ranks here than have room"));
        }
        self.file.write_all_at(bytes, self.start_of(rank) + at)
    }

    fn read_u32(&self, rank: Rank, at: u64) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.file.read_exact_at(&mut bytes, self.start_of(rank) + at)?;
        Ok(u32::from_le_bytes(bytes))
    }
}

fn read_u64(file: &File, at: u64) -> io::Result<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, at)?;
    Ok(u64::from_le_bytes(bytes))
}

fn memory_file(name: &str) -> io::Result<File> {
    Ok(File::from(memfd_create(name, MFdFlags::MFD_CLOEXEC)?))
}
