//! Permission to read this rank's memory if the kernel demands more than the same user: Yama with
//! `ptrace_scope` 1 (Documentation/admin-guide/LSM/Yama.rst), the default of several distributions.
//!
//! Under Yama, a process may be read by its ancestors, and by one other process that it names, with
//! all its descendants (`PR_SET_PTRACER`, prctl(2)). A rank names the nearest common ancestor of
//! itself and its neighbours: their launcher. It never names the first process of the system, which
//! would admit every process. With scopes 2 and 3, a process can permit nothing; then no rank
//! reads, and messages use the rings.

use rustix::process::{PTracer, Pid, set_ptracer};
use std::fs;

/// File with the scope; absent without Yama.
const SCOPE: &str = "/proc/sys/kernel/yama/ptrace_scope";
/// The scope in which naming a process helps.
const SCOPE_RELATED: &str = "1";
/// Limit of generations that are checked.
const MAX_GENERATIONS: usize = 64;

/// The process that this process admits as a reader.
#[derive(Debug, Default)]
pub(super) struct Tracer {
    /// Ancestors of this process, nearest first; empty if no process has to be named.
    own: Vec<u32>,
    /// Index of the named ancestor.
    named: Option<usize>,
}

impl Tracer {
    /// Finds out the kernel's rules.
    pub(super) fn new() -> Self {
        let related = fs::read_to_string(SCOPE).is_ok_and(|scope| scope.trim() == SCOPE_RELATED);
        let own = if related { ancestors(std::process::id()) } else { Vec::new() };
        Tracer { own, named: None }
    }

    /// Lets `neighbour` read, if a permission is needed and can be given. Otherwise the neighbour
    /// learns it when it tries.
    pub(super) fn admit(&mut self, neighbour: u32) {
        if self.own.is_empty() {
            return;
        }
        let Some(common) = common_ancestor(&self.own, &ancestors(neighbour)) else { return };
        if self.named.is_some_and(|named| named >= common) {
            return;
        }
        let pid = i32::try_from(self.own[common]).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid
            && set_ptracer(PTracer::ProcessID(pid)).is_ok()
        {
            self.named = Some(common);
        }
    }

    /// Withdraws the permission of the named process.
    pub(super) fn dismiss(&mut self) {
        if self.named.take().is_some() {
            // If the kernel accepted the name, it accepts this too; a failure has no receiver.
            let _ = set_ptracer(PTracer::None);
        }
    }
}

/// Index of the nearest ancestor of one process that is also an ancestor of the other. The system's
/// first process never counts.
fn common_ancestor(own: &[u32], theirs: &[u32]) -> Option<usize> {
    own.iter().position(|pid| *pid > 1 && theirs.contains(pid))
}

/// A process's ancestors, nearest first.
fn ancestors(pid: u32) -> Vec<u32> {
    let first = parent(pid);
    std::iter::successors(first, |&pid| parent(pid)).take(MAX_GENERATIONS).collect()
}

/// A process's parent; `None` for the first process, and for one that is gone.
fn parent(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok().filter(|&parent| parent != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_launcher_is_named_and_never_everybody() {
        assert_eq!(common_ancestor(&[30, 20, 1], &[31, 20, 1]), Some(1));
        assert_eq!(common_ancestor(&[30, 20, 1], &[30, 20, 1]), Some(0));
        assert_eq!(common_ancestor(&[30, 1], &[31, 1]), None);
        assert_eq!(common_ancestor(&[30], &[]), None);
    }

    #[test]
    fn a_process_descends_from_its_parent() {
        let own = ancestors(std::process::id());
        assert_eq!(own.first(), Some(&std::os::unix::process::parent_id()));
    }

    #[test]
    fn by_default_no_tracer_is_named() {
        let mut tracer = Tracer::default();
        tracer.admit(std::process::id());
        assert_eq!(tracer.named, None);
    }

    #[test]
    fn a_named_tracer_is_dismissed_once() {
        let mut tracer = Tracer { own: vec![30], named: Some(0) };
        tracer.dismiss();
        assert_eq!(tracer.named, None);
        tracer.dismiss();
        assert_eq!(tracer.own, [30], "it may be named again");
    }
}
