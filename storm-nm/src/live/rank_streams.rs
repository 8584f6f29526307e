//! The node's ends of a rank's pipes and of its PMI connection.

use super::ledger::{Ledger, OpenRequest};
use crate::{HostEvent, JobKey};
use bytes::Bytes;
use nix::sys::socket::{MsgFlags, Shutdown, recv, shutdown};
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::rc::Rc;
use storm_mpi::pmi::wire::MAX_LINE_BYTES;
use storm_mpi::segment::{NodeEnd, hand_over};
use storm_pl::{KeeperHandle, KeptId, OwnEnds, PlEnds, PlIndex};
use storm_rm::Rank;
use storm_rm::message::Stream;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, spawn_local};

/// Bytes read from a PMI connection at once.
const PMI_READ_BYTES: usize = 1024;

/// The streams of one rank; a stream that has ended is `None`.
#[derive(Debug, Default)]
pub(super) struct RankStreams {
    stdin: RefCell<Option<Rc<pipe::Sender>>>,
    stdout: RefCell<Option<Rc<pipe::Receiver>>>,
    stderr: RefCell<Option<Rc<pipe::Receiver>>>,
    pmi: RefCell<Option<Pmi>>,
    /// The rank's own ends, kept until it has ended. Otherwise its streams could end one by one
    /// before.
    own: RefCell<Option<OwnEnds>>,
    /// The ledger for the next node manager, if there is one.
    remembered: Option<Remembered>,
}

/// The place where the events of a rank's streams are written down.
#[derive(Clone)]
pub(super) struct Remembered {
    pub(super) ledger: Rc<Ledger>,
    pub(super) keeper: KeeperHandle,
    pub(super) job: KeptId,
    pub(super) pl: PlIndex,
    pub(super) rank: Rank,
    /// How much input the rank has taken.
    pub(super) taken_bytes: Cell<u64>,
}

impl std::fmt::Debug for Remembered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Remembered({:?}, {})", self.job, self.rank)
    }
}

impl Remembered {
    /// If a note fails, the job cannot be taken over and will end with this node manager.
    fn note(&self, noted: io::Result<()>) {
        if let Err(error) = noted {
            tracing::warn!(rank = %self.rank, %error, "its job will end with this node manager");
            self.keeper.forget_kept(self.job);
        }
    }
}

#[derive(Debug)]
struct Pmi {
    socket: Rc<UnixStream>,
    reader: AbortHandle,
}

impl Drop for Pmi {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl RankStreams {
    /// Takes over the ends that there are.
    ///
    /// # Errors
    /// The event loop has no room for another end (`ENOSPC`, `ENOMEM`). Every end is closed then.
    pub(super) fn open(
        (ends, own): (PlEnds, OwnEnds),
        (job, rank): (JobKey, Rank),
        events: &mpsc::Sender<HostEvent>,
        remembered: Option<Remembered>,
    ) -> io::Result<RankStreams> {
        let PlEnds { stdin, stdout, stderr, pmi } = ends;
        // The ends are known to be non-blocking pipes; a check would take two calls each.
        let receiver = |end| pipe::Receiver::from_owned_fd_unchecked(end).map(Rc::new);
        let streams = RankStreams { remembered: remembered.clone(), ..RankStreams::default() };
        let stdin = stdin.map(pipe::Sender::from_owned_fd_unchecked).transpose()?;
        *streams.stdin.borrow_mut() = stdin.map(Rc::new);
        *streams.stdout.borrow_mut() = stdout.map(receiver).transpose()?;
        *streams.stderr.borrow_mut() = stderr.map(receiver).transpose()?;
        if let Some(pmi) = pmi {
            let socket = Rc::new(UnixStream::from_std(StdUnixStream::from(pmi))?);
            let reading = read_pmi(socket.clone(), (job, rank), events.clone(), remembered);
            let reader = spawn_local(reading).abort_handle();
            *streams.pmi.borrow_mut() = Some(Pmi { socket, reader });
        }
        *streams.own.borrow_mut() = Some(own);
        Ok(streams)
    }

    /// Notes that the rank has ended, or that no events of it will arrive. The rank's streams end
    /// when no other process holds them.
    pub(super) fn rank_ended(&self) {
        self.own.borrow_mut().take();
    }

    /// The next output, read into `buffer`; `None` at the end.
    pub(super) async fn read(&self, stream: Stream, buffer: &RefCell<Vec<u8>>) -> Option<Bytes> {
        let slot = match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        };
        let pipe = slot.borrow().clone()?;
        let noted = self.remembered.as_ref();
        let spool = noted.and_then(|noted| Some((noted.ledger.spool()?, noted.rank)));
        loop {
            let read = match (pipe.readable().await, spool) {
                (Ok(()), Some((spool, rank))) => {
                    let limit = buffer.borrow().len();
                    let take = || spool.take((rank, stream), pipe.as_fd(), limit);
                    pipe.try_io(take).map(Bytes::from)
                }
                (Ok(()), None) => {
                    let read = pipe.try_read(&mut buffer.borrow_mut());
                    read.map(|len| Bytes::copy_from_slice(&buffer.borrow()[..len]))
                }
                (Err(error), _) => Err(error),
            };
            match read {
                Ok(data) if !data.is_empty() => return Some(data),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(_) | Err(_) => {
                    slot.borrow_mut().take();
                    return None;
                }
            }
        }
    }

    /// Hands over input, waiting for the rank to take it.
    pub(super) async fn write(&self, mut data: Bytes) {
        while !data.is_empty() {
            let Some(pipe) = self.stdin.borrow().clone() else { return };
            let written = match pipe.writable().await {
                Ok(()) => self.write_some(&pipe, &data),
                Err(error) => Err(error),
            };
            match written {
                Ok(len) => drop(data.split_to(len)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The rank does not read any more.
                Err(_) => return self.close_stdin(),
            }
        }
    }

    fn write_some(&self, pipe: &pipe::Sender, data: &[u8]) -> io::Result<usize> {
        let Some(noted) = &self.remembered else { return pipe.try_write(data) };
        noted.note(noted.ledger.will_write(noted.rank));
        let written = pipe.try_write(data);
        let len = *written.as_ref().unwrap_or(&0) as u64;
        noted.taken_bytes.set(noted.taken_bytes.get() + len);
        noted.note(noted.ledger.has_written(noted.rank, noted.taken_bytes.get()));
        written
    }

    pub(super) fn close_stdin(&self) {
        self.stdin.borrow_mut().take();
        if let Some(noted) = &self.remembered {
            noted.keeper.close_kept_input(noted.job, noted.pl);
        }
    }

    pub(super) fn close_pmi(&self) {
        if let Some(pmi) = self.pmi.borrow_mut().take() {
            // Other processes may hold this end too. If the rank has closed the connection, the
            // error is harmless.
            let _ = shutdown(pmi.socket.as_raw_fd(), Shutdown::Both);
        }
    }

    /// Whether a former node manager gave the answer that it was about to give; `None` if unknown.
    pub(super) fn was_answered(&self, request: &OpenRequest) -> Option<bool> {
        if !request.answering {
            return Some(false);
        }
        let socket = self.pmi.borrow().as_ref().map(|pmi| pmi.socket.clone())?;
        // The answer is still unread, or the rank has read it and sent another request.
        let unread = storm_pl::unread_by_peer(socket.as_fd()).is_ok_and(|bytes| bytes > 0);
        let asks = recv(socket.as_raw_fd(), &mut [0], MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT);
        (unread || asks.is_ok()).then_some(true)
    }

    /// Answers with the memory that the rank shares with the node manager.
    pub(super) fn hand_over(&self, segment: &NodeEnd) {
        let socket = self.pmi.borrow().as_ref().map(|pmi| pmi.socket.clone());
        let Some(socket) = socket else { return };
        let noted = self.remembered.as_ref();
        noted.inspect(|noted| noted.note(noted.ledger.will_answer(noted.rank)));
        let handed = hand_over(&*socket, segment);
        noted.inspect(|noted| noted.note(noted.ledger.has_answered(noted.rank)));
        if let Err(error) = handed {
            tracing::warn!(%error, "a rank does not get its shared memory: connection closed");
            self.close_pmi();
        }
    }

    /// Copies of the ends that are open, for the keeper.
    pub(super) fn copies(&self) -> io::Result<PlEnds> {
        let copy = |fd: BorrowedFd<'_>| fd.try_clone_to_owned();
        let output = |end: &RefCell<Option<Rc<pipe::Receiver>>>| {
            end.borrow().as_ref().map(|end| copy(end.as_fd())).transpose()
        };
        Ok(PlEnds {
            stdin: self.stdin.borrow().as_ref().map(|end| copy(end.as_fd())).transpose()?,
            stdout: output(&self.stdout)?,
            stderr: output(&self.stderr)?,
            pmi: self.pmi.borrow().as_ref().map(|pmi| copy(pmi.socket.as_fd())).transpose()?,
        })
    }

    /// Sends a PMI line. Requests and responses alternate, so there is room for it unless the rank
    /// breaks the protocol.
    pub(super) fn pmi_reply(&self, line: &str) {
        let socket = self.pmi.borrow().as_ref().map(|pmi| pmi.socket.clone());
        let Some(socket) = socket else { return };
        let message = format!("{line}\n");
        let noted = self.remembered.as_ref();
        noted.inspect(|noted| noted.note(noted.ledger.will_answer(noted.rank)));
        let sent = socket.try_write(message.as_bytes());
        noted.inspect(|noted| noted.note(noted.ledger.has_answered(noted.rank)));
        if !sent.is_ok_and(|len| len == message.len()) {
            tracing::warn!("a rank does not read its PMI responses: connection closed");
            self.close_pmi();
        }
    }
}

/// Reads lines until the rank closes the connection, or sends a line that is too long.
async fn read_pmi(
    socket: Rc<UnixStream>,
    (job, rank): (JobKey, Rank),
    events: mpsc::Sender<HostEvent>,
    noted: Option<Remembered>,
) {
    let mut pending = Vec::new();
    while socket.readable().await.is_ok() {
        let mut chunk = [0; PMI_READ_BYTES];
        let read = match &noted {
            None => socket.try_read(&mut chunk),
            Some(noted) => socket.try_io(Interest::READABLE, || {
                read_noted(&socket, noted, pending.len(), &mut chunk)
            }),
        };
        match read {
            Ok(len) if len > 0 => pending.extend_from_slice(&chunk[..len]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Ok(_) | Err(_) => return,
        }
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(&pending[..end]).into_owned();
            pending.drain(..=end);
            noted.iter().for_each(|noted| noted.note(noted.ledger.log_line(rank, &line)));
            if events.send(HostEvent::Pmi { job, rank, line }).await.is_err() {
                return;
            }
        }
        if pending.len() > MAX_LINE_BYTES {
            // No valid line is longer. A longer line is refused like any other invalid line.
            let line = String::from_utf8_lossy(&pending).into_owned();
            let _ = events.send(HostEvent::Pmi { job, rank, line }).await;
            return;
        }
    }
}

/// Reads the bytes in the socket, and writes them down before they leave it.
fn read_noted(
    socket: &impl AsRawFd,
    noted: &Remembered,
    before: usize,
    chunk: &mut [u8],
) -> io::Result<usize> {
    let flags = MsgFlags::MSG_DONTWAIT;
    let len = recv(socket.as_raw_fd(), chunk, flags | MsgFlags::MSG_PEEK)?;
    if len > 0 {
        noted.note(noted.ledger.will_read(noted.rank, before, &chunk[..len]));
        recv(socket.as_raw_fd(), &mut chunk[..len], flags)?;
        noted.note(noted.ledger.has_read(noted.rank));
    }
    Ok(len)
}

/// The whole lines in the PMI socket of a rank that has ended. The rank, or the PMIx server for it,
/// sent them before its end.
pub(super) fn last_lines(ends: &PlEnds, noted: &Remembered) -> Vec<String> {
    let Some(pmi) = &ends.pmi else { return Vec::new() };
    let (mut pending, mut chunk) = (Vec::new(), [0; PMI_READ_BYTES]);
    while let Ok(len) = read_noted(pmi, noted, pending.len(), &mut chunk)
        && len > 0
    {
        pending.extend_from_slice(&chunk[..len]);
    }
    let whole = pending.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
    let lines = String::from_utf8_lossy(&pending[..whole]).into_owned();
    let lines: Vec<String> = lines.lines().map(str::to_owned).collect();
    lines.iter().for_each(|line| noted.note(noted.ledger.log_line(noted.rank, line)));
    lines
}

/// Takes out of the socket the bytes that a former node manager was about to read, if they are
/// still there. Those bytes are in the ledger.
pub(super) fn skip_unread(ends: &PlEnds, bytes: usize) {
    if let Some(pmi) = &ends.pmi {
        let mut unread = vec![0; bytes];
        let _ = recv(pmi.as_raw_fd(), &mut unread, MsgFlags::MSG_DONTWAIT);
    }
}
