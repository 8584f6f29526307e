//! A process that cannot be confused with a later one of the same pid.

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;

/// Longer than a line of `proc_pid_stat(5)`: 52 numbers and a name of 15 bytes.
const STAT_BYTES: usize = 2 << 10;

/// A process, identified by its pid and start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessIdentity {
    /// Its pid.
    pub(crate) pid: i32,
    /// Its start time in clock ticks since boot: `proc_pid_stat(5)`, field 22.
    pub(crate) start_ticks: u64,
}

impl ProcessIdentity {
    /// The identity of the process that has this pid now.
    pub(crate) fn of(pid: i32) -> io::Result<ProcessIdentity> {
        let mut stat = Vec::with_capacity(STAT_BYTES);
        File::open(format!("/proc/{pid}/stat"))?.take(STAT_BYTES as u64).read_to_end(&mut stat)?;
        let stat = String::from_utf8_lossy(&stat);
        let (state, start_ticks) = fields(&stat).ok_or(io::ErrorKind::InvalidData)?;
        if state == 'Z' || state == 'X' {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(ProcessIdentity { pid, start_ticks })
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

/// State and start time. The name before them may contain spaces and parentheses.
fn fields(stat: &str) -> Option<(char, u64)> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?.chars().next()?;
    // The state is field 3 and the start time is field 22; `fields` is at field 4.
    let start_ticks = fields.nth(18)?.parse().ok()?;
    Some((state, start_ticks))
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

    #[test]
    fn a_name_with_spaces_and_parentheses_is_no_obstacle() {
        let rest = (4..=21).map(|field| field.to_string()).collect::<Vec<_>>().join(" ");
        let stat = format!("7 (a) R (b) c) S {rest} 4242 0 0");
        assert_eq!(fields(&stat), Some(('S', 4242)));
        assert_eq!(fields("nonsense"), None);
    }
}
