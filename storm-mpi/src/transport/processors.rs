//! The number of processors that the ranks of this node have.

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::{Pid, getppid};

/// Number of processors that the ranks of this node have together, as far as this rank can tell. If
/// this process may use fewer than its parent, it was bound (`--bind core`, `taskset`). The other
/// ranks were then bound too, to other processors of their parent's.
pub(super) fn of_this_node() -> usize {
    let own = allowed(Pid::from_raw(0));
    // Init by now, if the parent has ended.
    let parent = allowed(getppid());
    match own.zip(parent) {
        Some((own, parent)) if own < parent => parent,
        // This call respects the limit of a control group.
        _ => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// Number of processors that a process, or this thread (0), may run on; `None` if the kernel does
/// not report it.
fn allowed(process: Pid) -> Option<usize> {
    let set = sched_getaffinity(process).ok()?;
    Some((0..CpuSet::count()).filter(|&cpu| set.is_set(cpu) == Ok(true)).count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sched::sched_setaffinity;

    #[test]
    fn a_bound_rank_counts_its_parents_processors() {
        let unbound = of_this_node();
        // The test uses a thread of its own, because the thread stays bound.
        let bound = std::thread::spawn(|| {
            let all = sched_getaffinity(Pid::from_raw(0)).expect("the kernel says");
            let first = (0..CpuSet::count()).find(|&cpu| all.is_set(cpu) == Ok(true));
            let mut one = CpuSet::new();
            one.set(first.expect("it runs somewhere")).expect("a processor");
            sched_setaffinity(Pid::from_raw(0), &one).expect("a processor that it had");
            of_this_node()
        });
        let bound = bound.join().expect("it does not panic");
        assert!(bound >= unbound.min(allowed(getppid()).unwrap_or(1)), "{bound} of {unbound}");
    }
}
