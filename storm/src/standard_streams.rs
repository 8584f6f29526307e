//! The standard streams of this process, also where somebody has made them non-blocking.
//!
//! A file description is shared with whoever else has it open: a program on the other end of a
//! pipe or terminal may set O_NONBLOCK for us. EAGAIN is then no failure, so these wait instead.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, Read, stderr, stdin, stdout};
use std::os::fd::{AsFd, BorrowedFd};

/// Standard input, unbuffered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StandardInput;

impl Read for StandardInput {
    /// One that is closed or open for writing alone, as nohup(1) leaves it, has nothing to read:
    /// it counts as `/dev/null`.
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

/// Where results and messages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StandardOutput {
    Stdout,
    Stderr,
}

impl StandardOutput {
    /// Writes all of it.
    ///
    /// # Errors
    /// The system call failed; some of it may be written.
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
            // As the standard library has it: closed, nobody wants what goes there.
            Err(Errno::EBADF) => return Ok(()),
            Err(Errno::EAGAIN) => wait(to, PollFlags::POLLOUT)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Waits until there is something to be had, or to be said about the descriptor.
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
