//! Putting a process before all ordinary ones for a while, or behind them, and seeing whether something
//! has come for it: what periodic boost and flexible coscheduling do with processes of others.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

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

/// What a process has used of the processors; of one of several threads, what its first has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessUsage {
    /// Processor time (`/proc/PID/schedstat`).
    pub cpu: Duration,
    /// Time that it wanted a processor and had none (the same file).
    pub queued: Duration,
    /// How often it slept by itself: `voluntary_ctxt_switches` of `/proc/PID/status`.
    pub sleeps: u64,
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

    /// Puts all its threads behind all ordinary ones (SCHED_IDLE): they run where nobody else wants to,
    /// and have three thousandths of a processor that somebody does (sched(7)); or back among
    /// them. What it starts meanwhile is as it is. Numbers of threads may be others' by then, if it
    /// has just ended, as with [`Process::set_boosted`].
    ///
    /// # Errors
    /// The kernel's: no such process, or not permitted (`EPERM`: neither root nor CAP_SYS_NICE).
    pub fn set_background(&self, background: bool) -> io::Result<()> {
        let policy = if background { libc::SCHED_IDLE } else { libc::SCHED_OTHER };
        if self.is_over()? {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.pid.0))? {
            let name = thread?.file_name();
            let Some(thread) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            match set_scheduler(ProcessId(thread), policy, 0) {
                // It has ended meanwhile.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// What it has used and how often it slept, since its start.
    ///
    /// # Errors
    /// The kernel's; that it says something else than it is documented to.
    pub fn usage(&self) -> io::Result<ProcessUsage> {
        let unknown = || io::Error::from(io::ErrorKind::InvalidData);
        let read = |name| std::fs::read_to_string(format!("/proc/{}/{name}", self.pid.0));
        let schedstat = read("schedstat")?;
        let mut times =
            schedstat.split_whitespace().map(|word| word.parse().map_err(|_| unknown()));
        let mut time = || times.next().unwrap_or_else(|| Err(unknown())).map(Duration::from_nanos);
        let (cpu, queued) = (time()?, time()?);
        let status = read("status")?;
        let mut lines = status.lines();
        let sleeps = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        Ok(ProcessUsage {
            cpu,
            queued,
            sleeps: sleeps.and_then(|word| word.trim().parse().ok()).ok_or_else(unknown)?,
        })
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
    set_scheduler(pid, policy, sched_priority)
}

fn set_scheduler(pid: ProcessId, policy: i32, sched_priority: i32) -> io::Result<()> {
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
    fn a_process_is_put_behind_others_and_back_or_it_is_said_why_not() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = ProcessId(child.id() as i32);
        let process = Process::of(pid).unwrap();
        // SAFETY: takes one integer.
        let policy = || unsafe { libc::sched_getscheduler(pid.0) };
        process.set_background(true).unwrap();
        assert_eq!(policy(), libc::SCHED_IDLE);
        match process.set_background(false) {
            Ok(()) => assert_eq!(policy(), libc::SCHED_OTHER),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EPERM)),
        }
        let used = process.usage().unwrap();
        assert!(used.cpu < Duration::from_secs(60), "{used:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(process.set_background(true).is_err() && process.usage().is_err());
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
