//! The NM's end of the process that writes a job's shared files.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use super::message::{
    FileFailure, FileStep, FilesEnd, LAST, MESSAGE_BYTES_MAX, STREAMS_MAX, SharedFilesSpec,
};
use crate::ids::Errno;
use crate::node::KeeperHandle;
use crate::seqpacket::{Seqpacket, Wait};

/// The shared files of one job on this node. Ranks write into their pipes from their start on. The
/// keeper starts the reading process after all launches, so that no launch waits for it.
#[derive(Debug)]
pub struct SharedFiles {
    socket: Seqpacket,
    /// The writer's end, until the process is started.
    other: RefCell<Option<Seqpacket>>,
    /// Streams that the writer has not been sent, with the numbers of their files.
    unsent: RefCell<Vec<(u8, OwnedFd)>>,
    /// There are streams.
    is_used: Cell<bool>,
    /// The reason why the writer cannot be sent all streams.
    failure: Cell<Option<FileFailure>>,
}

impl SharedFiles {
    /// Makes the socket of a job that is about to be launched.
    ///
    /// # Errors
    /// The kernel's.
    pub fn make() -> io::Result<Self> {
        let (socket, other) = Seqpacket::pair()?;
        Ok(Self { other: RefCell::new(Some(other)), ..Self::of(socket) })
    }

    /// Takes over the files of a former NM's job, with that NM's end of the socket.
    #[must_use]
    pub fn take_over(socket: OwnedFd) -> Self {
        Self { is_used: Cell::new(true), ..Self::of(socket.into()) }
    }

    fn of(socket: Seqpacket) -> Self {
        Self {
            socket,
            other: RefCell::default(),
            unsent: RefCell::default(),
            is_used: Cell::default(),
            failure: Cell::default(),
        }
    }

    /// Adds a stream whose lines go to the file number `file` of [`SharedFilesSpec::files`].
    pub fn add(&self, file: u8, stream: OwnedFd) {
        self.is_used.set(true);
        self.unsent.borrow_mut().push((file, stream));
        if self.unsent.borrow().len() == STREAMS_MAX {
            self.send(false);
        }
    }

    /// Makes the keeper start the writer after all launches, if there are streams to write.
    pub fn begin(&self, keeper: &KeeperHandle, spec: &SharedFilesSpec) {
        let Some(other) = self.other.take().filter(|_| self.is_used.get()) else { return };
        self.send(true);
        if let Err(error) = keeper.write_files(spec, other.as_fd()) {
            self.note_failure(FileStep::Start, &error);
        }
    }

    /// Reads how the output ended. The message stays in the socket, where the next NM finds it.
    ///
    /// # Errors
    /// `WouldBlock` before the end. The descriptor becomes readable at the end.
    pub fn end(&self) -> io::Result<FilesEnd> {
        if let Some(failure) = self.failure.get() {
            return Ok(FilesEnd::Failed(failure));
        }
        if !self.is_used.get() {
            return Ok(FilesEnd::Written);
        }
        let killed = FileFailure { step: FileStep::Killed, file: 0, errno: Errno(0) };
        let mut buffer = [0; MESSAGE_BYTES_MAX];
        match self.socket.peek(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(error),
            Ok(len) if len > 0 => {
                let end = postcard::from_bytes(&buffer[..len]);
                Ok(end.unwrap_or(FilesEnd::Failed(killed)))
            }
            Ok(_) | Err(_) => Ok(FilesEnd::Failed(killed)),
        }
    }

    fn send(&self, is_last: bool) {
        let streams = self.unsent.take();
        let numbers = streams.iter().map(|(file, _)| *file).chain(is_last.then_some(LAST));
        let numbers: Vec<u8> = numbers.collect();
        let descriptors: Vec<_> = streams.iter().map(|(_, stream)| stream.as_fd()).collect();
        if let Err(error) = self.socket.send_soon(&[IoSlice::new(&numbers)], &descriptors) {
            self.note_failure(FileStep::Streams, &error);
        }
    }

    fn note_failure(&self, step: FileStep, error: &io::Error) {
        self.failure.set(Some(FileFailure { step, file: 0, errno: Errno::of(error) }));
    }
}

impl AsFd for SharedFiles {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for SharedFiles {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_fd().as_raw_fd()
    }
}

/// Reports the end. If the reader is gone, the report is not needed.
pub(crate) fn say_end(socket: &Seqpacket, end: FilesEnd) {
    let bytes = postcard::to_stdvec(&end).unwrap_or_default();
    let _ = socket.send(&[IoSlice::new(&bytes)], &[], Wait::Block);
}
