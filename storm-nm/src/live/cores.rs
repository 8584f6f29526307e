//! The cores that this node's ranks may use, and which of them bound ranks get (`--bind core`).
//!
//! Jobs that are not bound do not count here. A job that changes its rows keeps its cores, even if
//! another job of the new rows is bound to the same cores. Later jobs avoid these cores.

use crate::JobKey;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use storm_rm::RowSet;

/// The cores, and the jobs that are bound to them.
#[derive(Debug)]
pub(super) struct Cores {
    /// The processors of each core, as the kernel numbers them.
    cores: Vec<Vec<u16>>,
    bound: RefCell<BTreeMap<JobKey, Bound>>,
}

#[derive(Debug)]
struct Bound {
    rows: RowSet,
    /// The cores of all ranks; a core that several ranks have is listed once for each.
    cores: Vec<usize>,
}

impl Cores {
    /// The cores that this process may run on.
    pub(super) fn of_this_process() -> nix::Result<Cores> {
        let allowed = sched_getaffinity(Pid::from_raw(0))?;
        let is_allowed = |cpu: &u16| allowed.is_set(usize::from(*cpu)).unwrap_or(false);
        let count = u16::try_from(CpuSet::count()).unwrap_or(u16::MAX);
        let mut cores: Vec<Vec<u16>> = Vec::new();
        for cpu in (0..count).filter(is_allowed) {
            if !cores.iter().any(|core| core.contains(&cpu)) {
                let siblings = siblings(cpu).into_iter().filter(is_allowed);
                let core: Vec<u16> = siblings.collect();
                cores.push(if core.contains(&cpu) { core } else { vec![cpu] });
            }
        }
        Ok(Cores { cores, bound: RefCell::default() })
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.cores.len()
    }

    /// The processors of all of them.
    pub(super) fn processors(&self) -> Vec<u16> {
        self.cores.iter().flatten().copied().collect()
    }

    /// Gives each of `ranks` ranks `each` cores, or as many as there are. Takes the cores with the
    /// fewest bound ranks that run at the same time as this job. Among equal cores the first from
    /// `start` on is taken: `start` differs between the nodes of a host, so that their ranks
    /// spread.
    pub(super) fn bind(
        &self,
        job: JobKey,
        rows: RowSet,
        (ranks, each): (u32, u32),
        start: usize,
    ) -> Vec<Vec<u16>> {
        let count = self.cores.len();
        if count == 0 {
            return vec![Vec::new(); ranks as usize];
        }
        let mut load = vec![0u32; count];
        let mut bound = self.bound.borrow_mut();
        let rivals = bound.values().filter(|rival| rival.rows.meets(rows));
        for core in rivals.flat_map(|rival| &rival.cores) {
            load[*core] += 1;
        }
        let (mut all, mut cpus) = (Vec::new(), Vec::new());
        for _ in 0..ranks {
            let mut own: Vec<usize> = Vec::new();
            for _ in 0..(each.max(1) as usize).min(count) {
                let order = (0..count).map(|offset| (start + offset) % count);
                let others = order.filter(|core| !own.contains(core));
                let Some(least) = others.min_by_key(|core| load[*core]) else { break };
                load[least] += 1;
                own.push(least);
            }
            cpus.push(own.iter().flat_map(|core| self.cores[*core].clone()).collect());
            all.append(&mut own);
        }
        bound.insert(job, Bound { rows, cores: all });
        cpus
    }

    /// Notes the rows of a job from now on. The job keeps its cores.
    pub(super) fn set_rows(&self, job: JobKey, rows: RowSet) {
        if let Some(bound) = self.bound.borrow_mut().get_mut(&job) {
            bound.rows = rows;
        }
    }

    /// The job is over.
    pub(super) fn release(&self, job: JobKey) {
        self.bound.borrow_mut().remove(&job);
    }
}

/// The processors of a processor's core, itself among them; empty if the kernel does not report
/// them.
fn siblings(cpu: u16) -> Vec<u16> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    parse_list(&fs::read_to_string(path).unwrap_or_default())
}

/// Numbers as the kernel lists them: `0,4-6`.
fn parse_list(text: &str) -> Vec<u16> {
    let range = |part: &str| -> Option<std::ops::RangeInclusive<u16>> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use storm_rm::{JobId, JobIncarnation, Row, StepRef};

    fn cores(cores: &[&[u16]]) -> Cores {
        let cores = cores.iter().map(|core| core.to_vec()).collect();
        Cores { cores, bound: RefCell::default() }
    }

    fn key(job: u64) -> JobKey {
        JobKey { step: StepRef::program(JobId(job)), incarnation: JobIncarnation(1) }
    }

    #[test]
    fn each_rank_has_a_core_of_its_own_as_long_as_there_are_some() {
        let node = cores(&[&[0, 4], &[1, 5], &[2, 6]]);
        assert_eq!(node.bind(key(1), RowSet::ALL, (2, 1), 0), [[0, 4], [1, 5]]);
        assert_eq!(node.bind(key(2), RowSet::ALL, (2, 1), 0), [[2, 6], [0, 4]]);
        node.release(key(1));
        assert_eq!(node.bind(key(3), RowSet::ALL, (1, 1), 0), [[1, 5]]);
    }

    #[test]
    fn a_rank_of_several_elements_has_as_many_cores_if_there_are_so_many() {
        let node = cores(&[&[0, 4], &[1, 5], &[2, 6]]);
        assert_eq!(node.bind(key(1), RowSet::ALL, (1, 2), 0), [[0, 4, 1, 5]]);
        assert_eq!(node.bind(key(2), RowSet::ALL, (2, 1), 0), [[2, 6], [0, 4]]);
        node.release(key(1));
        assert_eq!(node.bind(key(3), RowSet::ALL, (1, 9), 1), [[1, 5, 2, 6, 0, 4]]);
    }

    #[test]
    fn jobs_that_take_turns_may_have_the_same_cores() {
        let node = cores(&[&[0], &[1]]);
        let row = |row| RowSet::single(Row(row));
        assert_eq!(node.bind(key(1), row(0), (1, 1), 0), [[0]]);
        assert_eq!(node.bind(key(2), row(1), (1, 1), 0), [[0]]);
        assert_eq!(node.bind(key(3), row(0), (1, 1), 0), [[1]]);
    }

    #[test]
    fn nodes_of_one_host_begin_at_different_cores() {
        let host = [&[0u16][..], &[1]];
        assert_eq!(cores(&host).bind(key(1), RowSet::ALL, (1, 1), 0), [[0]]);
        assert_eq!(cores(&host).bind(key(1), RowSet::ALL, (1, 1), 1), [[1]]);
        assert_eq!(cores(&host).bind(key(1), RowSet::ALL, (3, 1), 5), [[1], [0], [1]]);
    }

    #[test]
    fn this_host_has_cores_and_the_kernel_s_lists_are_read() {
        let host = Cores::of_this_process().expect("the kernel tells");
        assert!(host.count() > 0 && host.cores.iter().all(|core| !core.is_empty()));
        assert_eq!(parse_list("0,4-6\n"), [0, 4, 5, 6]);
        assert_eq!(parse_list("x,7,9-"), [7]);
    }
}
