//! Reading a long message in the memory of its sender, a neighbour, so that it is copied once
//! (`process_vm_readv`, process_vm_readv(2)).
//!
//! The kernel lets a process read another if it may trace it: the same user, and the rules in
//! [`super::tracer`]. The first message of each neighbour shows whether reading works; if not,
//! messages use the rings. Bytes that were read count only if the neighbour's [mark] was read too,
//! at the address on its card. A peer that gives a false address does no harm: the bytes come from
//! its own memory and are written to a buffer whose length this rank knows.
//!
//! [mark]: super::mark

use super::directory::Card;
use super::mark::{MARK_BYTES, MarkCard, mark_bytes};
use crate::error::InitError;
use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use std::io::{self, IoSliceMut};

/// `on`, the default, or `off`: this rank reads no other rank's memory, and offers none.
const VARIABLE: &str = "STORM_MPI_ONE_COPY";
/// Bytes per call. A process cannot be stopped within a call, so the call must be short: it takes
/// some hundred microseconds.
const BYTES_AT_ONCE: usize = 1 << 20;

/// Whether the environment allows reading in place.
pub(super) fn is_wanted() -> Result<bool, InitError> {
    match std::env::var(VARIABLE) {
        Err(_) => Ok(true),
        Ok(value) => match value.trim() {
            "" | "on" => Ok(true),
            "off" => Ok(false),
            _ => Err(InitError::Setting { variable: VARIABLE, value }),
        },
    }
}

/// A neighbour's memory.
#[derive(Debug)]
pub(super) struct Readable {
    pid: Pid,
    mark: MarkCard,
    access: Access,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Untried,
    Granted,
    Refused,
}

/// The outcome of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Read,
    /// The memory is not mapped, or not all of it.
    NotMapped,
    /// The memory does not belong to that rank, or is no longer lent.
    NoMark,
    Failed(Errno),
}

impl Readable {
    pub(super) fn of(card: &Card) -> Self {
        let access = if card.mark == 0 { Access::Refused } else { Access::Untried };
        let pid = i32::try_from(card.pid).map_or(Pid::from_raw(0), Pid::from_raw);
        let mark = MarkCard { address: card.mark, bytes: mark_bytes(card.bell) };
        Readable { pid, mark, access }
    }

    /// Fills `into` from the address `from` on. False means that the memory cannot be read, now or
    /// ever; the contents of `into` are then undefined.
    ///
    /// # Errors
    /// The neighbour is gone, or has left.
    pub(super) fn read(&mut self, from: u64, into: &mut [u8]) -> io::Result<bool> {
        if self.access == Access::Refused {
            return Ok(false);
        }
        let mut at = from;
        for piece in into.chunks_mut(BYTES_AT_ONCE) {
            let bytes = piece.len() as u64;
            match self.read_piece(at, piece) {
                Outcome::Read => self.access = Access::Granted,
                // The owner may touch the memory itself, and then gets the same signal as without
                // this read.
                Outcome::NotMapped => return Ok(false),
                // Under Yama, a rank that leaves first withdraws the right to read.
                Outcome::NoMark | Outcome::Failed(Errno::EPERM)
                    if self.access == Access::Granted =>
                {
                    return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "it has left"));
                }
                Outcome::Failed(Errno::ESRCH) => return Err(Errno::ESRCH.into()),
                Outcome::NoMark | Outcome::Failed(_) => {
                    self.access = Access::Refused;
                    return Ok(false);
                }
            }
            at = at.wrapping_add(bytes);
        }
        Ok(true)
    }

    fn read_piece(&self, from: u64, piece: &mut [u8]) -> Outcome {
        let (bytes, mut mark) = (piece.len(), [0; MARK_BYTES]);
        let remote = [(from, bytes), (self.mark.address, MARK_BYTES)]
            .map(|(base, len)| RemoteIoVec { base: base as usize, len });
        let mut local = [IoSliceMut::new(piece), IoSliceMut::new(&mut mark)];
        // The kernel searches for the process once, and copies in the order of the request.
        match process_vm_readv(self.pid, &mut local, &remote) {
            Ok(read) if read < bytes => Outcome::NotMapped,
            Ok(_) if mark == self.mark.bytes => Outcome::Read,
            Ok(_) => Outcome::NoMark,
            Err(Errno::EFAULT) => Outcome::NotMapped,
            Err(errno) => Outcome::Failed(errno),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::doorbell::BellName;
    use super::super::mark::Mark;
    use super::*;

    const NAME: BellName = BellName(0x1234_5678_9abc_def0);

    /// This process as its own neighbour: the kernel lets every process read itself.
    fn own(mark: u64) -> Readable {
        let pid = std::process::id();
        Readable::of(&Card { pid, inbox_fd: 0, mark, bell: NAME, address: None })
    }

    #[test]
    fn every_byte_of_any_length_and_alignment() {
        let mark = Mark::new(NAME);
        let mut readable = own(mark.address());
        let data: Vec<u8> = (0..3 * BYTES_AT_ONCE).map(|i| (i % 251) as u8).collect();
        for (skip, bytes) in [(0, 1), (1, 4096), (4095, 2), (7, BYTES_AT_ONCE), (3, data.len() - 5)]
        {
            let from = &data[skip..skip + bytes];
            let mut into = vec![0; bytes];
            assert!(readable.read(from.as_ptr() as u64, &mut into).unwrap());
            assert!(into == from, "{skip} {bytes}");
        }
    }

    #[test]
    fn unmapped_options_are_reported_and_not_refused() {
        let mark = Mark::new(NAME);
        let mut readable = own(mark.address());
        assert!(!readable.read(1, &mut [0; 8]).unwrap());
        assert!(!readable.read(u64::MAX, &mut [0; 8]).unwrap());
        assert_eq!(readable.access, Access::Untried);
        assert!(readable.read(mark.address(), &mut [0; 8]).unwrap());
    }

    #[test]
    fn a_mark_that_is_wiped_ends_it() {
        let (mark, data) = (Mark::new(NAME), [7; 8]);
        let mut readable = own(mark.address());
        assert!(readable.read(data.as_ptr() as u64, &mut [0; 8]).unwrap());
        mark.wipe();
        let error = readable.read(data.as_ptr() as u64, &mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
    }

    #[test]
    fn a_process_without_the_mark_is_not_read() {
        let (other, data) = (Mark::new(BellName(5)), [7; 8]);
        for mark in [0, 1, other.address()] {
            let mut readable = own(mark);
            assert!(!readable.read(data.as_ptr() as u64, &mut [0; 8]).unwrap());
            assert!(!readable.read(data.as_ptr() as u64, &mut [0; 8]).unwrap());
        }
    }

    #[test]
    fn reading_from_a_dead_process_fails() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        let card = Card { pid, inbox_fd: 0, mark: 8, bell: NAME, address: None };
        let gone = Readable::of(&card).read(8, &mut [0; 8]).unwrap_err();
        assert_eq!(gone.raw_os_error(), Some(Errno::ESRCH as i32));
    }
}
