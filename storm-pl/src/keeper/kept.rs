//! The data of a job that a keeper keeps for the next Node Manager. The data are files of the
//! previous Node Manager, each rank's streams, and ends of ranks meanwhile.

use std::collections::{BTreeMap, HashSet};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::exit::{ExitStatus, Usage};
use crate::ids::{PadId, PlIndex, ProcessId};

/// Names a kept job, between one Node Manager and its successors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeptId(pub u64);

/// How a keeper continues when its Node Manager is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survival {
    /// The socket at which the next Node Manager finds the keeper. The directory exists and belongs
    /// to this user.
    pub door: PathBuf,
    /// How long the keeper waits for the next Node Manager. After this time the keeper ends all
    /// kept jobs.
    pub bound: Duration,
}

/// The streams of a rank that are kept in addition to its command socket. The streams' descriptors
/// travel in the order of the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Keeps {
    pub(crate) stdin: bool,
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
    pub(crate) pmi: bool,
}

impl Keeps {
    /// The number of these descriptors, including the command socket.
    fn descriptors(self) -> usize {
        let Self { stdin, stdout, stderr, pmi } = self;
        1 + [stdin, stdout, stderr, pmi].into_iter().filter(|kept| *kept).count()
    }
}

/// One kept job.
#[derive(Debug)]
pub(super) struct KeptJob {
    pub(super) pad: PadId,
    pub(super) files: Vec<OwnedFd>,
    pub(super) ranks: BTreeMap<PlIndex, KeptRank>,
    /// The pad no longer belongs to this job.
    pub(super) given_back: bool,
    /// The job's lease has run out.
    pub(super) lease_over: bool,
    /// The descriptors of a rank did not arrive: neither that rank nor any later one is kept.
    pub(super) is_short: bool,
}

/// One rank of a kept job.
#[derive(Debug)]
pub(super) struct KeptRank {
    pub(super) pid: ProcessId,
    pub(super) keeps: Keeps,
    pub(super) ends: Vec<OwnedFd>,
    pub(super) ended: Option<(ExitStatus, Usage)>,
}

impl KeptRank {
    /// Closes the rank's standard input. Does nothing for a rank without one.
    pub(super) fn close_input(&mut self) {
        // Standard input follows the command socket.
        if self.keeps.stdin && self.ends.len() == self.keeps.descriptors() {
            drop(self.ends.remove(1));
            self.keeps.stdin = false;
        }
    }
}

/// The kept jobs of a node.
#[derive(Debug, Default)]
pub(super) struct KeptJobs(pub(super) BTreeMap<KeptId, KeptJob>);

impl KeptJobs {
    /// Keeps more of a job. Returns false if descriptors did not arrive because this process has
    /// too many. Without its files, the job is not kept. If a rank's descriptors are missing, the
    /// job is kept without this rank and all later ones. The next Node Manager ends the job, and
    /// has the reason.
    pub(super) fn keep(
        &mut self,
        id: KeptId,
        pad: PadId,
        files: usize,
        ranks: Vec<(PlIndex, Keeps, ProcessId)>,
        descriptors: Vec<OwnedFd>,
    ) -> bool {
        let expected: usize = ranks.iter().map(|(_, keeps, _)| keeps.descriptors()).sum();
        let is_whole = descriptors.len() == files + expected;
        match self.0.get_mut(&id) {
            Some(job) if job.is_short => return true,
            Some(job) if !is_whole => {
                job.is_short = true;
                return false;
            }
            None if files == 0 => return true,
            None if !is_whole => return false,
            Some(_) | None => {}
        }
        let mut descriptors = descriptors.into_iter();
        let job = self.0.entry(id).or_insert_with(|| KeptJob {
            pad,
            files: Vec::new(),
            ranks: BTreeMap::new(),
            given_back: false,
            lease_over: false,
            is_short: false,
        });
        job.files.extend(descriptors.by_ref().take(files));
        for (pl, keeps, pid) in ranks {
            let ends = descriptors.by_ref().take(keeps.descriptors()).collect();
            job.ranks.insert(pl, KeptRank { pid, keeps, ends, ended: None });
        }
        true
    }

    /// Records the end of a process that may be a rank of a kept job.
    pub(super) fn ended(&mut self, pid: ProcessId, status: ExitStatus, usage: Usage) {
        let ranks = self.0.values_mut().flat_map(|job| job.ranks.values_mut());
        for rank in ranks.filter(|rank| rank.pid == pid && rank.ended.is_none()) {
            rank.ended = Some((status, usage));
        }
    }

    /// The processes of the ranks that have not ended, of all jobs.
    pub(super) fn running(&self) -> HashSet<ProcessId> {
        let ranks = self.0.values().flat_map(|job| job.ranks.values());
        ranks.filter(|rank| rank.ended.is_none()).map(|rank| rank.pid).collect()
    }

    /// The jobs that have this pad.
    pub(super) fn on(&mut self, pad: PadId) -> impl Iterator<Item = &mut KeptJob> {
        self.0.values_mut().filter(move |job| job.pad == pad && !job.given_back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    const BOTH: Keeps = Keeps { stdin: true, stdout: true, stderr: true, pmi: true };

    fn open(count: usize) -> Vec<OwnedFd> {
        (0..count).map(|_| File::open("/dev/null").expect("it is there").into()).collect()
    }

    #[test]
    fn a_job_of_which_descriptors_are_missing_is_short_or_not_kept() {
        let mut jobs = KeptJobs::default();
        let rank = |pl| (PlIndex(pl), BOTH, ProcessId(i32::from(pl) + 10));
        assert!(jobs.keep(KeptId(1), PadId(0), 1, vec![rank(0)], open(6)));
        assert!(jobs.keep(KeptId(1), PadId(0), 0, vec![rank(1)], open(5)));
        assert!(!jobs.keep(KeptId(1), PadId(0), 0, vec![rank(2)], open(4)));
        assert!(jobs.keep(KeptId(1), PadId(0), 0, vec![rank(3)], open(5)), "told once");
        let job = &jobs.0[&KeptId(1)];
        assert!(job.is_short && job.files.len() == 1);
        assert_eq!(job.ranks.len(), 2, "the ranks before the first that is missing");
        assert!(!jobs.keep(KeptId(2), PadId(1), 2, Vec::new(), open(1)));
        assert!(jobs.keep(KeptId(2), PadId(1), 0, vec![rank(0)], open(5)));
        assert!(!jobs.0.contains_key(&KeptId(2)), "the rest of it is not a job");
    }

    #[test]
    fn an_input_that_ends_closes_that_descriptor_and_no_other() {
        let mut rank = KeptRank { pid: ProcessId(9), keeps: BOTH, ends: open(5), ended: None };
        rank.close_input();
        assert_eq!((rank.ends.len(), rank.keeps.descriptors()), (4, 4));
        rank.close_input();
        assert_eq!(rank.ends.len(), 4);
    }
}
