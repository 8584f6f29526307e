//! The differences between following a step and following its job.

use super::Follower;
use crate::failure::{EXIT_FAILED, EXIT_STORM_FAILED, Failure};
use crate::outcome::Outcome;
use storm_mm::api::{ManagerRequest, Reply, ReplyLine};
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

    /// Takes the first event of a step. Returns the end of the step if it is that. After a lost
    /// connection the first event may be output of the step.
    pub(super) async fn begin_step(&mut self) -> Option<Result<Outcome, Failure>> {
        let reply = self.what.step.as_mut().and_then(|step| step.first.take())?;
        self.take(ReplyLine { id: self.what.request, reply }).await.transpose()
    }

    /// The step has this number, or waits for a reason.
    pub(super) async fn is_step(
        &mut self,
        number: Option<u32>,
        reason: Option<String>,
    ) -> Result<(), Failure> {
        let Some(step) = &mut self.what.step else { return Ok(()) };
        let waited = std::mem::replace(&mut step.waits, number.is_none());
        step.number = number.or(step.number);
        let (job, tells) = (self.what.job, self.what.tell_waiting);
        let reason = || reason.unwrap_or_else(|| "its place has no room for it now".to_owned());
        match (step.waiting, number) {
            (StepWaiting::Refused, None) => return Err(Failure::new(STEP_WAITS, reason())),
            (StepWaiting::Told, None) if tells => {
                self.terminal.note(&format!("the step waits: {}", reason())).await;
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

    /// The failure that the manager did not return in time.
    pub(super) fn not_found(&self) -> Failure {
        let name = self.name();
        let of_step = self.what.step.is_some();
        let text = match of_step {
            true => format!("the manager is gone, and did not return; {name} may still run"),
            false => format!("the manager is gone; {name} continues without it"),
        };
        let hint = match of_step {
            true => "a manager that returns ends the step, since its command has left".to_owned(),
            false => {
                let job = self.what.job;
                format!("`storm show {job}` shows the job once the manager is back")
            }
        };
        Failure::new("connection", text).hint(hint).exit(EXIT_FAILED)
    }

    /// Passes a signal on to the ranks of the step. A signal that comes before they run waits for
    /// them.
    pub(super) async fn pass_on(&mut self, signal: i32) -> Result<(), Failure> {
        let number = self.what.step.as_ref().and_then(|step| step.number);
        let Some(number) = number else { return Ok(()) };
        let (job, step) = (self.what.job, StepId::Number(number));
        let request = ManagerRequest::CancelStep { job, step, signal: Some(signal) };
        self.requests.send(request).await.map_err(|error| self.lose(error))?;
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
