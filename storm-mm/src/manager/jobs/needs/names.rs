//! The names of units: `singleton` makes a job wait until it is the first of its user and name.

use super::{End, Named, NeedsTable};
use crate::job::JobRecord;
use storm_rm::JobId;

impl NeedsTable {
    /// Whether no earlier unit of the same name and user is left.
    pub(in crate::manager) fn is_first_of_its_name(&self, record: &JobRecord) -> bool {
        let first = self.names.get(&named(record)).and_then(|units| units.first());
        first.is_none_or(|first| *first >= record.unit())
    }

    /// The later units of the same name and user.
    pub(in crate::manager) fn later_of_name(&self, record: &JobRecord) -> Vec<JobId> {
        let units = self.names.get(&named(record)).into_iter().flatten();
        units.copied().filter(|unit| *unit > record.unit()).collect()
    }

    /// The unit of a record has ended. Returns the first unit of its name, if another unit is now
    /// the first.
    pub(super) fn name_freed(&mut self, record: &JobRecord) -> Option<JobId> {
        let units = self.names.get_mut(&named(record))?;
        let was_first = units.first() == Some(&record.unit());
        units.remove(&record.unit());
        let next = units.first().copied();
        if next.is_none() {
            self.names.remove(&named(record));
        }
        next.filter(|_| was_first)
    }

    /// The name of a job that is no array's may change. A job of its present name that waits to be
    /// the first is told.
    pub(in crate::manager) fn name_leaves(&mut self, record: &JobRecord) {
        self.forget_conditions(record);
        if record.task.is_none()
            && let Some(next) = self.name_freed(record)
        {
            let next_of_name = Some(next);
            self.news.ends.push_back(End { unit: record.id, completed: None, next_of_name });
        }
    }

    /// The job has its name, which may be another.
    pub(in crate::manager) fn name_comes(&mut self, record: &JobRecord) {
        if record.task.is_none() {
            self.names.entry(named(record)).or_default().insert(record.id);
        }
    }
}

pub(super) fn named(record: &JobRecord) -> Named {
    (record.spec.owner.uid, record.spec.name.clone())
}
