//! The clients of steps. A step belongs to the client that asked for it
//! (`docs/decisions/0150-a-job-is-a-place-with-steps.md`, number 13).

use super::live::StepObstacle;
use super::steps::step_ref;
use super::{Core, Durable, Notice, StepTimer};
use crate::api::{ApiError, ClientEnd, ErrorCode, JobState, Peer, Reply};
use crate::job::{EndCause, EndedStep, JobRecord, Phase, StepRecord};
use std::time::Duration;
use storm_primitives::{Instant, NodeSet};
use storm_rm::message::NodeRanks;
use storm_rm::{InputSpec, JobId, JobIncarnation, Rank, StepAsk, StepRef};

/// How long a step runs on after its client has left. A client that is replaced has a moment to
/// hand its step over.
const AFTER_LEAVING: Duration = Duration::from_secs(2);
/// How long the place must run meanwhile: a command that is stopped with its place cannot return.
const CLIENT_RUNS: Duration = Duration::from_secs(5);
/// How long a step waits for a client whose connection broke, or whose manager was restarted. It
/// is longer than `node-return`, since a client may reach the manager through a Node Manager.
const CLIENT_RETURN: Duration = crate::job::ENDED_STAY;

impl Core {
    /// The news of a step for a client that asks for it again: its place, its state, and its end.
    /// There are none if no step was asked for by this number.
    pub fn step_news(&self, job: JobId, ask: StepAsk) -> Vec<Reply> {
        let Some(record) = self.jobs.get(&job) else { return Vec::new() };
        if let Some((number, step)) = self.live_step_of(record, ask) {
            let running = step.started.map(|_| self.step_runs(record, number, step));
            return [self.step_begins(record, number)].into_iter().chain(running).collect();
        }
        let known = record.steps.iter().filter(|steps| steps.asked_by(ask).is_some());
        let ended = known.flat_map(|steps| steps.ended());
        if let Some((number, step)) = ended.into_iter().find(|(_, step)| step.ask == ask) {
            let node_list = Some(step.place.node_list.clone());
            let begun = Reply::Step { job, step: Some(number), node_list, reason: None };
            return vec![begun, step_ended(job, step)];
        }
        let waits = self.live.get(job).is_some_and(|live| live.awaits_step(ask));
        waits.then(|| self.step_waits(job, ask)).into_iter().collect()
    }

    /// A step waits, and why.
    pub fn step_waits(&self, job: JobId, ask: StepAsk) -> Reply {
        let reason = Some(self.why_step_waits(job, ask));
        Reply::Step { job, step: None, node_list: None, reason }
    }

    fn why_step_waits(&self, job: JobId, ask: StepAsk) -> String {
        let Some(record) = self.jobs.get(&job) else { return String::new() };
        let name = record.name();
        if record.phase != Phase::Running {
            return format!("job {name} has not started on all of its nodes");
        }
        let obstacle = self.live.step_obstacle(job, ask, |node| self.nodes.up().contains(node));
        match obstacle {
            Some(StepObstacle::Away(nodes)) => {
                format!("it could run on {}, which is away and may return", self.nodes.fold(&nodes))
            }
            Some(StepObstacle::MostSteps(most)) => {
                format!("job {name} runs {most} steps at once, the most that its place may have")
            }
            Some(StepObstacle::Flags) => {
                let limit = self.config.job_slots;
                format!("the cluster runs {limit} jobs and steps at once, the most that it can")
            }
            None => format!("other steps of job {name} have its elements"),
        }
    }

    fn live_step_of<'a>(
        &self,
        record: &'a JobRecord,
        ask: StepAsk,
    ) -> Option<(u32, &'a StepRecord)> {
        record.steps.as_ref()?.live().find(|(_, step)| step.ask == ask)
    }

    /// The step has its elements.
    fn step_begins(&self, record: &JobRecord, number: u32) -> Reply {
        let nodes = self.live.step(record.id, number).map(|step| step.nodes().clone());
        let node_list = nodes.map(|nodes| self.step_node_list(&nodes));
        Reply::Step { job: record.id, step: Some(number), node_list, reason: None }
    }

    /// All ranks of the step execute.
    fn step_runs(&self, record: &JobRecord, number: u32, step: &StepRecord) -> Reply {
        let nodes = self.live.step(record.id, number).map(|step| step.nodes().clone());
        Reply::State {
            job: record.id,
            state: JobState::Running,
            run: step.run,
            away: self.is_recovering(record.id),
            reason: None,
            node_list: nodes.map(|nodes| self.step_node_list(&nodes)),
        }
    }

    /// Notifies the clients of a step.
    pub(super) fn notify_step(&mut self, job: JobId, ask: StepAsk, reply: Reply) {
        self.effects.durable.push(Durable::NotifyStep(job, ask, Notice::Event(reply)));
    }

    /// Notifies the clients of a step that it has begun.
    pub(super) fn notify_step_began(&mut self, (job, number): (JobId, u32), ask: StepAsk) {
        let Some(record) = self.jobs.get(&job) else { return };
        let reply = self.step_begins(record, number);
        self.notify_step(job, ask, reply);
    }

    /// Notifies the clients of a step that its ranks execute.
    pub(super) fn notify_step_runs(&mut self, (job, number): (JobId, u32)) {
        let Some((record, step)) = self.step_record((job, number)) else { return };
        let (ask, reply) = (step.ask, self.step_runs(record, number, step));
        self.notify_step(job, ask, reply);
    }

    /// Notifies the clients of steps that waited, and never begin.
    pub(super) fn notify_steps_given_up(&mut self, job: JobId, asks: Vec<StepAsk>, why: &EndCause) {
        let reason = self.config.said(why);
        for ask in asks {
            let reply = Reply::Ended {
                job,
                state: why.state(),
                exit_code: why.exit_code().unwrap_or(1),
                reason: Some(reason.clone()),
                breakdown: None,
            };
            self.notify_step(job, ask, reply);
        }
    }

    /// Notifies the clients of a step of its end.
    pub(super) fn notify_step_ended(&mut self, job: JobId, step: &EndedStep) {
        self.notify_step(job, step.ask, step_ended(job, step));
    }

    /// The last client of a step has left. A waiting step goes with it. Another ends a moment
    /// later, or waits for a client whose connection broke.
    pub fn step_client_left(&mut self, now: Instant, job: JobId, ask: StepAsk, end: ClientEnd) {
        if self.forget_step(job, ask) {
            return;
        }
        let Some((number, run)) = self.live_number(job, ask) else { return };
        let (patience, runs) = match end {
            ClientEnd::Meant => (AFTER_LEAVING, Duration::ZERO),
            ClientEnd::Broken => (CLIENT_RETURN, CLIENT_RUNS),
        };
        self.live.step_awaits_client(now, (job, number), runs);
        self.arm_step(now + patience, (job, number), run, StepTimer::Client);
    }

    /// A client follows a step.
    pub fn step_client_came(&mut self, job: JobId, ask: StepAsk) {
        if let Some((number, _)) = self.live_number(job, ask) {
            self.live.step_has_client((job, number));
        }
    }

    /// The steps of a former manager's job have no client yet.
    pub(super) fn await_step_clients(&mut self, now: Instant, job: JobId) {
        let steps = self.live.get(job).map(|live| live.steps()).unwrap_or_default();
        for number in steps {
            let Some(run) = self.live.step(job, number).map(|step| step.run()) else { continue };
            self.live.step_awaits_client(now, (job, number), CLIENT_RUNS);
            self.arm_step(now + CLIENT_RETURN, (job, number), run, StepTimer::Client);
        }
    }

    /// A user ends a step of a job.
    ///
    /// # Errors
    /// There is no such job, or it is another user's.
    pub fn end_asked_step(
        &mut self,
        now: Instant,
        peer: Peer,
        job: JobId,
        ask: StepAsk,
    ) -> Result<(), ApiError> {
        let record = self.jobs.get(&job).ok_or_else(|| super::jobs::no_such_job(job))?;
        if record.spec.owner.uid != peer.uid && !self.is_admin(peer) {
            let message = format!("job {} is another user's", record.name());
            return Err(ApiError::new(ErrorCode::NotPermitted, message));
        }
        let cause = EndCause::ClientInterrupted;
        if self.forget_step(job, ask) {
            self.notify_steps_given_up(job, vec![ask], &cause);
        } else if let Some((number, _)) = self.live_number(job, ask) {
            self.end_step(now, (job, number), cause);
            self.finish_if_over(now, job);
        }
        Ok(())
    }

    fn live_number(&self, job: JobId, ask: StepAsk) -> Option<(u32, JobIncarnation)> {
        let record = self.jobs.get(&job)?;
        self.live_step_of(record, ask).map(|(number, step)| (number, step.run))
    }

    /// The further step of a job that has this run, by number.
    pub fn further_step(&self, job: JobId, run: JobIncarnation) -> Option<u32> {
        self.live.step_of_run(job, run)
    }

    /// Whether this is the run of a live step of a job.
    pub fn has_step(&self, step: StepRef, run: JobIncarnation) -> bool {
        match self.live.step_of_run(step.job, run) {
            Some(number) => step == step_ref(step.job, number),
            None => self.jobs.get(&step.job).is_some_and(|record| record.first_step() == step),
        }
    }

    /// A step that is not over, and its nodes.
    pub fn asked_step(&self, job: JobId, ask: StepAsk) -> Option<(StepRef, NodeSet)> {
        let (number, _) = self.live_number(job, ask)?;
        let nodes = self.live.step(job, number)?.nodes().clone();
        Some((step_ref(job, number), nodes))
    }

    /// The run of a step that is not over, and the nodes whose ranks read its input.
    pub fn step_readers(
        &self,
        job: JobId,
        ask: StepAsk,
    ) -> Option<(StepRef, JobIncarnation, NodeSet)> {
        let (number, run) = self.live_number(job, ask)?;
        let (_, step) = self.step_record((job, number))?;
        let reads = |share: &&NodeRanks| match &step.spec.input {
            InputSpec::None | InputSpec::File(_) => false,
            InputSpec::RankZero => share.first == Rank(0),
            InputSpec::All => true,
        };
        let nodes = step.ranks.iter().filter(reads).map(|share| share.node).collect();
        Some((step_ref(job, number), run, nodes))
    }
}

/// The last event of a step.
fn step_ended(job: JobId, step: &EndedStep) -> Reply {
    Reply::Ended {
        job,
        state: step.outcome.state,
        exit_code: step.outcome.exit_code,
        reason: step.outcome.reason.clone(),
        breakdown: None,
    }
}
