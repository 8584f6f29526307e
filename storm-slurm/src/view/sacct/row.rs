//! A row of sacct.

use crate::view::{ExitCode, JobFacts, Show, StateCode, StepFacts, StepUse};

/// A job, or a step of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SacctRow {
    /// A job.
    Job {
        /// The job.
        job: Box<JobFacts>,
        /// Resource use of its steps.
        used: Option<StepUse>,
    },
    /// A step.
    Step(Box<StepFacts>),
}

impl SacctRow {
    /// The job, or that of the step.
    pub fn job(&self) -> &JobFacts {
        match self {
            SacctRow::Job { job, .. } => job,
            SacctRow::Step(step) => &step.job,
        }
    }

    /// The step, if it is one.
    pub fn step(&self) -> Option<&StepFacts> {
        match self {
            SacctRow::Job { .. } => None,
            SacctRow::Step(step) => Some(step),
        }
    }

    pub(super) fn used(&self) -> Option<&StepUse> {
        match self {
            SacctRow::Job { used, .. } => used.as_ref(),
            SacctRow::Step(step) => step.used.as_ref(),
        }
    }

    pub(super) fn id(&self, show: &Show) -> String {
        let job = self.job().job_id(show);
        self.step().map_or_else(|| job.clone(), |step| format!("{job}.{}", step.id))
    }

    pub(super) fn raw_id(&self) -> String {
        let job = self.job().id;
        self.step().map_or_else(|| job.to_string(), |step| format!("{job}.{}", step.id))
    }

    pub(super) fn cpus(&self) -> u32 {
        self.step().map_or(self.job().cpus, |step| step.cpus)
    }

    pub(super) fn nodes(&self) -> u32 {
        self.step().map_or(self.job().nodes, |step| step.nodes)
    }

    pub(super) fn ran_s(&self) -> u64 {
        self.step().map_or(self.job().ran_s, |step| step.ran_s)
    }

    pub(super) fn has_started(&self) -> bool {
        !self.job().node_list.is_empty()
    }

    /// `CANCELLED by 1000` for a job. A job that is being started or ended counts as running.
    pub(super) fn state(&self) -> String {
        let state = self.step().map_or(self.job().state, |step| step.state);
        match (state, self.job().cancelled_by) {
            (StateCode::Cancelled, Some(uid)) if self.step().is_none() => {
                format!("{} by {uid}", state.name())
            }
            (StateCode::Configuring | StateCode::Completing, _) => {
                StateCode::Running.name().to_owned()
            }
            _ => state.name().to_owned(),
        }
    }

    /// A job that was ended on request or at its limit has the code of no step.
    pub(super) fn exit(&self) -> ExitCode {
        match self {
            SacctRow::Step(step) => step.exit,
            SacctRow::Job { job, .. } => match job.state {
                StateCode::Cancelled | StateCode::Timeout | StateCode::Preempted => {
                    ExitCode::default()
                }
                _ => job.exit,
            },
        }
    }
}
