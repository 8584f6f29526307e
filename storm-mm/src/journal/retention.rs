//! Finds the entries of the journal that are no longer needed:
//!
//! - the entries of jobs that the [history](History) has forgotten, just as the manager's has;
//! - entries that a later one of the same job or kind has replaced;
//! - the environments of ended jobs, which are most of their size.
//!
//! The numbers of jobs and of runs continue where the journal ends. Therefore the job with the
//! highest number and the job with the latest run stay, however long ago they ended. A manager that
//! begins on the journal remembers the same jobs, whatever else stays.

use super::mark::{JobMark, Mark, OfCluster, OfJob};
use crate::history::History;
use crate::job::goes;
use jiff::Timestamp;
use std::collections::{BTreeMap, VecDeque};
use storm_primitives::NodeId;
use storm_rm::{JobId, JobIncarnation};

/// Forgotten jobs, or replaced entries, that are removed together. Removal costs as much as
/// writing, so one transaction removes many.
const SLACK: u64 = 256;
/// Environments of ended jobs that are left out together, for the same reason.
const ENVIRONMENT_SLACK_BYTES: usize = 1 << 20;

/// A job, or an array. The jobs of an array are kept and removed together, since the array's first
/// entry makes all of them. A job whose end was removed would run again.
#[derive(Debug, Default)]
struct Unit {
    entries: Vec<u64>,
    user: u32,
    /// The number of jobs of the array, whose numbers follow its own; 0 for a single job.
    array: u64,
    /// The number of its jobs that have ended.
    ended: u64,
    /// The number of ended jobs that the history has forgotten.
    forgotten: u64,
}

impl Unit {
    fn jobs(&self) -> u64 {
        self.array.max(1)
    }
}

/// The state that decides which entries stay.
#[derive(Debug)]
pub(super) struct Retention {
    retained: usize,
    /// Which ended jobs are remembered, as in the manager.
    history: History,
    units: BTreeMap<JobId, Unit>,
    /// Units with no remembered job, by their last entries.
    forgotten: BTreeMap<u64, JobId>,
    /// The number of jobs in these units.
    forgotten_jobs: u64,
    /// The number of jobs that were added to these units since the last removal.
    due_jobs: u64,
    /// The latest entry of each kind of the cluster's entries.
    of_cluster: BTreeMap<OfCluster, u64>,
    /// For each job, the ends of steps that are remembered.
    ended_steps: BTreeMap<JobId, VecDeque<(Timestamp, u64)>>,
    /// For each job, the latest entries that a later entry would replace.
    latest: BTreeMap<(JobId, OfJob), u64>,
    /// For each job that has not ended, the entries about jobs that it depends on.
    notes: BTreeMap<JobId, Vec<u64>>,
    replaced: Vec<u64>,
    last_run: Option<(JobIncarnation, JobId)>,
    /// The entries with the environments of unfinished jobs and arrays, and their lengths in bytes.
    environments: BTreeMap<JobId, (u64, usize)>,
    /// The entries with the environments of ended jobs; `idle_bytes` is the total length.
    idle_environments: Vec<u64>,
    idle_bytes: usize,
    next: u64,
}

impl Retention {
    /// Keeps the ended jobs that a manager with room for `retained` of them remembers.
    pub(super) fn new(retained: usize) -> Retention {
        Retention {
            retained,
            history: History::new(retained),
            units: BTreeMap::new(),
            forgotten: BTreeMap::new(),
            forgotten_jobs: 0,
            due_jobs: 0,
            of_cluster: BTreeMap::new(),
            ended_steps: BTreeMap::new(),
            latest: BTreeMap::new(),
            notes: BTreeMap::new(),
            replaced: Vec::new(),
            last_run: None,
            environments: BTreeMap::new(),
            idle_environments: Vec::new(),
            idle_bytes: 0,
            next: 0,
        }
    }

    /// An entry is in the journal.
    pub(super) fn note(&mut self, sequence: u64, mark: Mark) {
        self.next = sequence + 1;
        match mark {
            Mark::Job(mark) => self.note_job(sequence, &mark),
            Mark::Cluster(subject) => {
                self.replaced.extend(self.of_cluster.insert(subject, sequence));
            }
        }
    }

    fn note_job(&mut self, sequence: u64, mark: &JobMark) {
        let id = self.unit_of(mark.job);
        let of_step = mark.ends_step.map(|step| self.take_step(mark.job, step));
        let unit = self.units.entry(id).or_default();
        unit.entries.push(sequence);
        unit.array = unit.array.max(mark.array);
        unit.user = mark.user.unwrap_or(unit.user);
        if mark.environment_bytes > 0 {
            self.environments.insert(id, (sequence, mark.environment_bytes));
        }
        let former = mark.replaces.and_then(|what| self.latest.insert((mark.job, what), sequence));
        let former = former.into_iter().chain(of_step.unwrap_or_default());
        let mut former: Vec<u64> = former.collect();
        if mark.ends_step.is_some() {
            let ended = self.ended_steps.entry(mark.job).or_default();
            ended.push_back((mark.at, sequence));
            while ended.front().is_some_and(|(then, _)| goes(ended.len(), *then, mark.at)) {
                former.extend(ended.pop_front().map(|(_, sequence)| sequence));
            }
        }
        for former in former {
            // Entries are in order.
            if let Ok(at) = unit.entries.binary_search(&former) {
                self.replaced.push(unit.entries.remove(at));
            }
        }
        if mark.is_note {
            self.notes.entry(mark.job).or_default().push(sequence);
        }
        if mark.voids_notes
            && let Some(void) = self.notes.remove(&mark.job)
        {
            // There may be thousands, which would each move the entries behind.
            unit.entries.retain(|entry| void.binary_search(entry).is_err());
            self.replaced.extend(void);
        }
        self.last_run = self.last_run.max(mark.run.map(|run| (run, id)));
        if mark.ends {
            self.note_end(mark.job, id);
        }
    }

    /// Removes and returns the entries that the end of a step replaces.
    fn take_step(&mut self, job: JobId, step: u32) -> Vec<u64> {
        let [first, last] = [NodeId(0), NodeId(u32::MAX)].map(|at| OfJob::StepPartOver(step, at));
        let parts = self.latest.range((job, first)..=(job, last)).map(|((_, what), _)| *what);
        let states = [OfJob::StepBegan(step), OfJob::StepStarted(step), OfJob::StepEnding(step)];
        let of_step: Vec<OfJob> = parts.chain(states).collect();
        of_step.into_iter().filter_map(|what| self.latest.remove(&(job, what))).collect()
    }

    /// A job of this unit has ended.
    fn note_end(&mut self, job: JobId, id: JobId) {
        let first = (job, OfJob::Hold);
        while let Some((key, _)) = self.latest.range(first..).next().filter(|(key, _)| key.0 == job)
        {
            let key = *key;
            self.latest.remove(&key);
        }
        self.notes.remove(&job);
        self.ended_steps.remove(&job);
        let Some(unit) = self.units.get_mut(&id) else { return };
        unit.ended += 1;
        if unit.ended == unit.jobs()
            && let Some((sequence, bytes)) = self.environments.remove(&id)
        {
            self.idle_environments.push(sequence);
            self.idle_bytes += bytes;
        }
        if let Some(forgotten) = self.history.note(job, unit.user) {
            self.forget(forgotten);
        }
    }

    /// The history has forgotten a job.
    fn forget(&mut self, job: JobId) {
        let id = self.unit_of(job);
        let Some(unit) = self.units.get_mut(&id) else { return };
        unit.forgotten += 1;
        if unit.forgotten == unit.jobs()
            && let Some(last) = unit.entries.last()
        {
            self.forgotten.insert(*last, id);
            self.forgotten_jobs += unit.jobs();
            self.due_jobs += unit.jobs();
        }
    }

    /// The array of a job, or itself.
    fn unit_of(&self, job: JobId) -> JobId {
        let before = self.units.range(..=job).next_back();
        let unit = before.filter(|(first, unit)| job.0 - first.0 <= unit.array);
        unit.map_or(job, |(first, _)| *first)
    }

    fn jobs_in(&self, unit: JobId) -> u64 {
        self.units.get(&unit).map_or(1, Unit::jobs)
    }

    /// The number of the next entry.
    pub(super) fn next_sequence(&self) -> u64 {
        self.next
    }

    /// Whether enough entries are unneeded to remove them.
    pub(super) fn is_due(&self) -> bool {
        self.due_jobs >= SLACK || self.replaced.len() as u64 >= SLACK
    }

    /// Whether unneeded environments take enough room to write their entries anew.
    pub(super) fn is_renewal_due(&self) -> bool {
        self.idle_bytes >= ENVIRONMENT_SLACK_BYTES
    }

    /// The entries that no longer need their environment; this list forgets them. Some may have
    /// been [removed](Self::take_unneeded) since.
    pub(super) fn take_idle_environments(&mut self) -> Vec<u64> {
        self.idle_bytes = 0;
        std::mem::take(&mut self.idle_environments)
    }

    /// The entries that can be removed; this list forgets them.
    pub(super) fn take_unneeded(&mut self) -> Vec<u64> {
        let last_job = self.units.last_key_value().map(|(job, _)| *job);
        let last_run = self.last_run.map(|(_, job)| job);
        let mut unneeded = std::mem::take(&mut self.replaced);
        let mut stay = Vec::new();
        while let Some((last, id)) = self.take_forgotten() {
            if Some(id) == last_job || Some(id) == last_run {
                stay.push((last, id));
            } else if let Some(unit) = self.units.remove(&id) {
                unneeded.extend(unit.entries);
            }
        }
        for (last, id) in stay {
            self.forgotten_jobs += self.jobs_in(id);
            self.forgotten.insert(last, id);
        }
        self.due_jobs = 0;
        unneeded
    }

    /// Takes the next unit with no remembered job. Usage that jobs were charged since the last
    /// `UsageNoted` entry is in the jobs' own entries alone. Jobs with such usage stay, up to the
    /// number of remembered jobs.
    fn take_forgotten(&mut self) -> Option<(u64, JobId)> {
        let noted = self.of_cluster.get(&OfCluster::Usage).copied().unwrap_or(u64::MAX);
        let (&last, &id) = self.forgotten.first_key_value()?;
        if last > noted && self.forgotten_jobs <= self.retained as u64 {
            return None;
        }
        self.forgotten.remove(&last);
        self.forgotten_jobs = self.forgotten_jobs.saturating_sub(self.jobs_in(id));
        Some((last, id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::JobState;
    use crate::cluster::{ClusterEvent, ClusterEventKind};
    use crate::job::{JobEvent, JobEventKind, Outcome, Terms};
    use crate::journal::Entry;
    use storm_rm::Row;

    fn entry(job: u64, kind: JobEventKind) -> Entry {
        Entry::Job(JobId(job), JobEvent { at: jiff::Timestamp::UNIX_EPOCH, kind })
    }

    fn of_cluster(kind: ClusterEventKind) -> Entry {
        Entry::Cluster(ClusterEvent { at: jiff::Timestamp::UNIX_EPOCH, kind })
    }

    fn ended(job: u64) -> Entry {
        let outcome = Outcome { state: JobState::Completed, exit_code: 0, reason: None };
        let ran = std::time::Duration::ZERO;
        entry(job, JobEventKind::Ended { outcome, exits: Vec::new(), ran })
    }

    fn placed(job: u64, run: u64) -> Entry {
        let (ranks, row) = (Vec::new(), Row(0));
        let incarnation = JobIncarnation(run);
        let node_list = String::new();
        entry(job, JobEventKind::Placed { incarnation, ranks, row, node_list })
    }

    /// Regression: every dependency that a job once had stayed in the journal.
    #[test]
    fn notes_of_a_former_dependency_go() {
        let changed = |waits_anew| {
            let terms = Terms {
                name: String::new(),
                partition: String::new(),
                time_limit: None,
                nice: 0,
                comment: None,
                dependency: None,
            };
            let (terms, what) = (Box::new(terms), String::new());
            entry(1, JobEventKind::Changed { uid: 0, terms, what, waits_anew })
        };
        let note = |on| entry(1, JobEventKind::DependencyEnded { on: JobId(on), completed: true });
        let mut retention = Retention::new(2);
        let entries = [placed(1, 1), note(2), note(3), changed(true), note(4), changed(false)];
        (0..).zip(&entries).for_each(|(sequence, entry)| retention.note(sequence, entry.into()));
        let mut unneeded = retention.take_unneeded();
        unneeded.sort_unstable();
        assert_eq!(unneeded, [1, 2, 3]);
        assert_eq!(retention.units[&JobId(1)].entries, [0, 4, 5]);
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
        // Jobs 2 and 3 are removed: 5 and 9 are remembered, 1 has the latest run, 4 continues.
        assert_eq!(unneeded, [1, 2, 4, 5]);
        assert_eq!(retention.take_unneeded(), [] as [u64; 0]);
        assert_eq!(retention.next_sequence(), entries.len() as u64);
    }

    fn array(job: u64, indices: &str) -> Entry {
        let mut spec = crate::manager::model_spec();
        spec.needs.array = Some(indices.parse().expect("an array"));
        let partition = "main".to_owned();
        let (spec, service) = (std::rc::Rc::new(spec), std::rc::Rc::default());
        entry(job, JobEventKind::ArraySubmitted { spec, partition, service })
    }

    #[test]
    fn an_array_is_kept_whole_until_all_of_it_has_ended_and_long_ago() {
        let mut retention = Retention::new(1);
        let entries = [
            array(1, "0-2"),
            placed(2, 1),
            ended(2),
            ended(4),
            placed(5, 2),
            ended(5),
            ended(3),
            placed(6, 3),
            ended(6),
        ];
        let mut taken = Vec::new();
        for (sequence, entry) in (0..).zip(&entries) {
            retention.note(sequence, entry.into());
            let mut unneeded = retention.take_unneeded();
            unneeded.sort_unstable();
            taken.push(unneeded);
        }
        // No entry of the array is removed while one of its jobs runs or is remembered: the job
        // would run again. Then 6 pushes out the last of the array's jobs. Job 5 is removed too: it
        // ended earlier, and no longer has the highest number.
        let nothing = Vec::new();
        let mut expected = vec![nothing; 9];
        expected[6] = vec![0, 1, 2, 3, 6];
        expected[8] = vec![4, 5];
        assert_eq!(taken.concat().len(), 7, "{taken:?}");
        let all: std::collections::BTreeSet<u64> = taken.concat().into_iter().collect();
        assert_eq!(all, expected.concat().into_iter().collect(), "{taken:?}");
        assert!(taken[..6].iter().all(Vec::is_empty), "{taken:?}");
    }

    fn submitted(job: u64, user: u32) -> Entry {
        let mut spec = crate::manager::model_spec();
        spec.owner.uid = user;
        let partition = "main".to_owned();
        let (spec, service) = (std::rc::Rc::new(spec), std::rc::Rc::default());
        entry(job, JobEventKind::Submitted { spec, partition, service })
    }

    /// The array counted as due for removal for ever: each transaction searched all ended jobs.
    #[test]
    fn a_long_array_that_stays_as_the_last_one_is_not_due_for_ever() {
        let mut retention = Retention::new(1);
        let entries = [array(10, "1-300")].into_iter().chain((11..=310).map(ended));
        let entries = entries.chain([ended(1)]);
        (0..).zip(entries).for_each(|(sequence, entry)| retention.note(sequence, (&entry).into()));
        assert!(retention.is_due());
        assert_eq!(retention.take_unneeded(), [] as [u64; 0]);
        assert!(!retention.is_due());
        (302..).zip([placed(400, 1), ended(400)]).for_each(|(sequence, entry)| {
            retention.note(sequence, (&entry).into());
        });
        assert_eq!(retention.take_unneeded(), (0..=301).collect::<Vec<_>>());
    }

    #[test]
    fn jobs_that_are_not_in_the_usage_yet_stay_as_many_as_are_remembered() {
        let mut retention = Retention::new(2);
        let usage = || ClusterEventKind::UsageNoted { usage: Vec::new(), charged: BTreeMap::new() };
        let mut entries = vec![submitted(1, 7), ended(1), of_cluster(usage())];
        entries.extend((2..7).flat_map(|job| [submitted(job, 7), ended(job)]));
        (0..).zip(&entries).for_each(|(sequence, entry)| retention.note(sequence, entry.into()));
        // 5 and 6 are remembered; of 2, 3 and 4 two stay.
        assert_eq!(retention.take_unneeded(), [0, 1, 3, 4]);
        retention.note(13, (&of_cluster(usage())).into());
        assert_eq!(retention.take_unneeded(), [2, 5, 6, 7, 8]);
    }

    #[test]
    fn a_job_that_is_held_and_released_again_and_again_has_one_entry_of_that() {
        let mut retention = Retention::new(5);
        let held = |job| entry(job, JobEventKind::Held { hold: crate::job::Hold::User });
        let released = |job| entry(job, JobEventKind::Released { uid: 7 });
        let entries =
            [array(1, "0-2"), held(2), released(2), held(3), held(9), released(9), held(9)];
        (0..).zip(&entries).for_each(|(sequence, entry)| retention.note(sequence, entry.into()));
        assert_eq!(retention.take_unneeded(), [1, 4, 5]);
        (7..).zip([ended(9), held(9)]).for_each(|(sequence, entry)| {
            retention.note(sequence, (&entry).into());
        });
        assert_eq!(retention.take_unneeded(), [] as [u64; 0], "an end replaces nothing");
    }

    #[test]
    fn environments_of_ended_jobs_are_unneeded_those_of_an_array_when_all_of_it_has_ended() {
        let mut spec = crate::manager::model_spec();
        spec.step.env =
            storm_rm::Environment::default().with("LONG", &"x".repeat(ENVIRONMENT_SLACK_BYTES / 2));
        let submitted = |job, indices: Option<&str>| {
            let mut spec = spec.clone();
            spec.needs.array = indices.map(|indices| indices.parse().expect("an array"));
            let (spec, partition) = (std::rc::Rc::new(spec), "main".to_owned());
            let service = std::rc::Rc::default();
            entry(
                job,
                match indices {
                    None => JobEventKind::Submitted { spec, partition, service },
                    Some(_) => JobEventKind::ArraySubmitted { spec, partition, service },
                },
            )
        };
        let entries = [submitted(1, Some("0-1")), submitted(4, None), ended(2), ended(4), ended(3)];
        let mut retention = Retention::new(10);
        let mut due = Vec::new();
        for (sequence, entry) in (0..).zip(&entries) {
            retention.note(sequence, entry.into());
            due.push(retention.is_renewal_due());
        }
        assert_eq!(due, [false, false, false, false, true]);
        assert_eq!(retention.take_idle_environments(), [1, 0]);
        assert!(!retention.is_renewal_due() && retention.take_idle_environments().is_empty());
    }

    #[test]
    fn the_last_entry_of_each_kind_of_the_cluster_stays() {
        let mut retention = Retention::new(5);
        let set = of_cluster(ClusterEventKind::PartitionsSet { settings: BTreeMap::new() });
        (0..3).for_each(|sequence| retention.note(sequence, (&set).into()));
        assert_eq!(retention.take_unneeded(), [0, 1]);
        assert_eq!(retention.take_unneeded(), [] as [u64; 0]);
    }

    #[test]
    fn drained_nodes_are_kept_in_the_latest_entry() {
        let mut retention = Retention::new(2);
        let drained = || ClusterEventKind::NodesDrained { drained: Default::default() };
        let entries =
            [of_cluster(drained()), placed(1, 1), of_cluster(drained()), of_cluster(drained())];
        (0..).zip(&entries).for_each(|(sequence, entry)| retention.note(sequence, entry.into()));
        assert_eq!(retention.take_unneeded(), [0, 2]);
        assert_eq!(retention.take_unneeded(), [] as [u64; 0]);
        assert_eq!(retention.next_sequence(), 4);
    }
}
