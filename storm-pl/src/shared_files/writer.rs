//! The process that writes a job's shared files: it reads the pipes of the ranks and appends whole
//! lines.
//!
//! The writer blocks whenever nothing happens, and while the disk blocks. Ranks then wait in their
//! pipes. The writer ends when every stream has ended, or when a file cannot be written.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::sys::stat::{Mode, umask};
use nix::unistd::read;

use super::handle::say_end;
use super::line::{LINE_BYTES_MAX, Line};
use super::message::{
    FileFailure, FileStep, FilesEnd, MESSAGE_BYTES_MAX, SharedFilesSpec, name_streams,
};
use crate::credentials::become_user;
use crate::ids::Errno;
use crate::seqpacket::{Seqpacket, Wait};

/// Bytes read from a stream at once, which is the size of a pipe.
const READ_BYTES: usize = 64 << 10;
/// Lines of all ranks are written together, up to this many bytes.
const WRITE_BYTES: usize = 1 << 20;
/// Permissions of a new file before the mask.
const FILE_MODE: u32 = 0o666;

/// Serves the streams that arrive on `socket`, until they end. Runs in a child that ends
/// afterwards, because it changes its user.
pub(crate) fn run_writer(spec: &SharedFilesSpec, socket: Seqpacket) {
    let mut writer = Writer::new(spec, socket);
    let done = prepare(spec).and_then(|()| writer.serve());
    match done {
        Ok(()) => say_end(&writer.socket, FilesEnd::Written),
        Err(failure) => {
            say_end(&writer.socket, FilesEnd::Failed(failure));
            // A closed pipe would end a rank by SIGPIPE, and SIGPIPE would become the reason for
            // the job's end. Instead, the NM ends the job, and all streams end with it.
            writer.outlive_streams();
        }
    }
}

fn prepare(spec: &SharedFilesSpec) -> Result<(), FileFailure> {
    if let Some(limit) = &spec.file_size {
        // If the daemon may not set the limit, the daemon's own limit applies to the files.
        let _ = setrlimit(Resource::RLIMIT_FSIZE, limit.soft, limit.hard);
    }
    // SAFETY: ignoring a signal runs no handler. A write beyond the limit fails instead.
    let _ = unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) };
    become_user(&spec.credentials).map_err(at(FileStep::User, 0))?;
    umask(Mode::from_bits_truncate(spec.umask));
    Ok(())
}

fn at(step: FileStep, file: usize) -> impl Fn(io::Error) -> FileFailure {
    move |error| FileFailure {
        step,
        file: u8::try_from(file).unwrap_or(u8::MAX),
        errno: Errno::of(&error),
    }
}

struct Writer {
    socket: Seqpacket,
    /// No more streams follow.
    has_all: bool,
    streams: Vec<Stream>,
    files: Vec<Target>,
    buffer: Vec<u8>,
}

struct Stream {
    pipe: OwnedFd,
    file: usize,
    line: Line,
}

struct Target {
    path: PathBuf,
    /// Opened at the first output, since it is not needed if the output is no regular file.
    file: Option<File>,
    /// Whole lines that have not been written.
    out: Vec<u8>,
}

impl Writer {
    fn new(spec: &SharedFilesSpec, socket: Seqpacket) -> Self {
        let target = |path: &PathBuf| Target { path: path.clone(), file: None, out: Vec::new() };
        Self {
            socket,
            has_all: false,
            streams: Vec::new(),
            files: spec.files.iter().map(target).collect(),
            buffer: vec![0; READ_BYTES],
        }
    }

    fn serve(&mut self) -> Result<(), FileFailure> {
        while !self.has_all || !self.streams.is_empty() {
            let due = self.streams.iter().filter_map(|stream| stream.line.due()).min();
            let (told, ready) = self.wait(PollFlags::POLLIN, due);
            if told {
                self.take_streams()?;
            }
            self.read(&ready)?;
            self.write()?;
        }
        let mut files = self.files.iter_mut().enumerate();
        files.try_for_each(|(number, target)| target.close().map_err(at(FileStep::Write, number)))
    }

    /// Waits for data of streams, a message, or the time `until`. Returns whether there is a
    /// message, and which of the streams are ready.
    fn wait(&self, wanted: PollFlags, until: Option<Instant>) -> (bool, Vec<bool>) {
        let timeout = until.map_or(PollTimeout::NONE, |until| {
            let left = until.saturating_duration_since(Instant::now());
            // Rounded up, so that the writer does not wake too early.
            PollTimeout::try_from(left.as_millis() + 1).unwrap_or(PollTimeout::MAX)
        });
        let of_socket = if self.has_all { PollFlags::empty() } else { PollFlags::POLLIN };
        let mut sources = vec![PollFd::new(self.socket.as_fd(), of_socket)];
        sources.extend(self.streams.iter().map(|stream| PollFd::new(stream.pipe.as_fd(), wanted)));
        if self.has_all {
            // If the other end is gone, poll would report it again and again.
            sources.remove(0);
        }
        // After an interruption nothing counts as ready.
        if poll(&mut sources, timeout).is_err() {
            return (false, vec![false; self.streams.len()]);
        }
        let mut ready = sources.iter().map(|source| source.any().unwrap_or(false));
        let told = !self.has_all && ready.next().unwrap_or(false);
        (told, ready.collect())
    }

    /// Takes over streams of ranks. If the other end is gone, no more follow.
    fn take_streams(&mut self) -> Result<(), FileFailure> {
        let mut message = [0; MESSAGE_BYTES_MAX];
        let received = match self.socket.receive_many(&mut message, Wait::No) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(at(FileStep::Streams, 0)(error)),
            Ok(received) => received,
        };
        if received.len == 0 {
            self.has_all = true;
            return Ok(());
        }
        let refused = |errno| at(FileStep::Streams, 0)(io::Error::from_raw_os_error(errno));
        if received.cut {
            return Err(refused(libc::EMFILE));
        }
        let named = name_streams(&message[..received.len], received.descriptors, self.files.len());
        let (streams, is_last) = named.ok_or_else(|| refused(libc::EBADMSG))?;
        let now = Instant::now();
        let streams = streams.into_iter();
        self.streams.extend(streams.map(|(file, pipe)| Stream {
            pipe,
            file,
            line: Line::new(now),
        }));
        self.has_all = is_last;
        Ok(())
    }

    /// Reads once from each ready stream, and passes on lines that are due.
    fn read(&mut self, ready: &[bool]) -> Result<(), FileFailure> {
        let now = Instant::now();
        let mut ended = Vec::new();
        for (number, stream) in self.streams.iter_mut().enumerate() {
            let target = &mut self.files[stream.file];
            if ready.get(number) == Some(&true) {
                match read(&stream.pipe, &mut self.buffer) {
                    Ok(len) if len > 0 => {
                        stream.line.take(&self.buffer[..len], now, &mut target.out);
                    }
                    Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => {}
                    // The end of the stream. A pipe has no other errors.
                    Ok(_) | Err(_) => {
                        stream.line.flush(&mut target.out);
                        ended.push(number);
                    }
                }
            }
            if stream.line.due().is_some_and(|due| due <= now) {
                stream.line.flush(&mut target.out);
            }
            if target.out.len() >= WRITE_BYTES {
                target.write().map_err(|(step, error)| at(step, stream.file)(error))?;
            }
        }
        for number in ended.into_iter().rev() {
            self.streams.swap_remove(number);
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), FileFailure> {
        let mut files = self.files.iter_mut().enumerate();
        files.try_for_each(|(number, target)| {
            target.write().map_err(|(step, error)| at(step, number)(error))
        })
    }

    /// Holds the streams without reading them, until every rank is gone.
    fn outlive_streams(&mut self) {
        while !self.has_all || !self.streams.is_empty() {
            let (told, gone) = self.wait(PollFlags::empty(), None);
            if told && self.take_streams().is_err() {
                self.has_all = true;
            }
            let mut gone = gone.into_iter();
            self.streams.retain(|_| !gone.next().unwrap_or(false));
        }
    }
}

impl Target {
    /// Appends the whole lines in one call, so that lines of other writers stay whole too.
    fn write(&mut self) -> Result<(), (FileStep, io::Error)> {
        if self.out.is_empty() {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(open(&self.path).map_err(|error| (FileStep::Open, error))?),
        };
        file.write_all(&self.out).map_err(|error| (FileStep::Write, error))?;
        self.out.clear();
        self.out.shrink_to(2 * LINE_BYTES_MAX);
        Ok(())
    }

    /// Closes the file. Some file systems report only now that they have no room.
    fn close(&mut self) -> io::Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        // SAFETY: the descriptor was just taken out of its owner.
        match unsafe { libc::close(file.into_raw_fd()) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

/// Opens the file as ranks do. Another job does not empty the file while this job has it open.
fn open(path: &PathBuf) -> io::Result<File> {
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(FILE_MODE)
        // If a pipe has taken the place of the file, it is refused, and the call does not wait.
        .custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK)
        .open(path)?;
    // SAFETY: flock takes an open descriptor and an integer. The file is used even without a lock.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_SH | libc::LOCK_NB) };
    Ok(file)
}
