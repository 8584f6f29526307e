//! Which entries of the journal nobody needs any more: those of jobs that have ended
//! and are not among the latest that have.
//!
//! The numbers of jobs and of runs go on where the journal ends: the job with the
//! highest number and the one with the latest run stay, however long ago they ended.

use super::Entry;
use crate::job::JobEventKind;
use std::collections::{BTreeMap, VecDeque};
use storm_rm::{JobId, JobIncarnation};

/// Ended jobs beyond those retained that are removed together: removal costs as much
/// as writing, and one transaction for many costs little.
const SLACK: usize = 256;

/// What an entry is to the room it takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    job: JobId,
    /// The run that it begins.
    run: Option<JobIncarnation>,
    /// It is the last of its job.
    ends: bool,
    /// It is of no job, and says what nodes are drained.
    of_nodes: bool,
}

impl From<&Entry> for Mark {
    fn from((job, event): &Entry) -> Mark {
        let (run, ends) = match &event.kind {
            JobEventKind::Placed { incarnation, .. } => (Some(*incarnation), false),
            JobEventKind::Ended { .. } => (None, true),
            JobEventKind::Submitted { .. }
            | JobEventKind::Started { .. }
            | JobEventKind::Ending { .. }
            | JobEventKind::Requeued { .. }
            | JobEventKind::Ran { .. }
            | JobEventKind::Moved { .. }
            | JobEventKind::NodesDrained { .. } => (None, false),
        };
        let of_nodes = matches!(event.kind, JobEventKind::NodesDrained { .. });
        Mark { job: *job, run, ends, of_nodes }
    }
}

/// What is kept, and what is not.
#[derive(Debug)]
pub(super) struct Retention {
    retained: usize,
    entries: BTreeMap<JobId, Vec<u64>>,
    ended: VecDeque<JobId>,
    /// The entry that says what nodes are drained, and those that it has replaced.
    of_nodes: Option<u64>,
    replaced: Vec<u64>,
    last_run: Option<(JobIncarnation, JobId)>,
    next: u64,
}

impl Retention {
    /// Keeps the latest `retained` ended jobs.
    pub(super) fn new(retained: usize) -> Retention {
        Retention {
            retained,
            entries: BTreeMap::new(),
            ended: VecDeque::new(),
            of_nodes: None,
            replaced: Vec::new(),
            last_run: None,
            next: 0,
        }
    }

    /// An entry is in the journal.
    pub(super) fn note(&mut self, sequence: u64, mark: Mark) {
        let Mark { job, run, ends, of_nodes } = mark;
        self.next = sequence + 1;
        if of_nodes {
            self.replaced.extend(self.of_nodes.replace(sequence));
            return;
        }
        self.entries.entry(job).or_default().push(sequence);
        self.last_run = self.last_run.max(run.map(|run| (run, job)));
        if ends {
            self.ended.push_back(job);
        }
    }

    /// The number of the next entry.
    pub(super) fn next_sequence(&self) -> u64 {
        self.next
    }

    /// Whether enough is unneeded to be removed.
    pub(super) fn is_due(&self) -> bool {
        self.ended.len() >= self.retained.saturating_add(SLACK) || self.replaced.len() >= SLACK
    }

    /// The entries that can be removed, which are forgotten here.
    pub(super) fn take_unneeded(&mut self) -> Vec<u64> {
        let last_job = self.entries.last_key_value().map(|(job, _)| *job);
        let last_run = self.last_run.map(|(_, job)| job);
        let mut unneeded = std::mem::take(&mut self.replaced);
        let mut stay = VecDeque::new();
        while self.ended.len() + stay.len() > self.retained
            && let Some(job) = self.ended.pop_front()
        {
            if Some(job) == last_job || Some(job) == last_run {
                stay.push_back(job);
            } else {
                unneeded.extend(self.entries.remove(&job).unwrap_or_default());
            }
        }
        stay.extend(self.ended.drain(..));
        self.ended = stay;
        unneeded
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::JobState;
    use crate::job::{JobEvent, Outcome};
    use storm_rm::Row;

    fn entry(job: u64, kind: JobEventKind) -> Entry {
        (JobId(job), JobEvent { at: jiff::Timestamp::UNIX_EPOCH, kind })
    }

    fn ended(job: u64) -> Entry {
        let outcome = Outcome { state: JobState::Completed, exit_code: 0, reason: None };
        entry(job, JobEventKind::Ended { outcome, exits: Vec::new() })
    }

    fn placed(job: u64, run: u32) -> Entry {
        let (ranks, row) = (Vec::new(), Row(0));
        let incarnation = JobIncarnation(run);
        let node_list = String::new();
        entry(job, JobEventKind::Placed { incarnation, ranks, row, node_list })
    }

    #[test]
    fn the_oldest_ended_jobs_go_whole_and_those_that_number_the_next_stay() {
        let mut retention = Retention::new(2);
        let entries = [
            placed(1, 7),
            placed(2, 1),
            placed(3, 2),
            ended(1),
            ended(2),
            ended(3),
            placed(9, 3),
            ended(9),
            placed(5, 4),
            ended(5),
            placed(4, 5),
        ];
        (0..).zip(&entries).for_each(|(sequence, entry)| retention.note(sequence, entry.into()));
        let mut unneeded = retention.take_unneeded();
        unneeded.sort_unstable();
        // Jobs 2, 3 and 5 go: 1 has the latest run, 9 the highest number, 4 goes on.
        assert_eq!(unneeded, [1, 2, 4, 5, 8, 9]);
        assert_eq!(retention.take_unneeded(), [] as [u64; 0]);
        assert_eq!(retention.next_sequence(), entries.len() as u64);
    }

    #[test]
    fn what_nodes_are_drained_is_kept_in_its_latest_entry() {
        let mut retention = Retention::new(2);
        let drained = || JobEventKind::NodesDrained { drained: Default::default() };
        let entries = [entry(0, drained()), placed(1, 1), entry(0, drained()), entry(0, drained())];
        (0..).zip(&entries).for_each(|(sequence, entry)| retention.note(sequence, entry.into()));
        assert_eq!(retention.take_unneeded(), [0, 2]);
        assert_eq!(retention.take_unneeded(), [] as [u64; 0]);
        assert_eq!(retention.next_sequence(), 4);
    }
}
