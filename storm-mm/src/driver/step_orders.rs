//! Orders about further steps of jobs, and the requests of the clients that asked for them.

use super::followed::Followed;
use super::inputs::InputRequest;
use super::job_tasks::Duty;
use super::{Contents, Shared, staging};
use crate::api::{ApiError, ClientEnd, ClientId, ErrorCode, Peer, Reply, ReplySink};
use crate::manager::{Draft, StepOrder, StepOrderKind, StepRequest};
use crate::{AskedStep, Notice, StageJob};
use std::rc::Rc;
use storm_primitives::{Primitives, Runtime};
use storm_rm::message::Command;
use storm_rm::{JobId, StepAsk, StepId};

/// Carries out an order. It leaves as the order of the same name about a job does.
pub(super) fn perform<P: Primitives, C: Contents + 'static>(
    shared: &Rc<Shared<P, C>>,
    order: StepOrder,
) {
    let StepOrder { step, run, nodes, kind } = order;
    // Orders are about further steps, which have numbers.
    let StepId::Number(number) = step.step else { return };
    match kind {
        StepOrderKind::Stage { files, owner } => {
            let stage = StageJob { job: step.job, incarnation: run, nodes, files, owner };
            let task = shared.primitives.runtime().spawn(staging::run(shared.clone(), stage));
            shared.runs.set_task(step.job, Duty::StepStaging(number), task);
        }
        StepOrderKind::AbandonStaging => shared.runs.end_step(step, number),
        StepOrderKind::Launch(launch) => shared.outbox.say(nodes, Draft::Launch(launch)),
        StepOrderKind::Signal { signal } => {
            shared.say(nodes, Command::SignalJob { step, signal });
        }
        StepOrderKind::Destroy => shared.say(nodes, Command::DestroyJob { step }),
        StepOrderKind::Release => {
            shared.runs.end_step(step, number);
            shared.forget_input_of(step);
            shared.say(nodes, Command::ReleaseJob { step });
        }
    }
}

impl<P: Primitives, C: Contents + 'static> Shared<P, C> {
    /// Passes a notice to the clients of a step. The last one ends its flow.
    pub(super) fn notify_step(&self, job: JobId, ask: StepAsk, notice: Notice) {
        let is_over = matches!(&notice, Notice::Event(Reply::Ended { .. }));
        let followed = Followed::Step(job, ask);
        self.publish(followed, notice);
        if is_over {
            self.clients.subscribers().run_is_over(followed);
            self.clients.steps().forget(job, ask);
        }
    }

    /// A client asks for a step, or asks again for one that it asked for before.
    pub(super) fn run_step(
        self: &Rc<Self>,
        (peer, client): (Peer, ClientId),
        job: JobId,
        request: StepRequest,
        replies: ReplySink,
    ) {
        let ask = request.ask;
        let known = self.core().step_news(job, ask);
        let asked = self.drive(|core, now| core.ask_for_step(now, peer, job, request));
        let asked = match asked {
            Ok(asked) => asked,
            Err(error) => {
                self.defer(move || {
                    let _ = replies.refuse(error);
                });
                return;
            }
        };
        let is_over = known.iter().any(|reply| matches!(reply, Reply::Ended { .. }));
        if !is_over {
            // Before the effects of the request are carried out, so that no event is missed.
            self.subscribe(Followed::Step(job, ask), replies.clone());
            self.clients.steps().add(client, job, ask);
            self.drive(|core, _| core.step_client_came(job, ask));
            if !known.is_empty() {
                self.release_step_output(Followed::Step(job, ask));
            }
        }
        let news = match (known.is_empty(), asked) {
            (false, _) => known,
            (true, AskedStep::Waits) => vec![self.core().step_waits(job, ask)],
            // The event that it begins follows, as soon as that is durable.
            (true, AskedStep::Is(_)) => Vec::new(),
        };
        for reply in news {
            self.answer(replies.clone(), reply);
        }
    }

    /// A user ends a step.
    pub(super) fn end_step(&self, peer: Peer, (job, ask): (JobId, StepAsk), replies: ReplySink) {
        let ended = self.drive(|core, now| core.end_asked_step(now, peer, job, ask));
        self.defer(move || {
            let _ = match ended {
                Ok(()) => replies.send(Reply::Ok),
                Err(error) => replies.refuse(error),
            };
        });
    }

    /// A client has left. Its steps that no other client follows are without one.
    pub(super) fn client_left(&self, client: ClientId, end: ClientEnd) {
        for (job, ask) in self.clients.steps().left(client) {
            self.drive(|core, now| core.step_client_left(now, job, ask, end));
            let followed = Followed::Step(job, ask);
            if end == ClientEnd::Broken && self.core().asked_step(job, ask).is_some() {
                self.clients.subscribers().abandon(followed);
                self.adjust_flow(followed);
            }
        }
    }

    /// Input of a step's client. It is answered when all of it is on its way.
    pub(super) fn step_input(
        &self,
        peer: Peer,
        (job, ask): (JobId, StepAsk),
        request: InputRequest,
    ) {
        if let Err(error) = self.owned_by(peer, job) {
            return self.answer(request.replies, Reply::Error { error });
        }
        let readers = self.core().step_readers(job, ask);
        match readers {
            Some((step, run, nodes)) if !nodes.is_empty() => {
                self.take_input(step, run, &nodes, request);
            }
            // The input has no reader.
            Some(_) => self.answer(request.replies, Reply::Ok),
            None => {
                let message = format!("job {job} has no step that reads this input");
                let error = ApiError::new(ErrorCode::JobEnded, message);
                self.answer(request.replies, Reply::Error { error });
            }
        }
    }
}
