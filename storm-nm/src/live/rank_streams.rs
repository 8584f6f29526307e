//! The node's ends of a rank's pipes and of its PMI connection.

use crate::{HostEvent, JobKey};
use bytes::Bytes;
use std::cell::RefCell;
use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::rc::Rc;
use storm_mpi::pmi::wire::MAX_LINE_BYTES;
use storm_mpi::segment::{NodeEnd, hand_over};
use storm_pl::{OwnEnds, PlEnds};
use storm_rm::Rank;
use storm_rm::message::Stream;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, spawn_local};

/// Bytes asked of a PMI connection at once.
const PMI_READ_BYTES: usize = 1024;

/// The streams of one rank; a stream that has ended is `None`.
#[derive(Debug, Default)]
pub(super) struct RankStreams {
    stdin: RefCell<Option<Rc<pipe::Sender>>>,
    stdout: RefCell<Option<Rc<pipe::Receiver>>>,
    stderr: RefCell<Option<Rc<pipe::Receiver>>>,
    pmi: RefCell<Option<Pmi>>,
    /// Until the rank has ended, so that its streams do not end one by one before.
    own: RefCell<Option<OwnEnds>>,
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
    /// The event loop has no room for another (`ENOSPC`, `ENOMEM`). All ends are closed then.
    pub(super) fn open(
        (ends, own): (PlEnds, OwnEnds),
        (job, rank): (JobKey, Rank),
        events: &mpsc::Sender<HostEvent>,
    ) -> io::Result<RankStreams> {
        let PlEnds { stdin, stdout, stderr, pmi } = ends;
        // What kind of pipes they are, and that none of the ends blocks, is known: to ask takes two calls each.
        let receiver = |end| pipe::Receiver::from_owned_fd_unchecked(end).map(Rc::new);
        let streams = RankStreams::default();
        let stdin = stdin.map(pipe::Sender::from_owned_fd_unchecked).transpose()?;
        *streams.stdin.borrow_mut() = stdin.map(Rc::new);
        *streams.stdout.borrow_mut() = stdout.map(receiver).transpose()?;
        *streams.stderr.borrow_mut() = stderr.map(receiver).transpose()?;
        if let Some(pmi) = pmi {
            let socket = Rc::new(UnixStream::from_std(StdUnixStream::from(pmi))?);
            let reading = read_pmi(socket.clone(), (job, rank), events.clone());
            let reader = spawn_local(reading).abort_handle();
            *streams.pmi.borrow_mut() = Some(Pmi { socket, reader });
        }
        *streams.own.borrow_mut() = Some(own);
        Ok(streams)
    }

    /// The rank has ended, or will not be heard of: its streams end as soon as nobody else has them.
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
        loop {
            let read = match pipe.readable().await {
                Ok(()) => pipe.try_read(&mut buffer.borrow_mut()),
                Err(error) => Err(error),
            };
            match read {
                Ok(len) if len > 0 => {
                    return Some(Bytes::copy_from_slice(&buffer.borrow()[..len]));
                }
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
                Ok(()) => pipe.try_write(&data),
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

    pub(super) fn close_stdin(&self) {
        self.stdin.borrow_mut().take();
    }

    pub(super) fn close_pmi(&self) {
        self.pmi.borrow_mut().take();
    }

    /// Answers with the memory that the rank shares with the node manager.
    pub(super) fn hand_over(&self, segment: &NodeEnd) {
        let socket = self.pmi.borrow().as_ref().map(|pmi| pmi.socket.clone());
        let Some(socket) = socket else { return };
        if let Err(error) = hand_over(&*socket, segment) {
            tracing::warn!(%error, "a rank does not get its shared memory: connection closed");
            self.close_pmi();
        }
    }

    /// Sends a PMI line. Requests and responses alternate, so that there is room
    /// for it unless the rank breaks the protocol.
    pub(super) fn pmi_reply(&self, line: &str) {
        let socket = self.pmi.borrow().as_ref().map(|pmi| pmi.socket.clone());
        let Some(socket) = socket else { return };
        let message = format!("{line}\n");
        if !socket.try_write(message.as_bytes()).is_ok_and(|len| len == message.len()) {
            tracing::warn!("a rank does not read its PMI responses: connection closed");
            self.close_pmi();
        }
    }
}

/// Reads lines until the rank closes the connection; one too long is the last.
async fn read_pmi(
    socket: Rc<UnixStream>,
    (job, rank): (JobKey, Rank),
    events: mpsc::Sender<HostEvent>,
) {
    let mut pending = Vec::new();
    while socket.readable().await.is_ok() {
        let mut chunk = [0; PMI_READ_BYTES];
        match socket.try_read(&mut chunk) {
            Ok(len) if len > 0 => pending.extend_from_slice(&chunk[..len]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Ok(_) | Err(_) => return,
        }
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(&pending[..end]).into_owned();
            pending.drain(..=end);
            if events.send(HostEvent::Pmi { job, rank, line }).await.is_err() {
                return;
            }
        }
        if pending.len() > MAX_LINE_BYTES {
            // No longer one can be right: it is refused like any other that is wrong.
            let line = String::from_utf8_lossy(&pending).into_owned();
            let _ = events.send(HostEvent::Pmi { job, rank, line }).await;
            return;
        }
    }
}
