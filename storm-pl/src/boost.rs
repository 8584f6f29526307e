//! Changes the scheduling of processes of jobs, for periodic boost and flexible coscheduling. The
//! module schedules a process ahead of all ordinary processes for a while, or behind them. The
//! module also checks whether a message waits for a process.

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{Pid, getsid};
use thiserror::Error;

use crate::ids::ProcessId;
use crate::process_tree;
use crate::realtime::{RealtimeRefused, probe_realtime};

/// The lowest real-time priority: ahead of all ordinary processes, behind all other real-time ones.
const PRIORITY: u8 = 1;
/// A process with more threads is not put into the background, because each thread takes a call.
const THREADS_MAX: usize = 256;
/// Passes over the threads of a process. Each pass finds threads that were started during the
/// previous one.
const PASSES_MAX: u32 = 64;
/// The file that shows whether the kernel treats each session as a group with one share of the
/// processors.
const AUTOGROUP_ENABLED: &str = "/proc/sys/kernel/sched_autogroup_enabled";

/// The reason why processes cannot be put into the background and back.
#[derive(Debug, Error)]
pub enum BackgroundRefused {
    /// The process is not root, and has neither CAP_SYS_NICE nor a limit (RLIMIT_NICE) that allows
    /// it.
    #[error("SCHED_IDLE cannot be entered and left (needs CAP_SYS_NICE)")]
    Policy(#[source] io::Error),
    /// Each session is a group, and only root may change its weight without a limit on the rate.
    #[error(
        "the kernel groups processes by sessions (sched_autogroup_enabled is 1), and the nice value \
         of an autogroup cannot be set at any time (needs CAP_SYS_ADMIN, or \
         sysctl kernel.sched_autogroup_enabled=0)"
    )]
    Autogroup(#[source] io::Error),
}

/// A process of a job, held by a pidfd: after its end, another process may have its number.
#[derive(Debug)]
pub struct Process {
    pid: ProcessId,
    descriptor: OwnedFd,
}

/// The processor usage of a process. For a process with several threads, only the first thread's
/// usage is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessUsage {
    /// Processor time (`/proc/PID/schedstat`).
    pub cpu: Duration,
    /// Time in which it waited for a processor (`/proc/PID/schedstat`).
    pub queued: Duration,
    /// How often it slept voluntarily (`voluntary_ctxt_switches` of `/proc/PID/status`).
    pub sleeps: u64,
}

impl Process {
    /// The process that has this number now.
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

    /// Schedules the process ahead of all ordinary ones (SCHED_RR), or as an ordinary one again.
    /// The process's children are ordinary in either case. The kernel takes a process number, so
    /// the process may end before the call. A new process with this number is made ordinary again.
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
        // If no process has the number, there is nothing to undo.
        let _ = set_policy(self.pid, false);
        gone()
    }

    /// Schedules the process and its descendants, with all their threads, behind all ordinary ones
    /// (SCHED_IDLE), or as ordinary ones again. In the background they run on idle processors, and
    /// get three thousandths of a busy one (sched(7)). Threads and processes inherit the policy of
    /// the thread that starts them. The number of a thread that has just ended may name another
    /// thread, as in [`Process::set_boosted`].
    ///
    /// If the kernel makes a group of each session (autogroup, sched(7)), a policy counts only
    /// inside the group. Then the session itself gets the nice value 19, or 0 again. With 19, it
    /// gets 15 of 1039 parts of a processor that it shares with a session of nice value 0.
    ///
    /// # Errors
    /// The kernel's: no such process, or not permitted (`EPERM`: neither root nor CAP_SYS_NICE).
    /// The call into the background also fails in these cases, and leaves the process unchanged:
    ///
    /// - There are more than 256 threads, or they start faster than they can be found.
    /// - The process is in a session that another process leads.
    /// - A descendant has a [session of its own](Process::has_sessions_below).
    pub fn set_background(&self, background: bool) -> io::Result<()> {
        let gone = || Err(io::Error::from_raw_os_error(libc::ESRCH));
        if self.is_over()? {
            return gone();
        }
        if background && self.has_sessions_below() {
            return Err(io::Error::other("it has started processes in sessions of their own"));
        }
        let mut put = HashSet::new();
        let done = self
            .put_threads(background, THREADS_MAX, &mut put)
            .and_then(|()| set_session_background(self.pid, background));
        let over = self.is_over().unwrap_or(true);
        if background && (over || done.is_err()) {
            // If no thread has a number, there is nothing to undo.
            for thread in put {
                let _ = set_scheduler(thread, libc::SCHED_OTHER, 0);
            }
            let _ = set_session_background(self.pid, false);
        }
        if over { gone() } else { done }
    }

    /// Whether a descendant of the process is in a session of its own. If the kernel groups by
    /// sessions, such a descendant keeps its full share while the process is in the background.
    /// Descendants whose parents have ended are not found.
    pub fn has_sessions_below(&self) -> bool {
        let session = |pid: ProcessId| getsid(Some(Pid::from_raw(pid.0)));
        let Ok(own) = session(self.pid) else { return false };
        let family = process_tree::descendants(self.pid);
        family.into_iter().any(|pid| session(pid).is_ok_and(|session| session != own))
    }

    /// Sets the policy of all threads of the family, and of threads that start meanwhile.
    fn put_threads(
        &self,
        background: bool,
        behind_max: usize,
        put: &mut HashSet<ProcessId>,
    ) -> io::Result<()> {
        let policy = if background { libc::SCHED_IDLE } else { libc::SCHED_OTHER };
        for _ in 0..PASSES_MAX {
            let before = put.len();
            // Fails if the process is over.
            std::fs::read_dir(format!("/proc/{}/task", self.pid.0))?;
            let family = process_tree::descendants(self.pid);
            let all = std::iter::once(self.pid).chain(family);
            for thread in all.flat_map(process_tree::threads).map(ProcessId) {
                if !put.insert(thread) {
                    continue;
                }
                if background && put.len() > behind_max {
                    return Err(io::Error::other("it has too many threads"));
                }
                match set_scheduler(thread, policy, 0) {
                    // The thread has ended meanwhile.
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                    done => done?,
                }
            }
            if put.len() == before {
                return Ok(());
            }
        }
        Err(io::Error::other("its threads multiply faster than they can be found"))
    }

    /// The processor usage of the process since its start.
    ///
    /// # Errors
    /// The kernel's, or `InvalidData` if its files are not in their documented form.
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

    /// A copy of one of its descriptors (pidfd_getfd(2)).
    ///
    /// # Errors
    /// The kernel's: no such process or descriptor, or no permission to look into the process.
    pub fn descriptor(&self, fd: RawFd) -> io::Result<OwnedFd> {
        let process = self.descriptor.as_raw_fd();
        // SAFETY: takes three integers.
        own(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process, fd, 0) })
    }

    /// A pidfd becomes readable when the process ends, before its number is free.
    fn is_over(&self) -> io::Result<bool> {
        is_readable(&self.descriptor)
    }
}

/// The descriptor that the kernel has just made, or the error of the call.
fn own(result: libc::c_long) -> io::Result<OwnedFd> {
    let fd = i32::try_from(result).ok().filter(|fd| *fd >= 0);
    // SAFETY: the kernel has just made this descriptor for this process, and nothing owns it yet.
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

/// Whether this process may boost others. This process may do so if it may boost itself.
///
/// # Errors
/// The reason why not.
pub fn permitted() -> Result<(), RealtimeRefused> {
    probe_realtime(PRIORITY)
}

/// Whether this process may put others into the background and back ([`Process::set_background`]).
///
/// # Errors
/// The reason why not.
pub fn background_permitted() -> Result<(), BackgroundRefused> {
    let probe = || {
        // The probe runs in a thread of its own. The thread may end with any policy.
        set_scheduler(ProcessId(0), libc::SCHED_IDLE, 0)?;
        set_scheduler(ProcessId(0), libc::SCHED_OTHER, 0)
    };
    let probed = std::thread::scope(|scope| scope.spawn(probe).join());
    let lost = || io::Error::from_raw_os_error(libc::EAGAIN);
    probed.unwrap_or_else(|_| Err(lost())).map_err(BackgroundRefused::Policy)?;
    if autogroup_enabled() {
        probe_autogroup().map_err(BackgroundRefused::Autogroup)
    } else {
        Ok(())
    }
}

/// Writes the present value twice. An unprivileged process may write once in a tenth of a second.
fn probe_autogroup() -> io::Result<()> {
    let own = ProcessId(std::process::id().cast_signed());
    let shown = std::fs::read_to_string(format!("/proc/{}/autogroup", own.0))?;
    let nice = shown.split_whitespace().last().unwrap_or("0");
    for _ in 0..2 {
        match write_autogroup(own, nice) {
            // If no session was created since boot, the process is in no group. The kernel has
            // checked the permission before it returns this error.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            done => done?,
        }
    }
    Ok(())
}

fn autogroup_enabled() -> bool {
    std::fs::read_to_string(AUTOGROUP_ENABLED).is_ok_and(|text| text.trim() == "1")
}

/// Puts the kernel's group of a session into the background, or back. Does nothing if the kernel
/// makes no groups.
fn set_session_background(leader: ProcessId, background: bool) -> io::Result<()> {
    let enabled = autogroup_enabled();
    if background && !enabled {
        return Ok(());
    }
    // 0 names a session from outside of this process namespace, or a process that is being reaped.
    let session = getsid(Some(Pid::from_raw(leader.0)))?;
    match (session == Pid::from_raw(leader.0), background) {
        (true, _) => match write_autogroup(leader, if background { "19" } else { "0" }) {
            // Groups may have been enabled earlier, so the reset is tried and may fail.
            Err(_) if !enabled => Ok(()),
            done => done,
        },
        (false, true) => Err(io::Error::other("it is in the session of another process")),
        (false, false) => Ok(()),
    }
}

fn write_autogroup(pid: ProcessId, nice: &str) -> io::Result<()> {
    let path = format!("/proc/{}/autogroup", pid.0);
    OpenOptions::new().write(true).open(path)?.write_all(nice.as_bytes())
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
    use std::io::Read;
    use std::os::unix::process::CommandExt;
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
        let mut child = sleeper_with_a_session();
        let pid = ProcessId(child.id() as i32);
        let process = Process::of(pid).unwrap();
        // SAFETY: takes one integer.
        let policy = || unsafe { libc::sched_getscheduler(pid.0) };
        let session = || std::fs::read_to_string(format!("/proc/{}/autogroup", pid.0));
        if background_permitted().is_ok() {
            process.set_background(true).unwrap();
            assert_eq!(policy(), libc::SCHED_IDLE);
            assert!(!autogroup_enabled() || session().unwrap().ends_with("nice 19\n"));
            process.set_background(false).unwrap();
            assert_eq!(policy(), libc::SCHED_OTHER);
            assert!(!autogroup_enabled() || session().unwrap().ends_with("nice 0\n"));
        }
        let used = process.usage().unwrap();
        assert!(used.cpu < Duration::from_secs(60), "{used:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(process.set_background(true).is_err() && process.usage().is_err());
    }

    #[test]
    fn a_process_with_a_shared_session_or_many_threads_is_not_put_behind_others() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = ProcessId(child.id() as i32);
        let process = Process::of(pid).unwrap();
        // SAFETY: takes one integer.
        let policy = |pid: ProcessId| unsafe { libc::sched_getscheduler(pid.0) };
        if background_permitted().is_ok() {
            assert_eq!(process.set_background(true).is_err(), autogroup_enabled());
            process.set_background(false).unwrap();
            assert_eq!(policy(pid), libc::SCHED_OTHER);
            assert!(process.put_threads(true, 0, &mut HashSet::new()).is_err());
            assert_eq!(policy(pid), libc::SCHED_OTHER);
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// A regression: only the rank itself was put into the background.
    #[test]
    fn children_are_boosted_together_unless_they_have_their_own_session() {
        // Children end with this test's end of the pipe.
        let start = |child: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("exec 3<&0; {child} <&3 & exec 3<&-; echo; wait")]);
            shell.stdin(Stdio::piped()).stdout(Stdio::piped());
            // SAFETY: setsid(2) is async-signal-safe, and nothing else is called there.
            unsafe { shell.pre_exec(|| Ok(nix::unistd::setsid().map(drop)?)) };
            let mut shell = shell.spawn().unwrap();
            shell.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
            let pid = ProcessId(shell.id() as i32);
            (shell, Process::of(pid).unwrap())
        };
        // SAFETY: takes one integer.
        let policy = |pid: ProcessId| unsafe { libc::sched_getscheduler(pid.0) };
        let (mut shell, process) = start("cat");
        let child = process_tree::children(process.pid())[0];
        assert!(!process.has_sessions_below());
        if background_permitted().is_ok() {
            for (background, expected) in [(true, libc::SCHED_IDLE), (false, libc::SCHED_OTHER)] {
                process.set_background(background).unwrap();
                assert_eq!((policy(process.pid()), policy(child)), (expected, expected));
            }
        }
        drop(shell.stdin.take());
        shell.wait().unwrap();
        let (mut shell, process) = start("setsid -w cat");
        while !process.has_sessions_below() {
            std::thread::yield_now();
        }
        assert!(process.set_background(true).is_err());
        assert_eq!(policy(process.pid()), libc::SCHED_OTHER);
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }

    /// A sleeper in a session of its own, like a rank.
    fn sleeper_with_a_session() -> std::process::Child {
        let mut sleeper = Command::new("sleep");
        // SAFETY: setsid(2) is async-signal-safe, and nothing else is done there.
        unsafe { sleeper.arg("60").pre_exec(|| Ok(nix::unistd::setsid().map(drop)?)) };
        sleeper.spawn().unwrap()
    }

    #[test]
    fn a_message_for_another_process_is_seen() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let child = child.as_mut().unwrap();
        let pid = ProcessId(child.id() as i32);
        // `cat` empties its own pipe, so the test checks a pipe of this process.
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
