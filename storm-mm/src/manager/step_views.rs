//! Steps as users see them, and as users end them by name.

use super::ending::check_signal;
use super::step_order::StepOrderKind;
use super::{Core, Durable};
use crate::api::{ApiError, ErrorCode, JobState, Peer, StepView};
use crate::job::{ENDED_STEPS, EndCause, EndedStep, JobRecord, Phase, StepPlace, StepRecord};
use jiff::Timestamp;
use std::time::Duration;
use storm_primitives::{Instant, NodeSet};
use storm_rm::message::Command;
use storm_rm::{StepId, StepRef, StepSize};

impl Core {
    /// The further steps of a job, by their numbers.
    pub(super) fn step_views(&self, now: Instant, record: &JobRecord) -> Vec<StepView> {
        let Some(steps) = &record.steps else { return Vec::new() };
        let live =
            steps.live().map(|(number, step)| self.live_step_view(now, record, number, step));
        // A place that starts many steps remembers more of them for a while.
        let latest = steps.ended().rev().take(ENDED_STEPS);
        let ended = latest.map(|(number, step)| ended_step_view(number, step));
        let mut views: Vec<StepView> = live.chain(ended).collect();
        views.sort_by_key(|view| view.step);
        views
    }

    fn live_step_view(
        &self,
        now: Instant,
        record: &JobRecord,
        number: u32,
        step: &StepRecord,
    ) -> StepView {
        let nodes = step.ranks.iter().map(|share| share.node).collect();
        let place = self.step_place(&step.size, &nodes, step.procs());
        let stands = record.is_stopped() || record.suspended_for.is_some();
        StepView {
            step: StepId::Number(number),
            name: step.name(),
            state: match step.started {
                None => JobState::Pending,
                Some(_) if stands => JobState::Suspended,
                Some(_) => JobState::Running,
            },
            procs: step.procs(),
            elements: place.elements,
            nodes: place.nodes,
            node_list: place.node_list,
            began: step.began,
            started: step.started,
            ended: None,
            elapsed_s: seconds_between(step.started, self.wall(now)),
            time_limit_s: place.time_limit.map(|limit| limit.as_secs()),
            ending: step.ending.is_some() || matches!(record.phase, Phase::Ending(_)),
            reason: step.ending.as_ref().map(|cause| self.config.said(cause)),
            exit_code: None,
            exit: None,
            user_us: None,
            system_us: None,
            max_rss_kib: None,
        }
    }

    /// The part of a place that a step on these nodes has.
    pub(super) fn step_place(&self, size: &StepSize, nodes: &NodeSet, procs: u32) -> StepPlace {
        StepPlace {
            nodes: u32::try_from(nodes.len()).unwrap_or(u32::MAX),
            node_list: self.step_node_list(nodes),
            elements: procs.saturating_mul(size.elements_each),
            time_limit: size.time_limit,
        }
    }

    /// A user ends a step by its name, or sends its processes a signal. The end of a first step is
    /// the end of its job.
    ///
    /// # Errors
    /// There is no such job or step, it is another user's, or it is over.
    pub fn cancel_step(
        &mut self,
        now: Instant,
        peer: Peer,
        step: StepRef,
        signal: Option<i32>,
    ) -> Result<(), ApiError> {
        let record = self.job(step.job)?;
        if record.spec.owner.uid != peer.uid && !self.is_admin(peer) {
            let message = format!("job {} is another user's", record.name());
            return Err(ApiError::new(ErrorCode::NotPermitted, message));
        }
        if step == record.first_step() {
            return match signal {
                None => self.cancel(now, peer, step.job, None),
                Some(signal) => self.signal_first_step(step, signal),
            };
        }
        let name = format!("step {}.{}", record.name(), step.step);
        let StepId::Number(number) = step.step else { return Err(no_such_step(&name)) };
        let Some((_, known)) = self.step_record((step.job, number)) else {
            return Err(match record.steps.as_ref().and_then(|steps| steps.ended_step(number)) {
                None => no_such_step(&name),
                Some(ended) => {
                    let message = format!("{name} has ended: {}", ended.outcome.state);
                    ApiError::new(ErrorCode::JobEnded, message)
                }
            });
        };
        let (run, executes) = (known.run, known.started.is_some());
        let Some(signal) = signal else {
            self.end_step(now, (step.job, number), EndCause::Cancelled { uid: peer.uid });
            self.finish_if_over(now, step.job);
            return Ok(());
        };
        check_signal(signal)?;
        let place = self.live.get(step.job);
        let nodes = place.and_then(|live| Some(live.holders_of(live.step(number)?)));
        match nodes.filter(|_| executes) {
            Some(nodes) => {
                self.order((step.job, number), run, nodes, StepOrderKind::Signal { signal });
                Ok(())
            }
            None => Err(no_processes(&name)),
        }
    }

    fn signal_first_step(&mut self, step: StepRef, signal: i32) -> Result<(), ApiError> {
        check_signal(signal)?;
        let live = self.live.get(step.job).filter(|live| live.is_on_nodes() && !live.is_over());
        let Some(live) = live else { return Err(no_processes(&format!("step {step}"))) };
        let command = Command::SignalJob { step, signal };
        self.effects.durable.push(Durable::Command(live.nodes().clone(), command));
        Ok(())
    }
}

fn no_processes(name: &str) -> ApiError {
    ApiError::new(ErrorCode::BadRequest, format!("{name} has no processes"))
        .hint("to end it, cancel it without a signal")
}

fn no_such_step(name: &str) -> ApiError {
    ApiError::new(ErrorCode::NoSuchJob, format!("there is no {name}"))
        .hint("storm show JOB lists the steps of a job")
}

fn ended_step_view(number: u32, step: &EndedStep) -> StepView {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    StepView {
        step: StepId::Number(number),
        name: step.name.clone(),
        state: step.outcome.state,
        procs: step.procs,
        elements: step.place.elements,
        nodes: step.place.nodes,
        node_list: step.place.node_list.clone(),
        began: step.began,
        started: step.started,
        ended: Some(step.ended),
        elapsed_s: seconds_between(step.started, step.ended),
        time_limit_s: step.place.time_limit.map(|limit| limit.as_secs()),
        ending: false,
        reason: step.outcome.reason.clone(),
        exit_code: Some(step.outcome.exit_code),
        exit: step.exit,
        user_us: Some(micros(step.used.user)),
        system_us: Some(micros(step.used.system)),
        max_rss_kib: Some(step.used.max_rss_kib),
    }
}

fn seconds_between(from: Option<Timestamp>, to: Timestamp) -> u64 {
    let time = from.and_then(|from| Duration::try_from(to.duration_since(from)).ok());
    time.unwrap_or_default().as_secs()
}
