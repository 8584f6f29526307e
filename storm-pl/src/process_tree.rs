//! The descendants of a process, found in `/proc`, for nodes without cgroup v2.
//!
//! One pass may miss a process that is being forked. Callers repeat until a pass finds no new
//! process.

use procfs::FromRead;
use procfs::process::Stat;
use std::collections::HashSet;
use std::fs;

use crate::ids::ProcessId;
use crate::sys;

/// More processes than a kernel can have (`PID_MAX_LIMIT`): bounds one pass.
const PROCESSES_MAX: usize = 4 << 20;

/// The live descendants of `root`, parents before children, without `root`.
pub(crate) fn descendants(root: ProcessId) -> Vec<ProcessId> {
    let mut found = children(root);
    let mut seen: HashSet<ProcessId> = found.iter().copied().collect();
    let mut next = 0;
    while next < found.len() && found.len() < PROCESSES_MAX {
        for child in children(found[next]) {
            if seen.insert(child) {
                found.push(child);
            }
        }
        next += 1;
    }
    found
}

/// The live children of `parent`, forked by any of its threads.
pub(crate) fn children(parent: ProcessId) -> Vec<ProcessId> {
    let mut found = children_and_dead(parent);
    found.retain(|&pid| !is_dead(pid));
    found
}

/// The children of `parent`, including those that have ended and are not reaped.
pub(crate) fn children_and_dead(parent: ProcessId) -> Vec<ProcessId> {
    let mut found = Vec::new();
    for thread in threads(parent) {
        match fs::read_to_string(format!("/proc/{parent}/task/{thread}/children")) {
            Ok(text) => found.extend(
                text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).map(ProcessId),
            ),
            // Either the thread has just ended, or this kernel does not list children.
            Err(_) if fs::exists("/proc/self/task").unwrap_or(false) && !lists_children() => {
                return scan_for_children(parent);
            }
            Err(_) => {}
        }
    }
    found
}

/// The threads of a process; empty if it is gone.
pub(crate) fn threads(process: ProcessId) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Kills every live descendant of `root` that is not in `spared`. Returns how many it found.
pub(crate) fn kill_descendants(root: ProcessId, spared: &[ProcessId]) -> usize {
    let doomed = descendants(root);
    let family: HashSet<ProcessId> = doomed.iter().copied().chain([root]).collect();
    let mut count = 0;
    for pid in doomed.into_iter().filter(|pid| !spared.contains(pid)) {
        count += 1;
        kill_member(pid, &family);
    }
    count
}

/// Kills `pid` if its parent is in `family`. The descriptor pins the process before its parent is
/// read again, so a process that reused the number is never hit.
fn kill_member(pid: ProcessId, family: &HashSet<ProcessId>) {
    let Ok(pinned) = sys::open_process(pid) else { return };
    if stat(pid).is_some_and(|stat| family.contains(&ProcessId(stat.ppid))) {
        sys::kill_process(&pinned);
    }
}

/// Whether no thread of a process runs any more. A process whose first thread has ended shows as a
/// zombie while its other threads run.
pub(crate) fn is_dead(pid: ProcessId) -> bool {
    stat(pid).is_none_or(|stat| stat.state == 'Z' && threads(pid).len() <= 1)
}

/// Whether a signal has stopped any thread of a process, or is about to. A thread without a
/// processor stops when it gets one.
pub(crate) fn is_stopped(process: ProcessId) -> bool {
    let status = |thread| fs::read_to_string(format!("/proc/{process}/task/{thread}/status"));
    threads(process).into_iter().filter_map(|thread| status(thread).ok()).any(|status| {
        let fields = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let pending =
            |name| u64::from_str_radix(fields(name).unwrap_or("").trim(), 16).unwrap_or(0);
        let stops = (pending("SigPnd:") | pending("ShdPnd:")) & (1 << (libc::SIGSTOP - 1)) != 0;
        stops || fields("State:").is_some_and(|state| state.trim_start().starts_with('T'))
    })
}

fn lists_children() -> bool {
    fs::exists("/proc/thread-self/children").unwrap_or(false)
}

fn scan_for_children(parent: ProcessId) -> Vec<ProcessId> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| Some(ProcessId(entry.file_name().to_str()?.parse().ok()?)))
        .filter(|&pid| stat(pid).is_some_and(|stat| stat.ppid == parent.0))
        .collect()
}

/// The kernel's figures of a process (proc_pid_stat(5)); `None` if it is gone.
///
/// The file is opened by its path: `procfs::process::Process` would open the directory, too.
pub(crate) fn stat(process: ProcessId) -> Option<Stat> {
    Stat::from_file(format!("/proc/{process}/stat")).ok()
}
