//! Which jobs wait for something else than processing elements, and for whose end: the
//! arrays of jobs, who depends on whom, and who has which name.
//!
//! What this does not do: decide. It finds what a decision concerns without a walk over
//! all jobs.

use super::unmet::Unmet;
use crate::api::{ForgottenJobs, JobState};
use crate::job::{JobRecord, Outcome, Phase};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use storm_rm::{JobId, JobSpec};

/// A user and the name of jobs: whom `singleton` is about.
type Named = (u32, String);

/// See the top. What dependencies are about is a *unit*: a job, or an array as a whole.
#[derive(Debug, Default)]
pub(super) struct NeedsTable {
    /// Jobs that wait, and that their policy does not know.
    pub(super) waiting: BTreeSet<JobId>,
    /// What the configuration does not have for jobs of a former manager.
    pub(super) unmet: BTreeMap<JobId, Unmet>,
    /// The jobs that wait for the end of a job or an array.
    pub(super) dependents: BTreeMap<JobId, BTreeSet<JobId>>,
    /// Arrays of which a job is known.
    pub(super) arrays: BTreeMap<JobId, Array>,
    /// Arrays that are to be filled when what is done to many jobs is done.
    pub(super) fill_later: Option<BTreeSet<JobId>>,
    /// Units that have not ended.
    names: BTreeMap<Named, BTreeSet<JobId>>,
    /// Ends that others have not been told of.
    pub(super) ends: VecDeque<End>,
}

/// The end of a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    /// The job, or its array.
    pub(super) unit: JobId,
    /// Whether all of it is COMPLETED; of an array, once all of it has ended.
    pub(super) completed: Option<bool>,
    /// The unit that is now the first of its name and user.
    pub(super) next_of_name: Option<JobId>,
}

/// An array of jobs.
#[derive(Clone, Debug)]
pub(super) struct Array {
    pub(super) spec: Rc<JobSpec>,
    /// Its jobs have the numbers after its own, so many.
    pub(super) size: u32,
    /// Those that have not ended.
    left: u32,
    /// Those that are not remembered.
    pub(super) forgotten: ForgottenJobs,
    /// All that have ended are COMPLETED.
    completed: bool,
    /// Of an array with a limit: those that the policy was told of and that have not ended.
    pub(super) entered: BTreeSet<JobId>,
}

impl Array {
    /// Whether another of its jobs may go to the policy.
    pub(super) fn has_room(&self) -> bool {
        let limit = self.spec.needs.array.as_ref().and_then(|array| array.limit);
        limit.is_none_or(|limit| self.entered.len() < limit as usize)
    }
}

impl NeedsTable {
    /// Jobs were admitted together: one, or those of an array.
    pub(super) fn submitted(&mut self, unit: JobId, records: &[JobRecord]) {
        let Some(first) = records.first() else { return };
        self.names.entry(named(first)).or_default().insert(unit);
        if first.task.is_some() {
            let size = records.len() as u32;
            let (spec, entered) = (first.spec.clone(), BTreeSet::new());
            let forgotten = ForgottenJobs { array: unit, size, jobs: 0, failed: 0, exit_code: 0 };
            let array = Array { spec, size, left: size, forgotten, completed: true, entered };
            self.arrays.insert(unit, array);
        }
    }

    /// A job has ended.
    pub(super) fn job_ended(&mut self, record: &JobRecord, outcome: &Outcome) {
        let job = record.id;
        self.waiting.remove(&job);
        self.unmet.remove(&job);
        self.forget_conditions(record);
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

    /// The unit of a record has ended; the first of its name, if that is another now.
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
        for on in dependencies(record) {
            if let Some(waiting) = self.dependents.get_mut(&on) {
                waiting.remove(&record.id);
                if waiting.is_empty() {
                    self.dependents.remove(&on);
                }
            }
        }
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

    /// Whether an array has ended, and if so whether all of it is COMPLETED.
    pub(super) fn array_ended(&self, array: JobId) -> Option<bool> {
        self.arrays.get(&array).filter(|array| array.left == 0).map(|array| array.completed)
    }

    /// Whether no unit of this name and user was submitted before that of `record` and
    /// is left.
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

/// The units that a job depends on.
pub(super) fn dependencies(record: &JobRecord) -> impl Iterator<Item = JobId> + '_ {
    let conditions = record.spec.needs.dependency.iter().flat_map(|needed| &needed.conditions);
    conditions.filter_map(|condition| condition.job())
}

fn named(record: &JobRecord) -> Named {
    (record.spec.owner.uid, record.spec.name.clone())
}
