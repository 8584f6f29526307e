//! The jobs that have not ended, and the ended jobs that are remembered. The table also has
//! everything that follows from their records: the needs of waiting jobs, the memory that users'
//! jobs hold, the order of suspension. Only this module changes a record, and only by an event.

mod checking;
mod held_bytes;
mod needs;
mod unmet;
mod waiting;

pub(super) use checking::{no_such_job, without_dependency};
pub(super) use held_bytes::MAX_BYTES_PER_USER;
pub(super) use needs::{Begin, End, NeedsTable, Notice, conditions};
pub(super) use unmet::Unmet;

use crate::history::History;
use crate::job::{JobEvent, JobEventKind, JobRecord, Phase};
use held_bytes::HeldBytes;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Index};
use std::rc::Rc;
use storm_rm::{ArraySpec, Environment, JobId, JobSpec, RecentEnvironments};

/// The table.
pub(super) struct JobTable {
    records: BTreeMap<JobId, JobRecord>,
    /// Which of the ended jobs are remembered.
    history: History,
    /// The needs of jobs other than elements, and the arrays.
    needs: NeedsTable,
    /// Suspended jobs, in the order of their suspension.
    suspended: Vec<JobId>,
    /// The memory that each user's jobs hold.
    held_bytes: HeldBytes,
    environments: RecentEnvironments,
    /// The latest changed specification, before and after: jobs that share theirs share it after
    /// the same change, too.
    changed: Option<(Rc<JobSpec>, Rc<JobSpec>)>,
    /// Jobs that clients wait for.
    awaited: BTreeSet<JobId>,
    next_id: u64,
    /// The cluster is going down: no job is admitted or starts any more.
    closed: bool,
}

impl Index<&JobId> for JobTable {
    type Output = JobRecord;

    fn index(&self, job: &JobId) -> &JobRecord {
        &self.records[job]
    }
}

impl JobTable {
    /// Makes a table that keeps `history_limit` ended jobs.
    pub(super) fn new(history_limit: usize) -> JobTable {
        JobTable {
            records: BTreeMap::new(),
            history: History::new(history_limit),
            needs: NeedsTable::default(),
            suspended: Vec::new(),
            held_bytes: HeldBytes::default(),
            environments: RecentEnvironments::default(),
            changed: None,
            awaited: BTreeSet::new(),
            next_id: 1,
            closed: false,
        }
    }

    pub(super) fn get(&self, job: &JobId) -> Option<&JobRecord> {
        self.records.get(job)
    }

    pub(super) fn contains_key(&self, job: &JobId) -> bool {
        self.records.contains_key(job)
    }

    /// The records, by the numbers of their jobs.
    pub(super) fn values(&self) -> impl Iterator<Item = &JobRecord> {
        self.records.values()
    }

    /// The numbers of all jobs.
    pub(super) fn keys(&self) -> impl Iterator<Item = &JobId> {
        self.records.keys()
    }

    /// The records after that of `job`, or all.
    pub(super) fn after(&self, job: Option<JobId>) -> impl Iterator<Item = &JobRecord> {
        let behind = job.map_or(Bound::Unbounded, Bound::Excluded);
        self.records.range((behind, Bound::Unbounded)).map(|(_, record)| record)
    }

    /// Ended jobs and their places in the history, the latest first; with `before`, only those
    /// before that place.
    pub(super) fn ended(&self, before: Option<u64>) -> impl Iterator<Item = (u64, &JobRecord)> {
        let known = self.history.latest(before);
        known.filter_map(|(place, job)| Some((place, self.records.get(&job)?)))
    }

    /// Applies an event of a job. A record changes in no other way.
    pub(super) fn apply(&mut self, job: JobId, event: &JobEvent) {
        let Some(record) = self.records.get_mut(&job) else { return self.submitted(job, event) };
        let begun_before = record.begun.is_some();
        match &event.kind {
            JobEventKind::Changed { .. } => {
                self.needs.name_leaves(record);
                self.held_bytes.remove(&record.spec);
                let before = record.spec.clone();
                record.apply(event);
                match &self.changed {
                    Some((of, to)) if Rc::ptr_eq(of, &before) && *to == record.spec => {
                        record.spec = to.clone();
                    }
                    Some(_) | None => self.changed = Some((before, record.spec.clone())),
                }
                self.held_bytes.add(&record.spec);
                self.needs.name_comes(record);
            }
            _ => record.apply(event),
        }
        let known = self.suspended.iter().position(|other| *other == job);
        match (record.suspended_for, known) {
            (Some(_), None) => self.suspended.push(job),
            (None, Some(at)) => drop(self.suspended.remove(at)),
            (Some(_), Some(_)) | (None, None) => {}
        }
        if let (false, Some(at)) = (begun_before, record.begun) {
            self.needs.job_begun(record, at);
        }
        if let JobEventKind::Ended { outcome, .. } = &event.kind {
            self.needs.job_ended(record, outcome);
            record.spec = self.held_bytes.remove(&record.spec);
            let forgotten = self.history.note(job, record.spec.owner.uid);
            if let Some(forgotten) = forgotten.and_then(|job| self.records.remove(&job)) {
                self.needs.forgotten(&forgotten);
            }
        }
    }

    /// Adds the records of a submission.
    fn submitted(&mut self, job: JobId, event: &JobEvent) {
        let records = JobRecord::from_first(job, event);
        self.needs.submitted(job, &records);
        for record in records {
            if let Entry::Vacant(place) = self.records.entry(record.id) {
                self.held_bytes.add(&record.spec);
                place.insert(record);
            }
        }
    }

    /// Continues the numbers after an event of the journal, and shares its environment.
    pub(super) fn read(&mut self, job: JobId, event: &mut JobEvent) {
        self.next_id = self.next_id.max(job.0.saturating_add(1));
        if let JobEventKind::ArraySubmitted { spec, .. } = &event.kind {
            let array = spec.needs.array.as_ref();
            let indices = array.and_then(|array| array.indices(ArraySpec::MAX_TASKS).ok());
            let last = job.0.saturating_add(indices.map_or(0, |all| all.len() as u64));
            self.next_id = self.next_id.max(last.saturating_add(1));
        }
        if let JobEventKind::Submitted { spec, .. } | JobEventKind::ArraySubmitted { spec, .. } =
            &mut event.kind
        {
            let shared = self.environments.shared(&spec.step.env);
            Rc::make_mut(spec).step.env = shared;
        }
    }

    /// The number of the next job or array.
    pub(super) fn next_id(&self) -> JobId {
        JobId(self.next_id)
    }

    /// Takes the next numbers: one, and one for each job of an array.
    pub(super) fn take_ids(&mut self, tasks: Option<u64>) {
        self.next_id += 1 + tasks.unwrap_or(0);
    }

    /// The number of jobs and arrays that were submitted, with the jobs of arrays.
    pub(super) fn submitted_count(&self) -> u64 {
        self.next_id - 1
    }

    /// An equal environment that other jobs have, if there is one of late.
    pub(super) fn shared_environment(&mut self, env: &Environment) -> Environment {
        self.environments.shared(env)
    }

    /// How many unfinished jobs a user has.
    pub(super) fn unfinished_of(&self, uid: u32) -> usize {
        self.held_bytes.jobs_of(uid)
    }

    /// The bytes that the jobs of its user would take with one more of this specification.
    pub(super) fn held_bytes_with(&self, spec: &JobSpec) -> u64 {
        self.held_bytes.with(spec)
    }

    pub(super) fn needs(&self) -> &NeedsTable {
        &self.needs
    }

    /// Suspended jobs, in the order of their suspension.
    pub(super) fn suspended(&self) -> &[JobId] {
        &self.suspended
    }

    /// The ends of these jobs are awaited by clients.
    pub(super) fn await_ends(&mut self, jobs: impl IntoIterator<Item = JobId>) {
        self.awaited.extend(jobs);
    }

    /// The end of a job is reported. Returns whether it was awaited.
    pub(super) fn end_is_told(&mut self, job: JobId) -> bool {
        self.awaited.remove(&job)
    }

    /// No job is admitted or starts any more.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Whether the cluster is going down.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// The jobs that a number stands for: the job itself, or those of an array.
    pub(super) fn of(&self, job: JobId) -> Vec<JobId> {
        if self.needs.is_array(job) {
            let known = |task: &JobId| self.records.contains_key(task);
            self.needs.tasks_of(job).into_iter().filter(known).collect()
        } else {
            vec![job]
        }
    }

    /// The job that a request about a number is about. For an array, the first job that has not
    /// ended, or else the last.
    pub(super) fn one_of(&self, job: JobId) -> JobId {
        let jobs = self.of(job);
        let goes_on = |job: &&JobId| {
            let record = self.get(job);
            record.is_some_and(|record| !matches!(record.phase, Phase::Ended(_)))
        };
        jobs.iter().find(goes_on).or(jobs.last()).copied().unwrap_or(job)
    }

    /// A job's name for users: its number, or its array and index.
    pub(super) fn name(&self, job: JobId) -> String {
        let task = self.get(&job).and_then(|record| record.task);
        task.map_or_else(|| job.to_string(), |task| task.to_string())
    }

    /// A job of an array is handed to its policy.
    pub(super) fn enter(&mut self, job: JobId) {
        if let Some(task) = self.records.get(&job).and_then(|record| record.task) {
            self.needs.task_entered(task.array, job);
        }
    }

    /// A job of an array is taken away from its policy. Returns the array.
    pub(super) fn leave(&mut self, job: JobId) -> Option<JobId> {
        let task = self.records.get(&job).and_then(|record| record.task)?;
        self.needs.task_left(task.array, job).then_some(task.array)
    }

    #[cfg(test)]
    pub(super) fn set_history_limit(&mut self, limit: usize) {
        self.history = History::new(limit);
    }
}
