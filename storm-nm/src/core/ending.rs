//! The end of jobs on a node, by itself, by order or by force. The end is reported to the Machine
//! Manager (paper, Algorithm 9).
//!
//! If a part of a job did not end by itself or by order, the announcement of its end has a cause.
//! Either the reason is reported first, or the node is blamed.

use super::job::JobPhase;
use super::{Action, CoreConfig, NodeCore};
use crate::JobKey;
use crate::reason::bounded;
use storm_rm::StepRef;
use storm_rm::message::{CutLaunch, ExitStatus, Report};
use storm_rm::termination::Urgency;

/// SIGKILL, the only signal that acts on a stopped process.
pub(super) const SIGKILL: i32 = 9;

impl NodeCore {
    /// Ends a job on this node in two steps. After the last rank's end, processes that ranks left
    /// behind are killed. After the end of their output, the end is announced.
    pub(super) fn try_finish(&mut self, key: JobKey, actions: &mut Vec<Action>) {
        let Some(job) = self.jobs.get_mut(&key) else { return };
        if !job.all_ended() {
            return;
        }
        match job.phase {
            JobPhase::Preparing | JobPhase::Launching | JobPhase::Running => {
                job.phase = JobPhase::Ending;
                actions.push(Action::End { job: key });
            }
            JobPhase::Ending | JobPhase::Ended => {}
        }
        if job.phase == JobPhase::Ended || !job.open_streams.is_empty() {
            return;
        }
        job.phase = JobPhase::Ended;
        job.announce_end(&self.config, actions);
        if job.released {
            self.jobs.remove(&key);
            actions.push(Action::Forget { job: key });
        }
    }

    /// Ends a job that cannot continue here. The Machine Manager receives the reason and ends the
    /// job everywhere, as its ranks on other nodes may wait for those here.
    pub(super) fn unserviceable(&mut self, key: JobKey, reason: String, actions: &mut Vec<Action>) {
        let reason = self.with_place(&reason);
        let report = Report::JobFailed { step: key.step, incarnation: key.incarnation, reason };
        self.end_here(key, report, actions);
    }

    /// Ends a job of which the kernel killed a process for its memory.
    pub(super) fn over_memory(&mut self, key: JobKey, limit: &str, actions: &mut Vec<Action>) {
        let CoreConfig { name, hostname, .. } = &self.config;
        let reason = format!(
            "out of memory on {name} ({hostname}): it may have {limit} there, and the kernel killed \
             one of its processes"
        );
        let JobKey { step, incarnation } = key;
        self.end_here(key, Report::OverMemory { step, incarnation, reason }, actions);
    }

    /// Why a job cannot continue, with the node.
    fn with_place(&self, reason: &str) -> String {
        let CoreConfig { name, hostname, .. } = &self.config;
        bounded(format!("{name} ({hostname}) cannot go on with it: {reason}"))
    }

    /// Ends a job that a former node manager did not leave whole. The Machine Manager decides
    /// whether the job is launched again.
    pub(super) fn launch_cut(&mut self, key: JobKey, cut: CutLaunch, actions: &mut Vec<Action>) {
        let JobKey { step, incarnation } = key;
        self.end_here(key, Report::LaunchCut { step, incarnation, cut }, actions);
    }

    /// Kills a job and reports the reason to the Machine Manager, unless the job ends anyway.
    fn end_here(&mut self, key: JobKey, why: Report, actions: &mut Vec<Action>) {
        let Some(job) = self.jobs.get_mut(&key) else { return };
        if !job.doomed && !job.silent && job.phase != JobPhase::Ended {
            job.fails(why, actions);
        }
        self.doom(key, actions);
    }

    /// Kills a job, now or as soon as it has processes.
    pub(super) fn doom(&mut self, key: JobKey, actions: &mut Vec<Action>) {
        let Some(job) = self.jobs.get_mut(&key) else { return };
        job.doomed = true;
        // The next Machine Manager gets the output of an orphan.
        if job.has_streams() && (!job.orphaned || job.silent || self.life.is_leaving()) {
            job.hold_output(false, &self.config, actions);
        }
        if job.is_live() {
            actions.push(Action::Destroy { job: key });
        }
    }

    /// Ends an earlier run of a job, about which nobody needs reports any more.
    pub(super) fn supersede(&mut self, key: JobKey, actions: &mut Vec<Action>) {
        if let Some(job) = self.jobs.get_mut(&key) {
            job.silent = true;
        }
        self.release_run(key, actions);
    }

    /// Forgets a step that is over on all nodes. If the step has not ended here, kills it first.
    pub(super) fn release(&mut self, step: StepRef, actions: &mut Vec<Action>) {
        if let Some(key) = self.current(step) {
            self.release_run(key, actions);
        }
    }

    fn release_run(&mut self, key: JobKey, actions: &mut Vec<Action>) {
        let Some(job) = self.jobs.get_mut(&key) else { return };
        if job.phase == JobPhase::Ended {
            self.jobs.remove(&key);
            actions.push(Action::Forget { job: key });
            return;
        }
        job.released = true;
        self.doom(key, actions);
    }

    /// Ends all jobs and this node manager by order of the Machine Manager, which still receives
    /// the reports of how the jobs ended.
    pub(super) fn leave(&mut self, actions: &mut Vec<Action>) {
        if self.life.leaves() {
            return;
        }
        let keys: Vec<JobKey> = self.jobs().collect();
        for key in keys {
            self.doom(key, actions);
        }
        actions.push(Action::Leave);
    }

    /// Leaves without an order. The node reports nothing of the jobs that it kills, so that the
    /// loss of the node is the reason of their end.
    pub(super) fn leave_unasked(&mut self, actions: &mut Vec<Action>) {
        if !self.life.is_leaving() {
            self.jobs.values_mut().for_each(|job| job.silent = true);
        }
        self.leave(actions);
    }

    /// Notes that the processes of all jobs died with their keeper. The node is useless from now
    /// on, and reports its uselessness first.
    pub(super) fn lose_processes(&mut self, actions: &mut Vec<Action>) {
        tracing::error!("this node can run no process any more");
        actions.push(Action::Post { report: Report::ProcessesLost, urgency: Urgency::AtOnce });
        let keys: Vec<JobKey> = self.jobs().collect();
        for key in keys {
            if let Some(job) = self.jobs.get_mut(&key) {
                job.silent = true;
                job.end_all(ExitStatus::Signal(SIGKILL));
            }
            self.try_finish(key, actions);
        }
        self.leave(actions);
    }
}
