//! The runs of jobs: which of them are watched for their start or their end, and their tasks.

use super::job_tasks::{Duty, JobTasks};
use super::watches::Watched;
use crate::Timer;
use storm_primitives::{NodeSet, Task};
use storm_rm::{JobId, StepRef};

/// The runs of all jobs.
#[derive(Default)]
pub(super) struct Runs {
    tasks: JobTasks,
    starting: Watched,
    terminating: Watched,
}

impl Runs {
    /// Runs whose announcers have begun, and whose ranks may not all execute.
    pub(super) fn starting(&self) -> &Watched {
        &self.starting
    }

    /// Runs that have begun to end (Algorithm 8).
    pub(super) fn terminating(&self) -> &Watched {
        &self.terminating
    }

    /// Keeps a task of a job; ends the former task of the same duty.
    pub(super) fn set_task(&self, job: JobId, duty: Duty, task: Task) {
        self.tasks.set(job, duty, task);
    }

    /// Keeps the task of a timer; ends the former task of the same timer.
    pub(super) fn set_timer(&self, timer: Timer, task: Task) {
        self.tasks.set_timer(timer, task);
    }

    /// Ends the tasks of a job.
    pub(super) fn end_tasks_of(&self, job: JobId) {
        self.tasks.end(job);
    }

    /// Ends all tasks.
    pub(super) fn end_tasks(&self) {
        self.tasks.end_all();
    }

    /// The run of a job is over.
    pub(super) fn end(&self, job: JobId) {
        self.tasks.end(job);
        self.starting.forget_all(|step| step.job == job);
        self.terminating.forget_all(|step| step.job == job);
    }

    /// A further step is over, or its staging is not needed any more.
    pub(super) fn end_step(&self, step: StepRef, number: u32) {
        self.tasks.end_step(step.job, number);
        self.starting.forget_all(|other| other == step);
        self.terminating.forget_all(|other| other == step);
    }

    /// Nodes died. Steps that wait for them are watched again when the nodes are back. Steps
    /// without a part there do not wait, though their job does.
    pub(super) fn nodes_died(&self, dead: &NodeSet, awaits: impl Fn(StepRef) -> bool) {
        self.terminating.forget_all(&awaits);
        self.starting.forget_all(&awaits);
        // A run that continues had ended there.
        self.starting.nodes_died(dead);
        self.terminating.nodes_died(dead);
    }
}
