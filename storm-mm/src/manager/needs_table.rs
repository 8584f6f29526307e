//! The jobs that wait for something other than processing elements, and for whose begin or end they
//! wait: the arrays, the dependencies, and the names of jobs.
//!
//! The table decides nothing. It finds the jobs that a decision concerns without a walk over all
//! jobs.

use super::unmet::Unmet;
use crate::api::{ForgottenJobs, JobState};
use crate::job::{JobRecord, Outcome, Phase};
use jiff::Timestamp;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use storm_rm::{ArraySpec, Condition, JobId, JobSpec};

/// A user and a job name, the scope of `singleton`.
type Named = (u32, String);

/// The table. Dependencies are about *units*: a job, or an array as a whole.
#[derive(Debug, Default)]
pub(super) struct NeedsTable {
    /// Waiting jobs that their policy does not know of.
    pub(super) waiting: BTreeSet<JobId>,
    /// The needs of a former manager's jobs that the configuration cannot meet.
    pub(super) unmet: BTreeMap<JobId, Unmet>,
    /// The jobs that wait for the end of a job or an array.
    pub(super) dependents: BTreeMap<JobId, BTreeSet<JobId>>,
    /// The jobs that wait for the begin of a job or an array.
    pub(super) followers: BTreeMap<JobId, BTreeSet<JobId>>,
    /// For each of those jobs, how much news it still waits for.
    pub(super) awaited: BTreeMap<JobId, Awaited>,
    /// Arrays with a job that is still known.
    pub(super) arrays: BTreeMap<JobId, Array>,
    /// Arrays that are to be filled once an action on many jobs is done; `None` outside of such an
    /// action.
    pub(super) fill_later: Option<BTreeSet<JobId>>,
    /// Units that have not ended.
    names: BTreeMap<Named, BTreeSet<JobId>>,
    /// Ends that waiting jobs have not been told of.
    pub(super) ends: VecDeque<End>,
    /// Begins that waiting jobs have not been told of.
    pub(super) begins: VecDeque<Begin>,
}

/// How much a job waits for, so that its conditions need not all be looked at for each piece of
/// news.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Awaited {
    /// The number of begins and ends that it waits for.
    pub(super) left: usize,
    /// Whether a failed condition has been dealt with.
    pub(super) failed: bool,
}

/// The begin of a job or of all jobs of an array. An end without a begin counts as one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begin {
    pub(super) unit: JobId,
    pub(super) at: Timestamp,
}

/// The end of a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    /// The job, or its array.
    pub(super) unit: JobId,
    /// Whether the unit is COMPLETED; `None` for an array that has not ended.
    pub(super) completed: Option<bool>,
    /// The unit that is now the first of its name and user.
    pub(super) next_of_name: Option<JobId>,
}

/// An array of jobs.
#[derive(Clone, Debug)]
pub(super) struct Array {
    pub(super) spec: Rc<JobSpec>,
    /// The number of its jobs, whose numbers follow its own.
    pub(super) size: u32,
    /// The number of its jobs that have not ended.
    left: u32,
    /// The number of its jobs that have neither begun nor ended.
    unbegun: u32,
    /// When the latest of the other jobs began or ended.
    begun: Option<Timestamp>,
    /// The cached indices of an array of several ranges.
    indices: OnceCell<Vec<u32>>,
    /// The summary of its jobs that are no longer remembered.
    pub(super) forgotten: ForgottenJobs,
    /// All that have ended are COMPLETED.
    completed: bool,
    /// In an array with a limit: the jobs that their policy knows of and that have not ended.
    pub(super) entered: BTreeSet<JobId>,
}

impl Array {
    /// Whether another of its jobs may go to the policy.
    pub(super) fn has_room(&self) -> bool {
        let limit = self.spec.needs.array.as_ref().and_then(|array| array.limit);
        limit.is_none_or(|limit| self.entered.len() < limit as usize)
    }

    /// The number of its jobs before the job with this index, if there is such a job.
    fn position(&self, index: u32) -> Option<u64> {
        let spec = self.spec.needs.array.as_ref()?;
        if let [range] = spec.ranges[..] {
            let offset = index.checked_sub(range.first)?;
            let is_one = index <= range.last && offset.is_multiple_of(range.step);
            return is_one.then(|| u64::from(offset / range.step));
        }
        let all = || spec.indices(ArraySpec::MAX_TASKS).unwrap_or_default();
        let found = self.indices.get_or_init(all).binary_search(&index);
        found.ok().map(|position| position as u64)
    }

    /// One more of its jobs has begun. If all have, returns the latest time.
    fn one_begun(&mut self, at: Timestamp) -> Option<Timestamp> {
        self.unbegun = self.unbegun.saturating_sub(1);
        self.begun = self.begun.max(Some(at));
        self.begun.filter(|_| self.unbegun == 0)
    }
}

impl NeedsTable {
    /// Adds the records of one submission: a job, or the jobs of an array.
    pub(super) fn submitted(&mut self, unit: JobId, records: &[JobRecord]) {
        let Some(first) = records.first() else { return };
        self.names.entry(named(first)).or_default().insert(unit);
        if first.task.is_some() {
            let size = records.len() as u32;
            let (spec, entered) = (first.spec.clone(), BTreeSet::new());
            let forgotten = ForgottenJobs { array: unit, size, jobs: 0, failed: 0, exit_code: 0 };
            let array = Array {
                spec,
                size,
                left: size,
                unbegun: size,
                begun: None,
                indices: OnceCell::new(),
                forgotten,
                completed: true,
                entered,
            };
            self.arrays.insert(unit, array);
        }
    }

    /// A job has begun for the first time, or has ended without beginning.
    pub(super) fn job_begun(&mut self, record: &JobRecord, at: Timestamp) {
        self.begins.push_back(Begin { unit: record.id, at });
        let unit = record.unit();
        let array = self.arrays.get_mut(&unit).filter(|_| record.task.is_some());
        if let Some(at) = array.and_then(|array| array.one_begun(at)) {
            self.begins.push_back(Begin { unit, at });
        }
    }

    /// A job has ended.
    pub(super) fn job_ended(&mut self, record: &JobRecord, outcome: &Outcome) {
        let job = record.id;
        self.waiting.remove(&job);
        self.unmet.remove(&job);
        self.forget_conditions(record);
        if record.begun.is_none() {
            self.job_begun(record, record.ended.unwrap_or(record.submitted));
        }
        let completed = outcome.state == JobState::Completed;
        let unit = record.unit();
        if record.task.is_some() {
            let own = End { unit: job, completed: Some(completed), next_of_name: None };
            self.ends.push_back(own);
            let Some(array) = self.arrays.get_mut(&unit) else { return };
            array.entered.remove(&job);
            array.left = array.left.saturating_sub(1);
            array.completed &= completed;
            if array.left > 0 {
                return self.ends.push_back(End { unit, completed: None, next_of_name: None });
            }
        }
        let completed = self.arrays.get(&unit).map_or(completed, |array| array.completed);
        let next_of_name = self.name_freed(record);
        self.ends.push_back(End { unit, completed: Some(completed), next_of_name });
    }

    /// The unit of a record has ended. Returns the first unit of its name, if that is now another.
    fn name_freed(&mut self, record: &JobRecord) -> Option<JobId> {
        let units = self.names.get_mut(&named(record))?;
        let was_first = units.first() == Some(&record.unit());
        units.remove(&record.unit());
        let next = units.first().copied();
        if next.is_none() {
            self.names.remove(&named(record));
        }
        next.filter(|_| was_first)
    }

    fn forget_conditions(&mut self, record: &JobRecord) {
        if self.awaited.remove(&record.id).is_none() {
            return;
        }
        let forget = |waiting: &mut BTreeMap<JobId, BTreeSet<JobId>>, on: JobId| {
            if let Some(jobs) = waiting.get_mut(&on) {
                jobs.remove(&record.id);
                if jobs.is_empty() {
                    waiting.remove(&on);
                }
            }
        };
        for condition in conditions(record) {
            match condition {
                Condition::After { job, .. } => forget(&mut self.followers, job),
                Condition::AfterOk(_)
                | Condition::AfterAny(_)
                | Condition::AfterNotOk(_)
                | Condition::AfterCorr(_)
                | Condition::Singleton => {
                    let on = self.awaited_end(record, condition);
                    on.into_iter().for_each(|on| forget(&mut self.dependents, on));
                }
            }
        }
    }

    /// The job or array whose end a condition waits for, if it is known.
    pub(super) fn awaited_end(&self, record: &JobRecord, condition: Condition) -> Option<JobId> {
        match condition {
            Condition::AfterOk(on) | Condition::AfterAny(on) | Condition::AfterNotOk(on) => {
                Some(on)
            }
            Condition::AfterCorr(array) => self.task_with(array, record.task?.index),
            Condition::After { .. } | Condition::Singleton => None,
        }
    }

    /// The job of an array that has this index.
    pub(super) fn task_with(&self, array: JobId, index: u32) -> Option<JobId> {
        let position = self.arrays.get(&array)?.position(index)?;
        Some(JobId(array.0.saturating_add(1).saturating_add(position)))
    }

    /// A job that has ended is forgotten.
    pub(super) fn forgotten(&mut self, record: &JobRecord) {
        let Some(task) = record.task else { return };
        if let Some(array) = self.arrays.get_mut(&task.array) {
            let forgotten = &mut array.forgotten;
            forgotten.jobs += 1;
            if let Phase::Ended(outcome) = &record.phase {
                forgotten.failed += u32::from(outcome.state != JobState::Completed);
                forgotten.exit_code = forgotten.exit_code.max(outcome.exit_code);
            }
            if forgotten.jobs >= array.size {
                self.arrays.remove(&task.array);
            }
        }
    }

    /// `None` until an array has ended; then whether all its jobs are COMPLETED.
    pub(super) fn array_ended(&self, array: JobId) -> Option<bool> {
        self.arrays.get(&array).filter(|array| array.left == 0).map(|array| array.completed)
    }

    /// When the last job of an array has begun, or ended without beginning.
    pub(super) fn array_begun(&self, array: JobId) -> Option<Timestamp> {
        self.arrays.get(&array).filter(|array| array.unbegun == 0).and_then(|array| array.begun)
    }

    /// Whether all jobs of an array that have ended are COMPLETED.
    pub(super) fn array_is_well(&self, array: JobId) -> bool {
        self.arrays.get(&array).is_some_and(|array| array.completed)
    }

    /// Whether no earlier unit of the same name and user is left.
    pub(super) fn is_first_of_its_name(&self, record: &JobRecord) -> bool {
        let first = self.names.get(&named(record)).and_then(|units| units.first());
        first.is_none_or(|first| *first >= record.unit())
    }

    /// The numbers of the jobs of an array.
    pub(super) fn tasks_of(&self, array: JobId) -> Vec<JobId> {
        let size = self.arrays.get(&array).map_or(0, |array| u64::from(array.size));
        (1..=size).map(|offset| JobId(array.0.saturating_add(offset))).collect()
    }
}

/// The conditions that a job depends on.
pub(super) fn conditions(record: &JobRecord) -> impl Iterator<Item = Condition> + '_ {
    record.spec.needs.dependency.iter().flat_map(|needed| &needed.conditions).copied()
}

fn named(record: &JobRecord) -> Named {
    (record.spec.owner.uid, record.spec.name.clone())
}
