//! Jobs that outlive their Machine Manager. Nothing is reported of the jobs while the manager is
//! gone. The next manager gets a list of the jobs, decides which continue, and then gets the state
//! of each (`docs/decisions/0006-jobs-survive-the-manager.md`).

use super::job::{JobPhase, LocalJob};
use super::{Action, CoreConfig, NodeCore};
use crate::JobKey;
use storm_primitives::NodeId;
use storm_rm::JobIncarnation;
use storm_rm::message::{HeldJob, Report, ResumedJob};
use storm_rm::termination::Urgency;

impl NodeCore {
    /// The runs of jobs that another Machine Manager must know of.
    pub fn held(&self) -> Vec<HeldJob> {
        let orphans = self.jobs.iter().filter(|(_, job)| job.orphaned);
        let held = |key: &JobKey| HeldJob { step: key.step, incarnation: key.incarnation };
        orphans.map(|(key, _)| held(key)).collect()
    }

    /// Whether the output of a run is of use: the run was not given up for another run.
    pub(crate) fn wants_output(&self, job: JobKey) -> bool {
        self.jobs.get(&job).is_some_and(|state| !state.silent)
    }

    /// The first run of a job for which this node can have received a command, if a manager has
    /// named it. From this run on, if this node does not hold a run, it never received the launch
    /// of that run. The exceptions are runs that it was ordered to launch and has given up: these
    /// runs must not be launched again.
    pub fn first_run(&self) -> Option<JobIncarnation> {
        self.life.first_run()
    }

    /// Takes the id of the node's next life in the network.
    pub(crate) fn renumber(&mut self, node: NodeId) {
        self.config.node = node;
    }

    /// Notes that the Machine Manager is gone. The next manager counts its strobes anew.
    pub(super) fn orphan(&mut self) {
        self.life.manager_is_lost();
        for job in self.jobs.values_mut() {
            job.orphaned = !job.silent && !job.released;
            job.withholds |= job.orphaned;
        }
        let _ = self.active.forget_strobes();
    }

    /// Ends and forgets the orphans that the next Machine Manager may have queued again, as they
    /// must not run twice.
    pub(super) fn end_requeued(&mut self, actions: &mut Vec<Action>) {
        let requeued = |job: &LocalJob| job.orphaned && job.task.launch.spec.requeue;
        let given_up = self.jobs.iter().filter(|(_, job)| requeued(job));
        let given_up: Vec<JobKey> = given_up.map(|(key, _)| *key).collect();
        for key in given_up {
            tracing::warn!(job = %key, "no manager came for this job, which may run elsewhere");
            if let Some(job) = self.jobs.get_mut(&key) {
                job.orphaned = false;
            }
            self.life.gives_up(key.incarnation);
            self.supersede(key, actions);
        }
    }

    /// Gives up a job that the keeper has ended, since this node manager stood still for too long.
    /// If the job does not run elsewhere, the Machine Manager counts the job as lost here. The next
    /// manager, which may have received a report that this node holds the job, does the same.
    pub(super) fn lease_over(&mut self, key: JobKey, actions: &mut Vec<Action>) {
        let ended = |job: &&mut LocalJob| job.is_live() && !job.silent;
        let Some(job) = self.jobs.get_mut(&key).filter(ended) else { return };
        tracing::warn!(job = %key, "this node manager stood still: the job is ended, it may run elsewhere");
        job.orphaned = false;
        let JobKey { step, incarnation } = key;
        let report = Report::LeaseOver { step, incarnation };
        actions.push(Action::Post { report, urgency: Urgency::AtOnce });
        // If the manager is lost, the report is too, and the next manager must not take the run for
        // new here.
        self.life.gives_up(key.incarnation);
        self.supersede(key, actions);
    }

    /// Continues the orphans that the Machine Manager names, once it confirms that this node has
    /// joined. The others die without a report.
    pub(super) fn resume(&mut self, jobs: Vec<ResumedJob>, actions: &mut Vec<Action>) {
        self.forget_slices(actions);
        for resumed in jobs {
            let key = JobKey { step: resumed.step, incarnation: resumed.incarnation };
            let Some(job) = self.jobs.get_mut(&key).filter(|job| job.orphaned) else {
                tracing::error!(job = %key, "told to go on with a job that is not here");
                continue;
            };
            job.orphaned = false;
            job.slot = resumed.slot;
            job.partition = resumed.partition;
            if job.rows != resumed.rows {
                job.rows = resumed.rows;
                actions.push(Action::Rows { job: key, rows: resumed.rows });
            }
            let coscheduling = resumed.coscheduling;
            actions.push(Action::Coschedule { job: key, coscheduling });
            self.active.answer_names(resumed.partition, resumed.active_row);
            let ranks = job.task.ranks().filter(|rank| job.task.reads_input(*rank)).collect();
            actions.push(Action::TellInput { job: key, ranks });
            job.tell_all(&self.config, actions);
            job.hold_output(resumed.hold_output && !job.doomed, &self.config, actions);
        }
        let unknown = self.jobs.iter().filter(|(_, job)| job.orphaned);
        let unknown: Vec<JobKey> = unknown.map(|(key, _)| *key).collect();
        for key in unknown {
            tracing::warn!(job = %key, "the Machine Manager does not want this job: it is ended");
            self.supersede(key, actions);
        }
        self.reschedule(None, None, actions);
    }

    /// Forgets slices that were ordered before the Machine Manager knew of this life of the node.
    /// Those slices were for an earlier life: nobody recalls them, and they would contradict later
    /// launches.
    fn forget_slices(&mut self, actions: &mut Vec<Action>) {
        let followed = self.active.forget_strobes().into_iter();
        actions.extend(followed.map(|partition| Action::Follow { partition, slices: None }));
    }
}

impl LocalJob {
    /// Repeats all reports, sent or held back. The reports cover the start of its ranks, the cause
    /// of its end, its present barriers, and the ranks that will enter no barrier.
    fn tell_all(&self, config: &CoreConfig, actions: &mut Vec<Action>) {
        let started = match self.phase {
            JobPhase::Preparing | JobPhase::Launching => false,
            JobPhase::Running | JobPhase::Ending | JobPhase::Ended => !self.launch_failed,
        };
        if started {
            self.tell_started(config, actions);
        }
        let told = self.failure.iter().chain(&self.last_fences).chain(&self.left_told);
        for report in told.cloned() {
            actions.push(Action::Post { report, urgency: Urgency::AtOnce });
        }
    }
}
