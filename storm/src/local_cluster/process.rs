//! A process that cannot be confused with a later one of the same pid.

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use procfs::FromRead;
use procfs::process::Stat;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;

/// A process, identified by its pid and start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessIdentity {
    pub(crate) pid: i32,
    /// Its start time in clock ticks since boot: `proc_pid_stat(5)`, field 22.
    pub(crate) start_ticks: u64,
}

impl ProcessIdentity {
    /// The identity of the process that has this pid now.
    pub(crate) fn of(pid: i32) -> io::Result<ProcessIdentity> {
        let stat = Stat::from_read(File::open(format!("/proc/{pid}/stat"))?);
        let stat = stat.map_err(io::Error::other)?;
        if matches!(stat.state, 'Z' | 'X') {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(ProcessIdentity { pid, start_ticks: stat.starttime })
    }

    /// Whether this very process still exists, is ours, and is not a zombie.
    pub(crate) fn is_alive(&self) -> bool {
        let ours = fs::metadata(format!("/proc/{}", self.pid))
            .is_ok_and(|found| found.uid() == nix::unistd::geteuid().as_raw());
        ours && ProcessIdentity::of(self.pid).is_ok_and(|found| found == *self)
    }

    /// Sends a signal if this very process still exists.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        if !self.is_alive() {
            return Ok(());
        }
        match kill(Pid::from_raw(self.pid), signal) {
            Ok(()) | Err(Errno::ESRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_are_alive_and_nobody_else_is_us() {
        let pid = i32::try_from(std::process::id()).expect("a pid fits");
        let us = ProcessIdentity::of(pid).expect("we exist");
        assert!(us.is_alive());
        let stranger = ProcessIdentity { start_ticks: us.start_ticks + 1, ..us };
        assert!(!stranger.is_alive());
        stranger.signal(Signal::SIGKILL).expect("nothing is sent");
    }
}
