//! The terms of a job that users may change after its submission.

use super::JobRecord;
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use std::time::Duration;
use storm_rm::Dependency;

/// The terms, as they are or are to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// The name.
    pub name: String,
    /// The partition.
    pub partition: String,
    /// The time limit.
    pub time_limit: Option<Duration>,
    /// How much the user lowers the priority.
    pub nice: i32,
    /// The comment.
    pub comment: Option<String>,
    /// The jobs that it depends on.
    pub dependency: Option<Dependency>,
}

impl Terms {
    /// The present terms of a job.
    pub fn of(record: &JobRecord) -> Terms {
        Terms {
            name: record.spec.name.clone(),
            partition: record.partition.clone(),
            time_limit: record.spec.time_limit,
            nice: record.service.nice,
            comment: record.spec.remarks.comment.clone(),
            dependency: record.spec.needs.dependency.clone(),
        }
    }

    /// Gives a job these terms.
    pub(super) fn put(&self, record: &mut JobRecord) {
        let spec = Rc::make_mut(&mut record.spec);
        spec.name.clone_from(&self.name);
        spec.time_limit = self.time_limit;
        spec.remarks.comment.clone_from(&self.comment);
        spec.needs.dependency.clone_from(&self.dependency);
        record.partition.clone_from(&self.partition);
        Rc::make_mut(&mut record.service).nice = self.nice;
    }
}
