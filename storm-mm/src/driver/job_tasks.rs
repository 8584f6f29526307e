//! The tasks of jobs, their staging and their timers; and the timers of the cluster.

use crate::{ClusterTimer, JobTimer, StepTimer, Timer};
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
    StepStaging(u32),
    StepLaunch(u32),
    StepKill(u32),
    StepClient(u32),
    StepTimeLimit(u32),
}

impl From<JobTimer> for Duty {
    fn from(kind: JobTimer) -> Duty {
        match kind {
            JobTimer::Launch => Duty::Launch,
            JobTimer::TimeLimit => Duty::TimeLimit,
            JobTimer::Kill => Duty::Kill,
            JobTimer::Recovery => Duty::Recovery,
            JobTimer::Fenced => Duty::Fenced,
            JobTimer::Begin => Duty::Begin,
            JobTimer::Output => Duty::Output,
        }
    }
}

/// The tasks of all jobs, and the timers of the cluster.
#[derive(Default)]
pub(super) struct JobTasks {
    tasks: RefCell<BTreeMap<JobId, BTreeMap<Duty, Task>>>,
    of_cluster: RefCell<BTreeMap<ClusterTimer, Task>>,
}

// Tasks are dropped outside the borrows, because dropping a task may touch the map.
impl JobTasks {
    /// Keeps a task; ends the former task of the same duty.
    pub(super) fn set(&self, job: JobId, duty: Duty, task: Task) {
        let former = self.tasks.borrow_mut().entry(job).or_default().insert(duty, task);
        drop(former);
    }

    /// Keeps the task of a timer; ends the former task of the same timer.
    pub(super) fn set_timer(&self, timer: Timer, task: Task) {
        match timer {
            Timer::Job { job, kind, .. } => self.set(job, kind.into(), task),
            Timer::Step { job, number, kind, .. } => {
                let duty = match kind {
                    StepTimer::Launch => Duty::StepLaunch(number),
                    StepTimer::Kill => Duty::StepKill(number),
                    StepTimer::Client => Duty::StepClient(number),
                    StepTimer::TimeLimit => Duty::StepTimeLimit(number),
                };
                self.set(job, duty, task);
            }
            Timer::Cluster(kind) => {
                let former = self.of_cluster.borrow_mut().insert(kind, task);
                drop(former);
            }
        }
    }

    /// Ends all tasks of a further step.
    pub(super) fn end_step(&self, job: JobId, number: u32) {
        let duties = [
            Duty::StepStaging(number),
            Duty::StepLaunch(number),
            Duty::StepKill(number),
            Duty::StepClient(number),
            Duty::StepTimeLimit(number),
        ];
        let ended = {
            let mut tasks = self.tasks.borrow_mut();
            let of_job = tasks.get_mut(&job);
            of_job.map(|of_job| duties.map(|duty| of_job.remove(&duty)))
        };
        drop(ended);
    }

    /// Ends all tasks of a job.
    pub(super) fn end(&self, job: JobId) {
        let ended = self.tasks.borrow_mut().remove(&job);
        drop(ended);
    }

    /// Ends all tasks.
    pub(super) fn end_all(&self) {
        let ended = (self.tasks.take(), self.of_cluster.take());
        drop(ended);
    }
}
