//! The client side of PMI-1: a blocking client over the inherited descriptor `PMI_FD`.
//!
//! Each request has one response. The only exception is [`PmiClient::barrier_in`] with
//! [`PmiClient::try_barrier_out`], with which a process can serve its peers while it waits.

use super::wire::{MAX_LINE_BYTES, Request, Response, WireError};
use crate::rank::Rank;
use crate::segment::{SEGMENT_REQUEST, ask_for_segment};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use std::env;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thiserror::Error;

/// The reason why the conversation with the process manager failed.
#[derive(Debug, Error)]
pub enum PmiError {
    /// An environment variable of PMI is absent or not a number.
    #[error("{variable} is not set to a number; was the process started by a process manager?")]
    Environment {
        /// The variable.
        variable: &'static str,
    },
    /// The process has joined its job already.
    #[error("the process has joined its job already; it can do so once")]
    JoinedAlready,
    /// The descriptor failed.
    #[error("process manager connection failed")]
    Io(#[from] io::Error),
    /// The process manager closed the connection.
    #[error("process manager closed the connection")]
    Closed,
    /// The answer is not PMI-1.
    #[error("process manager sent an unusable line")]
    Wire(#[from] WireError),
    /// The process manager answered, but not to the question.
    #[error("process manager sent an unexpected answer to {request}")]
    Unexpected {
        /// The request.
        request: &'static str,
    },
    /// The process manager refused.
    #[error("process manager refused {request}: {msg}")]
    Refused {
        /// The request.
        request: &'static str,
        /// The process manager's reason.
        msg: String,
    },
}

/// Whether [`PmiClient::from_env`] has taken the descriptor.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// A process's connection to its Node Manager.
#[derive(Debug)]
pub struct PmiClient {
    stream: UnixStream,
    /// Received bytes that are not yet a whole line.
    buffer: Vec<u8>,
    rank: Rank,
    size: u32,
    kvsname: String,
}

impl PmiClient {
    /// Connects to the descriptor that the environment names, and sends `init`. Returns `None` if
    /// there is no `PMI_FD`, which means that no process manager started this process.
    ///
    /// The client owns the descriptor from then on.
    ///
    /// # Errors
    /// [`PmiError::JoinedAlready`] the second time; others when the environment or the conversation
    /// is not PMI-1.
    pub fn from_env() -> Result<Option<Self>, PmiError> {
        if env::var_os("PMI_FD").is_none() {
            return Ok(None);
        }
        let fd: RawFd = env_number("PMI_FD")?;
        let rank = Rank(env_number("PMI_RANK")?);
        let size = env_number("PMI_SIZE")?;
        if TAKEN.swap(true, Ordering::Relaxed) {
            return Err(PmiError::JoinedAlready);
        }
        // SAFETY: the descriptor is taken once. PMI_FD names a descriptor that was opened for this
        // process and that nothing else in it uses. The first system call below checks whether it
        // is open at all.
        let stream = unsafe { UnixStream::from_raw_fd(fd) };
        fcntl(&stream, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).map_err(io::Error::from)?;
        Self::start(stream, rank, size).map(Some)
    }

    /// Sends `init` on an open connection and asks for the key-value space.
    ///
    /// # Errors
    /// [`PmiError`] when the conversation is not PMI-1.
    pub fn start(stream: UnixStream, rank: Rank, size: u32) -> Result<Self, PmiError> {
        let mut client =
            PmiClient { stream, buffer: Vec::new(), rank, size, kvsname: String::new() };
        match client.ask(&Request::Init { version: 1, subversion: 1 })? {
            Response::ResponseToInit { rc: 0, .. } => {}
            Response::ResponseToInit { rc, .. } => {
                return Err(PmiError::Refused { request: "init", msg: format!("rc={rc}") });
            }
            _ => return Err(PmiError::Unexpected { request: "init" }),
        }
        match client.ask(&Request::GetMyKvsname)? {
            Response::MyKvsname { kvsname } => client.kvsname = kvsname,
            _ => return Err(PmiError::Unexpected { request: "get_my_kvsname" }),
        }
        Ok(client)
    }

    /// This process's rank.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Ranks in the job.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Publishes a value; the other ranks see it after the next barrier.
    ///
    /// # Errors
    /// [`PmiError`]; [`PmiError::Refused`] when the server will not store it.
    pub fn put(&mut self, key: &str, value: &str) -> Result<(), PmiError> {
        let request = Request::Put {
            kvsname: self.kvsname.clone(),
            key: key.to_owned(),
            value: value.to_owned(),
        };
        match self.ask(&request)? {
            Response::PutResult { rc: 0, .. } => Ok(()),
            Response::PutResult { msg, .. } => Err(PmiError::Refused { request: "put", msg }),
            _ => Err(PmiError::Unexpected { request: "put" }),
        }
    }

    /// The value of a key; `None` if no rank put it before the last barrier.
    ///
    /// # Errors
    /// [`PmiError`] when the conversation fails.
    pub fn get(&mut self, key: &str) -> Result<Option<String>, PmiError> {
        match self.ask(&Request::Get { kvsname: self.kvsname.clone(), key: key.to_owned() })? {
            Response::GetResult { rc: 0, value, .. } => Ok(Some(value)),
            Response::GetResult { .. } => Ok(None),
            _ => Err(PmiError::Unexpected { request: "get" }),
        }
    }

    /// Waits until every rank of the job is in the barrier.
    ///
    /// # Errors
    /// [`PmiError`] when the conversation fails.
    pub fn barrier(&mut self) -> Result<(), PmiError> {
        self.barrier_in()?;
        match self.read_response()? {
            Response::BarrierOut => Ok(()),
            _ => Err(PmiError::Unexpected { request: "barrier_in" }),
        }
    }

    /// Enters the barrier without waiting; [`PmiClient::try_barrier_out`] tells when it is over.
    ///
    /// # Errors
    /// [`PmiError::Io`].
    pub fn barrier_in(&mut self) -> Result<(), PmiError> {
        self.write(&Request::BarrierIn)
    }

    /// Whether the barrier entered before is over. Does not wait.
    ///
    /// # Errors
    /// [`PmiError`] when the conversation fails.
    pub fn try_barrier_out(&mut self) -> Result<bool, PmiError> {
        self.stream.set_nonblocking(true)?;
        let line = self.read_line();
        self.stream.set_nonblocking(false)?;
        match line {
            Ok(line) => match Response::parse_bytes(&line)? {
                Response::BarrierOut => Ok(true),
                _ => Err(PmiError::Unexpected { request: "barrier_in" }),
            },
            Err(PmiError::Io(e)) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Reports that this process ends well.
    ///
    /// # Errors
    /// [`PmiError`] when the conversation fails.
    pub fn finalize(&mut self) -> Result<(), PmiError> {
        self.write(&Request::Finalize)?;
        self.finish_finalize()
    }

    /// Reports that this process ends well, and waits for the answer for at most `time`. Returns
    /// whether it came; if not, [`PmiClient::finish_finalize`] reads it later.
    ///
    /// # Errors
    /// [`PmiError`] when the conversation fails.
    pub fn finalize_within(&mut self, time: Duration) -> Result<bool, PmiError> {
        self.write(&Request::Finalize)?;
        self.stream.set_read_timeout(Some(time))?;
        let answered = self.finish_finalize();
        self.stream.set_read_timeout(None)?;
        match answered {
            Ok(()) => Ok(true),
            Err(PmiError::Io(e)) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Waits for the answer of a [`PmiClient::finalize_within`] that had none.
    ///
    /// # Errors
    /// [`PmiError`] when the conversation fails.
    pub fn finish_finalize(&mut self) -> Result<(), PmiError> {
        match self.read_response()? {
            Response::FinalizeAck => Ok(()),
            _ => Err(PmiError::Unexpected { request: "finalize" }),
        }
    }

    /// The connection, after [`PmiClient::finalize`]. Another program of this rank may join on it.
    pub fn into_stream(self) -> UnixStream {
        self.stream
    }

    /// Requests the end of the whole job. There is no answer: the caller exits next.
    ///
    /// # Errors
    /// [`PmiError::Io`] when the process manager is gone already.
    pub fn abort(&mut self, exit_code: i32) -> Result<(), PmiError> {
        self.write(&Request::Abort { exit_code })
    }

    /// Asks for the memory that this rank shares with its node.
    ///
    /// # Errors
    /// [`PmiError`]. A node without such memory gives another answer.
    pub(crate) fn segment(&mut self) -> Result<[OwnedFd; 2], PmiError> {
        self.stream.write_all(format!("{SEGMENT_REQUEST}\n").as_bytes())?;
        ask_for_segment(&self.stream)
    }

    fn ask(&mut self, request: &Request) -> Result<Response, PmiError> {
        self.write(request)?;
        self.read_response()
    }

    fn write(&mut self, request: &Request) -> Result<(), PmiError> {
        Ok(self.stream.write_all(format!("{request}\n").as_bytes())?)
    }

    fn read_response(&mut self) -> Result<Response, PmiError> {
        let line = self.read_line()?;
        Ok(Response::parse_bytes(&line)?)
    }

    fn read_line(&mut self) -> Result<Vec<u8>, PmiError> {
        let mut chunk = [0; MAX_LINE_BYTES];
        loop {
            if let Some(end) = self.buffer.iter().position(|&b| b == b'\n') {
                let mut line: Vec<u8> = self.buffer.drain(..=end).collect();
                line.pop();
                return Ok(line);
            }
            if self.buffer.len() > MAX_LINE_BYTES {
                return Err(WireError::LineTooLong { bytes: self.buffer.len() }.into());
            }
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(PmiError::Closed),
                Ok(n) => self.buffer.extend_from_slice(&chunk[..n]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

impl AsFd for PmiClient {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn env_number<T: std::str::FromStr>(variable: &'static str) -> Result<T, PmiError> {
    let text = env::var(variable).map_err(|_| PmiError::Environment { variable })?;
    text.trim().parse().map_err(|_| PmiError::Environment { variable })
}
