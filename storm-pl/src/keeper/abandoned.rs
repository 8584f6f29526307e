//! The usage of processes that no process in their job waits for. The keeper is their nearest
//! subreaper, so it reaps them and gets the usage of each. `/proc` shows the usage of live ones.
//!
//! The usage of a child is unknown if its parent ignores SIGCHLD and the child ends before its job.
//! The kernel reaps this child by itself. The cgroup of the pad still counts its CPU time.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use crate::exit::Usage;
use crate::ids::{PadId, ProcessId};
use crate::process_tree;

/// Units of the times in `/proc/PID/stat` if the system does not name them: USER_HZ of Linux.
const TICKS_PER_SECOND: u64 = 100;

/// Signals that are used to end jobs.
const ENDING: [i32; 5] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGKILL, libc::SIGTERM];

/// The usage of the abandoned processes of a pad that have been reaped.
#[derive(Debug, Default)]
pub(super) struct Abandoned {
    /// Usage in the sessions of running PLs, by the process of each PL.
    by_session: HashMap<i32, Usage>,
    /// Usage in all other sessions.
    others: Usage,
}

impl Abandoned {
    /// Adds a reaped process of `session`. If a PL `leads` the session, the usage counts to the PL.
    pub(super) fn add(&mut self, session: ProcessId, leads: bool, usage: Usage) {
        let sum = match leads {
            true => self.by_session.entry(session.0).or_default(),
            false => &mut self.others,
        };
        *sum = sum.plus(usage);
    }

    /// Takes the usage in the session of a PL that has ended.
    pub(super) fn take(&mut self, session: ProcessId) -> Usage {
        self.by_session.remove(&session.0).unwrap_or_default()
    }

    /// The usage that belongs to no PL.
    pub(super) fn others(&self) -> Usage {
        self.others
    }
}

/// A process as `/proc` shows it. The process may have ended without being reaped.
pub(super) struct Glimpse {
    pub(super) session: ProcessId,
    /// Whether the process is about to be reaped. Such a process has a deadly signal pending, or
    /// has already released its memory, which is the first step of an exit.
    pub(super) ends: bool,
    usage: Usage,
}

impl Glimpse {
    /// `None` if the process is gone.
    pub(super) fn of(process: ProcessId) -> Option<Self> {
        let stat = process_tree::stat(process)?;
        // The times of children that the process has waited for are never negative.
        let waited = |ticks: i64| u64::try_from(ticks).unwrap_or(0);
        // Only three fields of a long text are read for each reaped process. `procfs` would parse
        // all of them.
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let peak_kib = peak_kib(&status);
        let usage = Usage {
            user: time(stat.utime.saturating_add(waited(stat.cutime))),
            system: time(stat.stime.saturating_add(waited(stat.cstime))),
            max_rss_kib: peak_kib.unwrap_or(0),
            ..Usage::default()
        };
        let ends = peak_kib.is_none() || is_told_to_end(&status);
        Some(Self { session: ProcessId(stat.session), ends, usage })
    }
}

/// The usage of `roots` and their descendants so far.
pub(super) fn used_by(roots: &[ProcessId]) -> Usage {
    let below = roots.iter().flat_map(|&root| process_tree::descendants(root));
    let all = roots.iter().copied().chain(below).filter_map(Glimpse::of);
    all.fold(Usage::default(), |sum, glimpse| sum.plus(glimpse.usage))
}

/// The pad of a process, dead or alive, on a node with cgroups. `name` is the name of the node's
/// directory.
pub(super) fn pad_of(process: ProcessId, name: &str) -> Option<PadId> {
    pad_in(&fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?, name)
}

fn pad_in(membership: &str, name: &str) -> Option<PadId> {
    let path = membership.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mut below = path.split('/').skip_while(|part| *part != name).skip(1);
    below.next()?.strip_prefix("pad-")?.parse().ok().map(PadId)
}

/// Whether a signal that ends the process is pending. A pending signal may wait until the process
/// runs or unblocks it: a shell blocks all signals while it starts a child.
fn is_told_to_end(status: &str) -> bool {
    let set = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0)
    };
    let pending = set("SigPnd:") | set("ShdPnd:");
    let harmless = set("SigIgn:") | set("SigCgt:");
    let ending = ENDING.iter().fold(0, |set, signal| set | 1 << (signal - 1));
    pending & ending & !harmless != 0
}

fn peak_kib(status: &str) -> Option<u64> {
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    peak.trim().strip_suffix("kB")?.trim().parse().ok()
}

fn time(ticks: u64) -> Duration {
    let known = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok().flatten();
    let per_second = known.and_then(|ticks| u64::try_from(ticks).ok()).filter(|ticks| *ticks > 0);
    let per_second = per_second.unwrap_or(TICKS_PER_SECOND);
    Duration::from_micros(ticks.saturating_mul(1_000_000) / per_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pad_is_the_directory_below_the_nodes() {
        let of = |text: &str| pad_in(text, "storm-lab-n1").map(|pad| pad.0);
        assert_eq!(of("4:memory:/x\n0::/a/storm-lab-n1/pad-12/pl\n"), Some(12));
        assert_eq!(of("0::/storm-lab-n1/pad-3/pl/own/pad-4 (deleted)\n"), Some(3));
        assert_eq!(of("0::/storm-lab-n11/pad-3/pl\n"), None);
        assert_eq!(of("0::/storm-lab-n1\n"), None);
        assert_eq!(of("4:memory:/storm-lab-n1/pad-3\n"), None);
    }

    #[test]
    fn a_process_shows_its_session_its_time_and_its_peak() {
        let own = ProcessId(nix::unistd::getpid().as_raw());
        let glimpse = Glimpse::of(own).expect("it lives");
        let session = nix::unistd::getsid(None).expect("there is one");
        assert_eq!(glimpse.session.0, session.as_raw());
        assert!(!glimpse.ends && glimpse.usage.max_rss_kib > 0);
        assert!(Glimpse::of(ProcessId(i32::MAX)).is_none());
        assert_eq!(peak_kib("Name: a\nVmHWM:\t  5120 kB\n"), Some(5120));
        assert_eq!(peak_kib("Name: a\nState:\tZ (zombie)\n"), None);
    }

    #[test]
    fn a_process_with_a_signal_that_it_does_not_catch_is_about_to_end() {
        let sets = |pending: u64, blocked: u64, caught: u64| {
            let [pending, blocked, caught] =
                [pending, blocked, caught].map(|set| format!("{set:016x}"));
            format!("SigPnd:\t0\nShdPnd:\t{pending}\nSigBlk:\t{blocked}\nSigCgt:\t{caught}\n")
        };
        let (term, kill, user) = (1 << 14, 1 << 8, 1 << 9);
        assert!(is_told_to_end(&sets(term, 0, 0)) && is_told_to_end(&sets(kill | user, 0, term)));
        assert!(is_told_to_end(&sets(term, term, 0)), "it ends when it has started its child");
        assert!(!is_told_to_end(&sets(term, 0, term)) && !is_told_to_end(&sets(term, term, term)));
        assert!(!is_told_to_end(&sets(user, 0, 0)) && !is_told_to_end(""));
    }

    #[test]
    fn the_use_of_a_session_is_reported_once() {
        let used = |ms| Usage { user: Duration::from_millis(ms), ..Usage::default() };
        let mut abandoned = Abandoned::default();
        abandoned.add(ProcessId(7), true, used(3));
        abandoned.add(ProcessId(7), true, used(4));
        abandoned.add(ProcessId(9), false, used(5));
        assert_eq!(abandoned.take(ProcessId(7)), used(7));
        assert_eq!(abandoned.take(ProcessId(7)), Usage::default());
        assert_eq!(abandoned.others(), used(5));
    }
}
