//! The tasks of a live job: its staging and its timers.

use crate::TimerKind;
use std::cell::RefCell;
use std::collections::BTreeMap;
use storm_primitives::Task;
use storm_rm::JobId;

/// The duty of a task; a job has at most one task per duty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Duty {
    Staging,
    Launch,
    TimeLimit,
    Kill,
    Recovery,
    Fenced,
    Begin,
    Output,
    Priorities,
    Wake,
    Returned,
}

impl From<TimerKind> for Duty {
    fn from(kind: TimerKind) -> Duty {
        match kind {
            TimerKind::Launch => Duty::Launch,
            TimerKind::TimeLimit => Duty::TimeLimit,
            TimerKind::Kill => Duty::Kill,
            TimerKind::Recovery => Duty::Recovery,
            TimerKind::Fenced => Duty::Fenced,
            TimerKind::Begin => Duty::Begin,
            TimerKind::Output => Duty::Output,
            TimerKind::Priorities => Duty::Priorities,
            TimerKind::Wake => Duty::Wake,
            TimerKind::Returned => Duty::Returned,
        }
    }
}

/// The tasks of all live jobs.
#[derive(Default)]
pub(super) struct JobTasks {
    tasks: RefCell<BTreeMap<JobId, BTreeMap<Duty, Task>>>,
}

// Tasks are dropped outside the borrows, because dropping a task may touch the map.
impl JobTasks {
    /// Keeps a task; ends the one that had its duty before.
    pub(super) fn set(&self, job: JobId, duty: Duty, task: Task) {
        let former = self.tasks.borrow_mut().entry(job).or_default().insert(duty, task);
        drop(former);
    }

    /// Ends all tasks of a job.
    pub(super) fn end(&self, job: JobId) {
        let ended = self.tasks.borrow_mut().remove(&job);
        drop(ended);
    }

    /// Ends all tasks.
    pub(super) fn end_all(&self) {
        let ended = self.tasks.take();
        drop(ended);
    }
}
