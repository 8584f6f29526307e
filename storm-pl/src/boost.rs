//! Putting a process before all ordinary ones for a while, and seeing whether something has come
//! for it: what periodic boost does with processes of others.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::ids::ProcessId;
use crate::realtime::{RealtimeRefused, probe_realtime};

/// The lowest of real time: before all ordinary processes, behind whatever else is real time.
const PRIORITY: u8 = 1;

/// A process of another's, known by a descriptor (pidfd): its number may be another's once it is
/// over.
#[derive(Debug)]
pub struct Process {
    pid: ProcessId,
    descriptor: OwnedFd,
}

impl Process {
    /// The one that has this number now.
    ///
    /// # Errors
    /// The kernel's: no such process, or no descriptors left.
    pub fn of(pid: ProcessId) -> io::Result<Process> {
        // SAFETY: takes two integers.
        let descriptor = own(unsafe { libc::syscall(libc::SYS_pidfd_open, pid.0, 0) })?;
        Ok(Process { pid, descriptor })
    }

    /// Its number.
    pub fn pid(&self) -> ProcessId {
        self.pid
    }

    /// Puts it before all ordinary ones (SCHED_RR), or back among them. Its children are
    /// ordinary ones in either case. The kernel wants the number for that: if the process was over
    /// by then, whoever has its number now is an ordinary one again.
    ///
    /// # Errors
    /// The kernel's: no such process, or not permitted (`EPERM`: neither root nor CAP_SYS_NICE).
    pub fn set_boosted(&self, boosted: bool) -> io::Result<()> {
        let gone = || Err(io::Error::from_raw_os_error(libc::ESRCH));
        if self.is_over()? {
            return gone();
        }
        set_policy(self.pid, boosted)?;
        if !boosted || !self.is_over().unwrap_or(true) {
            return Ok(());
        }
        // Nobody may have the number: then there is nothing to take back.
        let _ = set_policy(self.pid, false);
        gone()
    }

    /// A descriptor of it, as one's own (pidfd_getfd(2)).
    ///
    /// # Errors
    /// The kernel's: no such process or descriptor, or not permitted to look into that process.
    pub fn descriptor(&self, fd: RawFd) -> io::Result<OwnedFd> {
        let process = self.descriptor.as_raw_fd();
        // SAFETY: takes three integers.
        own(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process, fd, 0) })
    }

    /// A pidfd is readable from the end of the process on, before its number is free.
    fn is_over(&self) -> io::Result<bool> {
        is_readable(&self.descriptor)
    }
}

/// A descriptor that the kernel has just made, or why it has not.
fn own(result: libc::c_long) -> io::Result<OwnedFd> {
    let fd = i32::try_from(result).ok().filter(|fd| *fd >= 0);
    // SAFETY: the kernel has just made this descriptor for this process, and nobody has it yet.
    fd.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }).ok_or_else(io::Error::last_os_error)
}

fn set_policy(pid: ProcessId, boosted: bool) -> io::Result<()> {
    let (policy, sched_priority) = if boosted {
        (libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, i32::from(PRIORITY))
    } else {
        (libc::SCHED_OTHER, 0)
    };
    let parameter = libc::sched_param { sched_priority };
    // SAFETY: `parameter` is valid for the whole call; the process is named by a number.
    let done = unsafe { libc::sched_setscheduler(pid.0, policy, &raw const parameter) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether this process may boost others: whether it may put itself there.
///
/// # Errors
/// Why not.
pub fn permitted() -> Result<(), RealtimeRefused> {
    probe_realtime(PRIORITY)
}

/// Whether something can be read from a descriptor now.
///
/// # Errors
/// The kernel's.
pub fn is_readable(fd: impl AsFd) -> io::Result<bool> {
    let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::ZERO)?;
    Ok(fds[0].any() == Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_is_boosted_and_no_longer_or_it_is_said_why_not() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = ProcessId(child.id() as i32);
        let process = Process::of(pid).unwrap();
        // SAFETY: takes one integer.
        let policy = || unsafe { libc::sched_getscheduler(pid.0) };
        match process.set_boosted(true) {
            Ok(()) => {
                assert_eq!(policy(), libc::SCHED_RR | libc::SCHED_RESET_ON_FORK);
                process.set_boosted(false).unwrap();
            }
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EPERM)),
        }
        assert_eq!(policy() & libc::SCHED_RR, 0);
        child.kill().unwrap();
        child.wait().unwrap();
        for boosted in [true, false] {
            let over = process.set_boosted(boosted).unwrap_err();
            assert_eq!(over.raw_os_error(), Some(libc::ESRCH));
        }
        assert!(Process::of(ProcessId(0)).is_err(), "not this one");
    }

    #[test]
    fn what_has_come_for_another_process_is_seen() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let child = child.as_mut().unwrap();
        let pid = ProcessId(child.id() as i32);
        // Its end of the pipe from us; cat itself takes what comes, so look at one of our own.
        let (mut reader, mut writer) = io::pipe().unwrap();
        let own = Process::of(ProcessId(std::process::id() as i32)).unwrap();
        let seen = own.descriptor(reader.as_raw_fd()).unwrap();
        assert!(!is_readable(&seen).unwrap());
        writer.write_all(b"x").unwrap();
        assert!(is_readable(&seen).unwrap());
        reader.read_exact(&mut [0]).unwrap();
        assert!(!is_readable(&seen).unwrap());
        assert!(Process::of(pid).unwrap().descriptor(9999).is_err());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
