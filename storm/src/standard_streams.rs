//! The standard streams of this process, which another process may have made non-blocking.
//!
//! A file description is shared by all processes that have it open. A program at the other end of a
//! pipe or terminal may set O_NONBLOCK for this process too. EAGAIN is then no failure; the streams
//! wait.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, Read, stderr, stdin, stdout};
use std::os::fd::{AsFd, BorrowedFd};

/// Standard input, unbuffered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StandardInput;

impl Read for StandardInput {
    /// A descriptor that is closed or open for writing only, as nohup(1) leaves it, reads as
    /// `/dev/null`.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let input = stdin();
        loop {
            match nix::unistd::read(&input, buffer) {
                Ok(length) => return Ok(length),
                Err(Errno::EBADF) => return Ok(0),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => wait(input.as_fd(), PollFlags::POLLIN)?,
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The stream for results, and the stream for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StandardOutput {
    Stdout,
    Stderr,
}

impl StandardOutput {
    /// Writes all of it.
    ///
    /// # Errors
    /// The system call failed; a part may be written.
    pub(crate) fn write_whole(self, data: &[u8]) -> io::Result<()> {
        match self {
            StandardOutput::Stdout => write_whole(stdout().as_fd(), data),
            StandardOutput::Stderr => write_whole(stderr().as_fd(), data),
        }
    }
}

fn write_whole(to: BorrowedFd<'_>, mut data: &[u8]) -> io::Result<()> {
    while !data.is_empty() {
        match nix::unistd::write(to, data) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(length) => data = &data[length..],
            Err(Errno::EINTR) => {}
            // A closed stream discards its output, as in the standard library.
            Err(Errno::EBADF) => return Ok(()),
            Err(Errno::EAGAIN) => wait(to, PollFlags::POLLOUT)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Waits until the descriptor is ready or has an error.
fn wait(on: BorrowedFd<'_>, what: PollFlags) -> io::Result<()> {
    match poll(&mut [PollFd::new(on, what)], PollTimeout::NONE) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    use std::thread;

    #[test]
    fn a_pipe_that_does_not_block_gets_all_of_it() {
        let (mut read, write) = io::pipe().expect("a pipe");
        fcntl(&write, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).expect("a pipe may");
        let data: Vec<u8> = (0..1_u32 << 20).map(|index| (index % 251) as u8).collect();
        let expected = data.clone();
        let writer = thread::spawn(move || write_whole(write.as_fd(), &data));
        let mut came = Vec::new();
        read.read_to_end(&mut came).expect("it reads");
        writer.join().expect("it ends").expect("written");
        assert!(came == expected, "{} bytes", came.len());
    }

    #[test]
    fn a_reader_that_has_left_is_told_of() {
        let (read, write) = io::pipe().expect("a pipe");
        drop(read);
        let error = write_whole(write.as_fd(), b"x").expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
