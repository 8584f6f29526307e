//! The jobs that wait for something other than processing elements, and the jobs whose begin or end
//! they wait for. The table has the arrays, the dependencies, and the names of jobs.
//!
//! The table decides nothing. The table finds the jobs that a decision concerns without a walk over
//! all jobs.

mod names;

use super::unmet::Unmet;
use crate::api::{ForgottenJobs, JobState};
use crate::job::{JobRecord, Outcome, Phase};
use jiff::Timestamp;
use names::named;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use storm_rm::{ArraySpec, Condition, JobId, JobSpec};

/// A user and a job name, the scope of `singleton`.
type Named = (u32, String);

/// The table. Dependencies are about *units*: a job, or an array as a whole.
#[derive(Debug, Default)]
pub(in crate::manager) struct NeedsTable {
    /// Waiting jobs that are not with their policy.
    waiting: BTreeSet<JobId>,
    /// The needs of a former manager's jobs that the configuration cannot meet.
    unmet: BTreeMap<JobId, Unmet>,
    watches: Watches,
    /// Arrays with a job that is still in the table of jobs.
    arrays: BTreeMap<JobId, Array>,
    /// Arrays that are to be filled once an action on many jobs is done; `None` outside of such an
    /// action.
    fill_later: Option<BTreeSet<JobId>>,
    /// Units that have not ended.
    names: BTreeMap<Named, BTreeSet<JobId>>,
    news: News,
}

/// The jobs that wait for the begins and ends of others.
#[derive(Debug, Default)]
struct Watches {
    /// The jobs that wait for the end of a job or an array.
    dependents: BTreeMap<JobId, BTreeSet<JobId>>,
    /// The jobs that wait for the begin of a job or an array.
    followers: BTreeMap<JobId, BTreeSet<JobId>>,
    /// For each of those jobs, how many events it still waits for.
    awaited: BTreeMap<JobId, Awaited>,
}

/// The begins and ends that waiting jobs have not been notified of.
#[derive(Debug, Default)]
struct News {
    ends: VecDeque<End>,
    begins: VecDeque<Begin>,
    /// Waiting jobs are being notified.
    settling: bool,
}

/// News for waiting jobs, with the jobs that waited for it.
#[derive(Debug)]
pub(in crate::manager) enum Notice {
    /// A begin.
    Begin(Begin, BTreeSet<JobId>),
    /// An end. Nobody has waited for the end of an array that goes on.
    End(End, BTreeSet<JobId>),
}

/// How much a job waits for, so that its conditions need not all be checked at each event.
#[derive(Clone, Copy, Debug, Default)]
struct Awaited {
    /// The number of begins and ends that it waits for.
    left: usize,
    /// Whether a failed condition has been dealt with.
    failed: bool,
}

/// The begin of a job or of all jobs of an array. An end without a begin counts as a begin.
#[derive(Clone, Copy, Debug)]
pub(in crate::manager) struct Begin {
    pub(in crate::manager) unit: JobId,
    pub(in crate::manager) at: Timestamp,
}

/// The end of a job.
#[derive(Clone, Copy, Debug)]
pub(in crate::manager) struct End {
    /// The job, or its array.
    pub(in crate::manager) unit: JobId,
    /// Whether the unit is COMPLETED; `None` for an array that has not ended.
    pub(in crate::manager) completed: Option<bool>,
    /// The unit that is now the first of its name and user.
    pub(in crate::manager) next_of_name: Option<JobId>,
}

/// An array of jobs.
#[derive(Clone, Debug)]
pub(in crate::manager) struct Array {
    spec: Rc<JobSpec>,
    /// The number of its jobs, whose numbers follow its own.
    size: u32,
    /// The number of its jobs that have not ended.
    left: u32,
    /// The number of its jobs that have neither begun nor ended.
    unbegun: u32,
    /// When the latest of the other jobs began or ended.
    begun: Option<Timestamp>,
    /// The cached indices of an array of several ranges.
    indices: OnceCell<Vec<u32>>,
    /// The summary of its jobs that are no longer remembered.
    forgotten: ForgottenJobs,
    /// Whether all its ended jobs are COMPLETED.
    completed: bool,
    /// In an array with a limit: the jobs that their policy has and that have not ended.
    entered: BTreeSet<JobId>,
}

impl Array {
    /// How many of its jobs may be with their policy at once, if their number is limited.
    pub(in crate::manager) fn limit(&self) -> Option<u32> {
        self.spec.needs.array.as_ref().and_then(|array| array.limit)
    }

    /// Whether a job of it is with its policy.
    pub(in crate::manager) fn has_entered(&self, job: JobId) -> bool {
        self.entered.contains(&job)
    }

    /// The summary of its jobs that are no longer remembered.
    pub(in crate::manager) fn forgotten(&self) -> &ForgottenJobs {
        &self.forgotten
    }

    /// Whether another of its jobs may go to the policy.
    pub(in crate::manager) fn has_room(&self) -> bool {
        self.limit().is_none_or(|limit| self.entered.len() < limit as usize)
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
    /// A job waits for something other than elements.
    pub(super) fn wait(&mut self, job: JobId) {
        self.waiting.insert(job);
    }

    /// A job waits for something other than elements no longer. Returns whether it did.
    pub(super) fn stop_waiting(&mut self, job: JobId) -> bool {
        self.waiting.remove(&job)
    }

    /// Whether a job waits for something other than elements.
    pub(in crate::manager) fn is_waiting(&self, job: JobId) -> bool {
        self.waiting.contains(&job)
    }

    /// The jobs that wait for something other than elements.
    pub(in crate::manager) fn waiting(&self) -> &BTreeSet<JobId> {
        &self.waiting
    }

    /// The jobs of an array that wait for something other than elements.
    pub(in crate::manager) fn waiting_of(&self, unit: JobId) -> impl Iterator<Item = JobId> {
        let size = self.arrays.get(&unit).map_or(0, |array| array.size);
        let last = JobId(unit.0.saturating_add(u64::from(size)));
        self.waiting.range(unit..=last).copied()
    }

    /// The unmet need of a job.
    pub(in crate::manager) fn unmet_of(&self, job: JobId) -> Option<&Unmet> {
        self.unmet.get(&job)
    }

    /// The jobs whose needs the configuration cannot meet.
    pub(in crate::manager) fn unmet(&self) -> impl Iterator<Item = (JobId, &Unmet)> {
        self.unmet.iter().map(|(job, lack)| (*job, lack))
    }

    /// Replaces all unmet needs.
    pub(super) fn set_unmet(&mut self, unmet: BTreeMap<JobId, Unmet>) {
        self.unmet = unmet;
    }

    /// The configuration cannot meet a need of a job.
    pub(super) fn lack(&mut self, job: JobId, lack: Unmet) {
        self.unmet.insert(job, lack);
    }

    /// A job lacks files, unless it lacks something else already.
    pub(super) fn lack_files(&mut self, job: JobId) {
        self.unmet.entry(job).or_insert(Unmet::Files);
    }

    /// The need of a job is met.
    pub(super) fn meet(&mut self, job: JobId) {
        self.unmet.remove(&job);
    }

    /// Has a job wait for the begin of a unit.
    pub(super) fn await_begin(&mut self, job: JobId, on: JobId) {
        if self.watches.followers.entry(on).or_default().insert(job) {
            self.watches.awaited.entry(job).or_default().left += 1;
        }
    }

    /// Has a job wait for the end of a unit.
    pub(super) fn await_end(&mut self, job: JobId, on: JobId) {
        if self.watches.dependents.entry(on).or_default().insert(job) {
            self.watches.awaited.entry(job).or_default().left += 1;
        }
    }

    /// An event that a job waited for has arrived. If `failed` is true, a condition cannot be met
    /// any more. Returns whether the job must be checked again: no more events are awaited, or a
    /// condition has failed for the first time. `None` for a job that waits for nothing.
    pub(super) fn told(&mut self, job: JobId, failed: bool) -> Option<bool> {
        let awaited = self.watches.awaited.get_mut(&job)?;
        awaited.left = awaited.left.saturating_sub(1);
        let fails = failed && !awaited.failed;
        awaited.failed |= fails;
        Some(awaited.left == 0 || fails)
    }

    /// The next news for waiting jobs, begins first, with the jobs that waited for it.
    pub(super) fn next_news(&mut self) -> Option<Notice> {
        if let Some(begin) = self.news.begins.pop_front() {
            let waited = self.watches.followers.remove(&begin.unit).unwrap_or_default();
            return Some(Notice::Begin(begin, waited));
        }
        let end = self.news.ends.pop_front()?;
        let waited = match end.completed {
            // Others of the array's jobs have not ended.
            None => BTreeSet::new(),
            Some(_) => self.watches.dependents.remove(&end.unit).unwrap_or_default(),
        };
        Some(Notice::End(end, waited))
    }

    /// Waiting jobs need not be notified of the ends up to now.
    pub(super) fn forget_ends(&mut self) {
        self.news.ends.clear();
    }

    /// Waiting jobs need not be notified of the begins up to now.
    pub(super) fn forget_begins(&mut self) {
        self.news.begins.clear();
    }

    /// Waiting jobs begin or cease to be notified. Returns whether they were being notified.
    pub(super) fn set_settling(&mut self, settling: bool) -> bool {
        std::mem::replace(&mut self.news.settling, settling)
    }

    /// An action on many jobs begins. Returns whether one is already under way.
    pub(super) fn begin_together(&mut self) -> bool {
        let under_way = self.is_together();
        self.fill_later.get_or_insert_default();
        under_way
    }

    /// The action on many jobs is done. Returns the arrays that are to be filled.
    pub(super) fn end_together(&mut self) -> BTreeSet<JobId> {
        self.fill_later.take().unwrap_or_default()
    }

    /// Whether an action on many jobs is under way.
    pub(in crate::manager) fn is_together(&self) -> bool {
        self.fill_later.is_some()
    }

    /// An array is to be filled. Returns whether the filling is put off until the action on many
    /// jobs is done.
    pub(super) fn fill_later(&mut self, unit: JobId) -> bool {
        match &mut self.fill_later {
            Some(later) => {
                later.insert(unit);
                true
            }
            None => false,
        }
    }

    /// The array of this number.
    pub(in crate::manager) fn array(&self, unit: JobId) -> Option<&Array> {
        self.arrays.get(&unit)
    }

    pub(in crate::manager) fn is_array(&self, unit: JobId) -> bool {
        self.arrays.contains_key(&unit)
    }

    /// A job of an array is handed to its policy.
    pub(super) fn task_entered(&mut self, array: JobId, job: JobId) {
        if let Some(array) = self.arrays.get_mut(&array) {
            array.entered.insert(job);
        }
    }

    /// A job of an array is taken away from its policy. Returns whether the array is known.
    pub(super) fn task_left(&mut self, array: JobId, job: JobId) -> bool {
        let Some(array) = self.arrays.get_mut(&array) else { return false };
        array.entered.remove(&job);
        true
    }

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
        self.news.begins.push_back(Begin { unit: record.id, at });
        let unit = record.unit();
        let array = self.arrays.get_mut(&unit).filter(|_| record.task.is_some());
        if let Some(at) = array.and_then(|array| array.one_begun(at)) {
            self.news.begins.push_back(Begin { unit, at });
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
            self.news.ends.push_back(own);
            let Some(array) = self.arrays.get_mut(&unit) else { return };
            array.entered.remove(&job);
            array.left = array.left.saturating_sub(1);
            array.completed &= completed;
            if array.left > 0 {
                return self.news.ends.push_back(End { unit, completed: None, next_of_name: None });
            }
        }
        let completed = self.arrays.get(&unit).map_or(completed, |array| array.completed);
        let next_of_name = self.name_freed(record);
        self.news.ends.push_back(End { unit, completed: Some(completed), next_of_name });
    }

    fn forget_conditions(&mut self, record: &JobRecord) {
        if self.watches.awaited.remove(&record.id).is_none() {
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
                Condition::After { job, .. } => forget(&mut self.watches.followers, job),
                Condition::AfterOk(_)
                | Condition::AfterAny(_)
                | Condition::AfterNotOk(_)
                | Condition::AfterCorr(_)
                | Condition::Singleton => {
                    let on = self.awaited_end(record, condition);
                    on.into_iter().for_each(|on| forget(&mut self.watches.dependents, on));
                }
            }
        }
    }

    /// The job or array whose end a condition waits for, if it is known.
    pub(in crate::manager) fn awaited_end(
        &self,
        record: &JobRecord,
        condition: Condition,
    ) -> Option<JobId> {
        match condition {
            Condition::AfterOk(on) | Condition::AfterAny(on) | Condition::AfterNotOk(on) => {
                Some(on)
            }
            Condition::AfterCorr(array) => self.task_with(array, record.task?.index),
            Condition::After { .. } | Condition::Singleton => None,
        }
    }

    /// The job of an array that has this index.
    pub(in crate::manager) fn task_with(&self, array: JobId, index: u32) -> Option<JobId> {
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
    pub(in crate::manager) fn array_ended(&self, array: JobId) -> Option<bool> {
        self.arrays.get(&array).filter(|array| array.left == 0).map(|array| array.completed)
    }

    /// When the last job of an array has begun, or ended without beginning.
    pub(in crate::manager) fn array_begun(&self, array: JobId) -> Option<Timestamp> {
        self.arrays.get(&array).filter(|array| array.unbegun == 0).and_then(|array| array.begun)
    }

    /// Whether all jobs of an array that have ended are COMPLETED.
    pub(in crate::manager) fn array_is_well(&self, array: JobId) -> bool {
        self.arrays.get(&array).is_some_and(|array| array.completed)
    }

    /// The numbers of the jobs of an array.
    pub(in crate::manager) fn tasks_of(&self, array: JobId) -> Vec<JobId> {
        let size = self.arrays.get(&array).map_or(0, |array| u64::from(array.size));
        (1..=size).map(|offset| JobId(array.0.saturating_add(offset))).collect()
    }
}

/// The conditions that a job depends on.
pub(in crate::manager) fn conditions(record: &JobRecord) -> impl Iterator<Item = Condition> + '_ {
    record.spec.needs.dependency.iter().flat_map(|needed| &needed.conditions).copied()
}
