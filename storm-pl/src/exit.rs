//! The end of an application process, and its usage of resources.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitStatus {
    /// The process returned or called `exit`.
    Code(u8),
    /// A signal ended it.
    Signal {
        /// The signal's number.
        signal: i32,
        /// Whether it left a core file.
        core_dumped: bool,
    },
}

/// The usage of one rank: its own, and that of the children that it waited for or left behind. The
/// last rank of a pad to end also has the usage that belongs to no single rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// Resident set of the largest process. The value is at least the resident set of the waiting
    /// PL that became the rank.
    pub max_rss_kib: u64,
    /// How often it gave up the CPU voluntarily.
    pub voluntary_switches: u64,
    /// How often it lost the CPU to another process.
    pub involuntary_switches: u64,
}

impl ExitStatus {
    /// Whether this is exit code 0.
    #[must_use]
    pub fn success(self) -> bool {
        self == Self::Code(0)
    }

    /// Decodes the status word of `wait4`; `None` if the process has not ended.
    pub(crate) fn from_wait(word: i32) -> Option<Self> {
        if libc::WIFEXITED(word) {
            // WEXITSTATUS is eight bits by definition.
            Some(Self::Code(libc::WEXITSTATUS(word) as u8))
        } else if libc::WIFSIGNALED(word) {
            Some(Self::Signal { signal: libc::WTERMSIG(word), core_dumped: libc::WCOREDUMP(word) })
        } else {
            None
        }
    }
}

impl Usage {
    /// The sum of both usages, with the larger of the resident sets.
    #[must_use]
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            user: self.user.saturating_add(other.user),
            system: self.system.saturating_add(other.system),
            max_rss_kib: self.max_rss_kib.max(other.max_rss_kib),
            voluntary_switches: self.voluntary_switches.saturating_add(other.voluntary_switches),
            involuntary_switches: self
                .involuntary_switches
                .saturating_add(other.involuntary_switches),
        }
    }

    /// Time on processors.
    pub(crate) fn cpu(self) -> Duration {
        self.user.saturating_add(self.system)
    }

    pub(crate) fn from_rusage(raw: &libc::rusage) -> Self {
        Self {
            user: duration(raw.ru_utime),
            system: duration(raw.ru_stime),
            max_rss_kib: u64::try_from(raw.ru_maxrss).unwrap_or(0),
            voluntary_switches: u64::try_from(raw.ru_nvcsw).unwrap_or(0),
            involuntary_switches: u64::try_from(raw.ru_nivcsw).unwrap_or(0),
        }
    }
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal { signal, core_dumped } => {
                match nix::sys::signal::Signal::try_from(*signal) {
                    Ok(name) => write!(f, "killed by {name}")?,
                    Err(_) => write!(f, "killed by signal {signal}")?,
                }
                if *core_dumped { f.write_str(" (core dumped)") } else { Ok(()) }
            }
        }
    }
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u32::try_from(time.tv_usec).unwrap_or(0);
    Duration::new(seconds, micros.saturating_mul(1_000))
}
