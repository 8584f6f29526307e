//! What differs if a step is followed instead of its job.

use super::Follower;
use crate::failure::{EXIT_STORM_FAILED, Failure};
use storm_mm::api::{ManagerRequest, Reply};
use storm_rm::{StepAsk, StepId, StepRef};

/// The code of the failure that a step must wait.
pub(crate) const STEP_WAITS: &str = "step-waits";

/// A step that this process has asked for.
#[derive(Clone, Debug)]
pub(crate) struct OwnStep {
    /// The number by which it was asked for.
    pub(crate) ask: StepAsk,
    /// The request. The same request to the next manager attaches to the step.
    pub(crate) request: ManagerRequest,
    /// The first event, which arrived before the step was followed.
    pub(crate) first: Option<Reply>,
    /// Its number, as soon as it has its elements.
    pub(crate) number: Option<u32>,
    /// Whether it waits for elements.
    pub(crate) waits: bool,
    /// How to act if it must wait.
    pub(crate) waiting: StepWaiting,
}

/// How a command acts if its step must wait for elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepWaiting {
    /// It says so, unless it is to be silent.
    Told,
    /// It says so as srun(1) does.
    ToldAsBySrun,
    /// It gives the step up.
    Refused,
}

impl Follower {
    /// The job or the step, in words.
    pub(super) fn name(&self) -> String {
        let job = self.what.job;
        match self.what.step.as_ref().map(|step| step.number) {
            None => format!("job {job}"),
            Some(None) => format!("the step of job {job}"),
            Some(Some(number)) => {
                format!("step {}", StepRef { job, step: StepId::Number(number) })
            }
        }
    }

    /// Takes the first event of a step.
    pub(super) async fn begin_step(&mut self) -> Result<(), Failure> {
        let first = self.what.step.as_mut().and_then(|step| step.first.take());
        if let Some(Reply::Step { step, node_list, .. }) = first {
            self.node_list = node_list;
            self.is_step(step).await?;
        }
        Ok(())
    }

    /// The step has this number, or waits.
    pub(super) async fn is_step(&mut self, number: Option<u32>) -> Result<(), Failure> {
        let Some(step) = &mut self.what.step else { return Ok(()) };
        let waited = std::mem::replace(&mut step.waits, number.is_none());
        step.number = number.or(step.number);
        let (job, tells) = (self.what.job, self.what.tell_waiting);
        match (step.waiting, number) {
            (StepWaiting::Refused, None) => {
                return Err(Failure::new(STEP_WAITS, "other steps of the job have its elements"));
            }
            (StepWaiting::Told, None) if tells => {
                let note =
                    format!("storm: the step waits: other steps of job {job} have its elements");
                self.terminal.say(&note).await;
            }
            (StepWaiting::ToldAsBySrun, None) if tells => {
                let note = format!(
                    "srun: Job {job} step creation temporarily disabled, retrying (Requested nodes \
                     are busy)"
                );
                self.terminal.say(&note).await;
            }
            (StepWaiting::ToldAsBySrun, Some(_)) if tells && waited => {
                self.terminal.say(&format!("srun: Step created for job {job}")).await;
            }
            (_, None | Some(_)) => {}
        }
        Ok(())
    }

    /// The request to follow the job or the step once more.
    pub(super) fn attachment(&self) -> ManagerRequest {
        match &self.what.step {
            None => ManagerRequest::Attach { job: self.what.job },
            Some(step) => step.request.clone(),
        }
    }

    /// The request to end the job or the step.
    pub(super) fn cancellation(&self) -> ManagerRequest {
        let job = self.what.job;
        match &self.what.step {
            None => ManagerRequest::Cancel { jobs: vec![job], signal: None, states: Vec::new() },
            Some(step) => ManagerRequest::EndStep { job, ask: step.ask },
        }
    }

    /// The next manager has not got the files of a step that waited when the former one ended.
    pub(super) fn files_are_lost(&self) -> Failure {
        let text = format!("{} had not begun when the manager ended", self.name());
        Failure::new("step", text)
            .hint("its files are lost with that manager: run the command again")
            .exit(EXIT_STORM_FAILED)
    }
}
