//! Clients: each request is answered from the core; attached clients get the
//! events and the output of their job.

use super::followed::Followed;
use super::inputs::{InputRequest, Inputs};
use super::step_clients::StepClients;
use super::subscribers::Subscribers;
use super::waits::Waits;
use super::{Contents, Shared};
use crate::api::{
    ApiError, Call, CancelOutcome, ErrorCode, FromClient, HistoryQuery, JobChange, JobFilter,
    JobState, ManagerRequest, Peer, Reply, ReplySink, ReservationRequest, Service,
};
use crate::job::Phase;
use crate::{Core, StepRequest};
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Instant, NodeSet, Primitives};
use storm_rm::message::NodeRanks;
use storm_rm::{InputSpec, JobId, JobIncarnation, JobSpec, Rank, StepAsk, StepRef};

/// The events and ends of jobs that clients wait for.
pub(super) struct Clients {
    started: Instant,
    subscribers: Subscribers,
    waits: Waits,
    inputs: Inputs,
    steps: StepClients,
}

impl Clients {
    /// No clients of a manager that starts now.
    pub(super) fn new(started: Instant) -> Clients {
        let (subscribers, waits) = (Subscribers::default(), Waits::default());
        let (inputs, steps) = (Inputs::default(), StepClients::default());
        Clients { started, subscribers, waits, inputs, steps }
    }

    /// Clients attached to jobs.
    pub(super) fn subscribers(&self) -> &Subscribers {
        &self.subscribers
    }

    /// Clients that wait for jobs to end.
    pub(super) fn waits(&self) -> &Waits {
        &self.waits
    }

    /// Clients that asked for steps.
    pub(super) fn steps(&self) -> &StepClients {
        &self.steps
    }

    /// Input that waits for its readers.
    pub(super) fn inputs(&self) -> &Inputs {
        &self.inputs
    }
}

/// Answers calls for as long as the manager runs.
pub(super) async fn run<P: Primitives, C: Contents + 'static>(
    shared: Rc<Shared<P, C>>,
    calls: async_channel::Receiver<FromClient>,
) {
    while let Ok(call) = calls.recv().await {
        match call {
            FromClient::Call(call) => answer(&shared, call),
            // Steps end with their clients. Jobs do not: a follower is forgotten with its replies.
            FromClient::Left { client, end } => {
                tracing::trace!(client = client.0, ?end, "a client left");
                shared.client_left(client, end);
            }
        }
    }
}

/// Reports users to the core that the host has learnt of.
pub(super) async fn learn_users<P: Primitives, C: Contents + 'static>(shared: Rc<Shared<P, C>>) {
    let Some(known) = shared.config.known_users.clone() else { return };
    while let Ok((name, uid)) = known.recv().await {
        shared.drive(|core, now| core.user_known(now, &name, uid));
    }
}

fn answer<P: Primitives, C: Contents + 'static>(shared: &Rc<Shared<P, C>>, call: Call) {
    // Answers must show the present state.
    shared.pass_slices();
    let Call { peer, client, request, replies } = call;
    let now = shared.now();
    let reply = match request.once_each() {
        ManagerRequest::Submit { spec, attach, service, reservation } => {
            return submit(shared, peer, *spec, (service, reservation), attach, replies);
        }
        ManagerRequest::TryOut { spec, service, reservation } => shared
            .drive(|core, now| core.try_out(now, peer, *spec, service, reservation.as_deref()))
            .map(|prospect| Reply::Prospect { prospect }),
        ManagerRequest::Attach { job } => return attach(shared, peer, job, replies),
        ManagerRequest::Script { job } => return super::scripts::send(shared, peer, job, replies),
        ManagerRequest::Wait { jobs } => return shared.wait(peer, &jobs, replies),
        ManagerRequest::RunStep { job, run, ask, size, layout, spec } => {
            let request = StepRequest { run, ask, size, layout, spec: *spec };
            return shared.run_step((peer, client), job, request, replies);
        }
        ManagerRequest::EndStep { job, ask } => return shared.end_step(peer, (job, ask), replies),
        ManagerRequest::Input { job, data, eof, resent_from, ask } => {
            let request = InputRequest { data, eof, resent_from, replies };
            return input(shared, peer, (job, ask), request);
        }
        ManagerRequest::Cancel { jobs, signal, states } => {
            Ok(cancel(shared, peer, &jobs, (signal, &states)))
        }
        ManagerRequest::Hold { jobs } => Ok(alter(shared, peer, &jobs, Core::hold_all)),
        ManagerRequest::Release { jobs } => Ok(alter(shared, peer, &jobs, Core::release_all)),
        ManagerRequest::Requeue { jobs, hold } => Ok(alter(shared, peer, &jobs, requeuing(hold))),
        ManagerRequest::Suspend { jobs } => Ok(alter(shared, peer, &jobs, Core::stop_all)),
        ManagerRequest::ResumeJobs { jobs } => Ok(alter(shared, peer, &jobs, Core::continue_all)),
        ManagerRequest::Update { jobs, change } => Ok(update(shared, peer, &jobs, &change)),
        ManagerRequest::SetPartition { partition, sched, quantum_us } => {
            set_partition(shared, peer, &partition, sched.as_deref(), quantum_us)
        }
        ManagerRequest::ResetPartition { partition, sched, quantum } => shared
            .drive(|core, now| core.reset_partition(now, peer, &partition, sched, quantum))
            .map(|partition| Reply::Partitions { partitions: vec![partition] }),
        ManagerRequest::Shutdown => shut_down(shared, peer),
        ManagerRequest::Jobs(filter) => Ok(jobs(shared, &filter)),
        ManagerRequest::History(query) => Ok(history(shared, &query)),
        ManagerRequest::Show { job } => show(shared, job),
        ManagerRequest::Explain { job } => explain(shared, job),
        ManagerRequest::Nodes => Ok(Reply::Nodes { nodes: shared.core().list_nodes(now) }),
        ManagerRequest::Drain { nodes, reason } => drain(shared, peer, &nodes, &reason),
        ManagerRequest::Resume { nodes } => resume(shared, peer, &nodes),
        ManagerRequest::Partitions => Ok(partitions(shared)),
        ManagerRequest::Reservations => Ok(reservations(shared, now)),
        ManagerRequest::Reserve(request) => reserve(shared, peer, &request),
        ManagerRequest::Unreserve { name } => unreserve(shared, peer, &name),
        ManagerRequest::Priority { jobs } => Ok(priorities(shared, &jobs)),
        ManagerRequest::Shares => Ok(shares(shared)),
        ManagerRequest::Status => Ok(status(shared, now)),
    };
    send_behind(shared, reply, replies);
}

fn jobs<P: Primitives, C: Contents + 'static>(shared: &Shared<P, C>, filter: &JobFilter) -> Reply {
    let (jobs, more) = shared.ask(|core, now| match filter.part {
        Some(part) => core.list_part(now, filter, part),
        None => (core.list_jobs(now, filter), false),
    });
    Reply::Jobs { jobs, more }
}

fn status<P: Primitives, C: Contents + 'static>(shared: &Shared<P, C>, now: Instant) -> Reply {
    Reply::Status { status: Box::new(shared.core().status(now, shared.clients.started)) }
}

fn shares<P: Primitives, C: Contents + 'static>(shared: &Shared<P, C>) -> Reply {
    Reply::Shares { shares: shared.drive(|core, now| core.list_shares(now)) }
}

fn history<P: Primitives, C: Contents + 'static>(
    shared: &Shared<P, C>,
    query: &HistoryQuery,
) -> Reply {
    let (now, core) = (shared.now(), shared.core());
    let (jobs, more) = match query.part {
        Some(part) => core.history_part(now, query, part),
        None => (core.history(now, query), false),
    };
    Reply::Jobs { jobs, more }
}

fn partitions<P: Primitives, C: Contents + 'static>(shared: &Shared<P, C>) -> Reply {
    Reply::Partitions { partitions: shared.core().list_partitions() }
}

fn reservations<P: Primitives, C: Contents + 'static>(
    shared: &Shared<P, C>,
    now: Instant,
) -> Reply {
    Reply::Reservations { reservations: shared.core().list_reservations(now) }
}

fn reserve<P: Primitives, C: Contents + 'static>(
    shared: &Shared<P, C>,
    peer: Peer,
    request: &ReservationRequest,
) -> Result<Reply, ApiError> {
    let made = shared.drive(|core, now| core.reserve(now, peer, request))?;
    Ok(Reply::Reservations { reservations: vec![made] })
}

fn unreserve<P: Primitives, C: Contents + 'static>(
    shared: &Shared<P, C>,
    peer: Peer,
    name: &str,
) -> Result<Reply, ApiError> {
    shared.drive(|core, now| core.unreserve(now, peer, name)).map(|()| Reply::Ok)
}

/// A change of jobs.
type Alter = fn(&mut Core, Instant, Peer, &[JobId]) -> Vec<Result<(), ApiError>>;

fn alter<P: Primitives, C: Contents + 'static>(
    shared: &Shared<P, C>,
    peer: Peer,
    jobs: &[JobId],
    alter: Alter,
) -> Reply {
    altered(jobs, shared.drive(|core, now| alter(core, now, peer, jobs)))
}

fn update<P: Primitives, C: Contents + 'static>(
    shared: &Shared<P, C>,
    peer: Peer,
    jobs: &[JobId],
    change: &JobChange,
) -> Reply {
    altered(jobs, shared.drive(|core, now| core.update_all(now, peer, jobs, change)))
}

fn cancel<P: Primitives, C: Contents + 'static>(
    shared: &Shared<P, C>,
    peer: Peer,
    jobs: &[JobId],
    (signal, states): (Option<i32>, &[JobState]),
) -> Reply {
    let done = shared.drive(|core, now| core.cancel_all(now, peer, jobs, signal, states));
    Reply::Cancelled { jobs: outcomes(jobs, done) }
}

fn requeuing(hold: bool) -> Alter {
    if hold { Core::requeue_held_all } else { Core::requeue_all }
}

fn show<P: Primitives, C: Contents + 'static>(
    shared: &Shared<P, C>,
    job: JobId,
) -> Result<Reply, ApiError> {
    let job = shared.core().show(shared.now(), job)?;
    Ok(Reply::Job { job: Box::new(job) })
}

fn drain<P: Primitives, C: Contents + 'static>(
    shared: &Shared<P, C>,
    peer: Peer,
    nodes: &str,
    reason: &str,
) -> Result<Reply, ApiError> {
    shared.drive(|core, now| core.drain(now, peer, nodes, reason)).map(|()| Reply::Ok)
}

fn resume<P: Primitives, C: Contents + 'static>(
    shared: &Shared<P, C>,
    peer: Peer,
    nodes: &str,
) -> Result<Reply, ApiError> {
    shared.drive(|core, now| core.resume(now, peer, nodes)).map(|()| Reply::Ok)
}

fn priorities<P: Primitives, C: Contents + 'static>(
    shared: &Shared<P, C>,
    jobs: &[JobId],
) -> Reply {
    let (jobs, left) = shared.drive(|core, now| core.list_priorities(now, jobs));
    Reply::Priorities { jobs, left }
}

fn explain<P: Primitives, C: Contents + 'static>(
    shared: &Shared<P, C>,
    job: JobId,
) -> Result<Reply, ApiError> {
    let why = shared.core().explain(shared.now(), job)?;
    Ok(Reply::Explanation { explanation: Box::new(why) })
}

/// Answers after the effects of the request are durable and carried out: an answer is a promise.
fn send_behind<P: Primitives, C: Contents + 'static>(
    shared: &Rc<Shared<P, C>>,
    reply: Result<Reply, ApiError>,
    replies: ReplySink,
) {
    shared.defer(move || {
        let _ = match reply {
            Ok(reply) => replies.send(reply),
            Err(error) => replies.refuse(error),
        };
    });
}

fn set_partition<P: Primitives, C: Contents + 'static>(
    shared: &Rc<Shared<P, C>>,
    peer: Peer,
    partition: &str,
    sched: Option<&str>,
    quantum_us: Option<u64>,
) -> Result<Reply, ApiError> {
    let quantum = quantum_us.map(Duration::from_micros);
    shared
        .drive(|core, now| core.set_partition(now, peer, partition, sched, quantum))
        .map(|partition| Reply::Partitions { partitions: vec![partition] })
}

fn submit<P: Primitives, C: Contents + 'static>(
    shared: &Rc<Shared<P, C>>,
    peer: Peer,
    spec: JobSpec,
    (service, reservation): (Service, Option<String>),
    attach: bool,
    replies: ReplySink,
) {
    if attach && spec.needs.array.is_some() {
        let message = "an array of jobs cannot be followed";
        let error = ApiError::new(ErrorCode::BadRequest, message);
        let _ = replies.refuse(error.hint("submit it, and attach to one of its jobs"));
        return;
    }
    let submitted =
        shared.drive(|core, now| core.submit_to(now, peer, spec, service, reservation.as_deref()));
    if let Ok(job) = submitted
        && attach
    {
        // Subscribes before the effects of the submission are carried out, so that no event is
        // missed.
        shared.subscribe(Followed::Job(job), replies.clone());
    }
    shared.defer(move || {
        let _ = match submitted {
            Ok(job) => replies.send(Reply::Submitted { job }),
            Err(error) => replies.refuse(error),
        };
    });
}

fn attach<P: Primitives, C: Contents + 'static>(
    shared: &Rc<Shared<P, C>>,
    peer: Peer,
    job: JobId,
    replies: ReplySink,
) {
    let away = shared.core().is_recovering(job);
    let (state, run) = match shared.owned_by(peer, job) {
        Ok(found) => found,
        Err(error) => {
            let _ = replies.refuse(error);
            return;
        }
    };
    if !state.is_final() {
        let _ = replies.send(Reply::Attached { job, state, run, away });
        return shared.subscribe(Followed::Job(job), replies);
    }
    // The end may not be durable yet.
    let ended = {
        let core = shared.core();
        core.job(job).ok().and_then(|record| match &record.phase {
            Phase::Ended(outcome) => Some(Reply::Ended {
                job,
                state: outcome.state,
                exit_code: outcome.exit_code,
                reason: outcome.reason.clone(),
                breakdown: record.breakdown,
            }),
            Phase::Pending | Phase::Starting | Phase::Running | Phase::Ending(_) => None,
        })
    };
    shared.answer(replies.clone(), Reply::Attached { job, state, run, away });
    if let Some(ended) = ended {
        shared.answer(replies, ended);
    }
}

/// Input is answered when all of it is on its way.
fn input<P: Primitives, C: Contents + 'static>(
    shared: &Rc<Shared<P, C>>,
    peer: Peer,
    (job, ask): (JobId, Option<StepAsk>),
    request: InputRequest,
) {
    if let Some(ask) = ask {
        return shared.step_input(peer, (job, ask), request);
    }
    match input_nodes(shared, peer, job) {
        Ok((step, incarnation, nodes)) if !nodes.is_empty() => {
            shared.take_input(step, incarnation, &nodes, request);
        }
        answer => {
            let reply = match answer {
                // The input has no reader.
                Ok(_) => Reply::Ok,
                Err(error) => Reply::Error { error },
            };
            shared.answer(request.replies, reply);
        }
    }
}

/// The nodes whose ranks read the input of a job: none once it has ended.
fn input_nodes<P: Primitives, C: Contents + 'static>(
    shared: &Shared<P, C>,
    peer: Peer,
    job: JobId,
) -> Result<(StepRef, JobIncarnation, NodeSet), ApiError> {
    let (state, _) = shared.owned_by(peer, job)?;
    let core = shared.core();
    let record = core.job(job)?;
    if state == JobState::Pending {
        let message = format!("job {job} has no processes yet that could read");
        return Err(ApiError::new(ErrorCode::BadRequest, message)
            .hint("send input after the event that says RUNNING"));
    }
    let reads = |share: &NodeRanks| match &record.spec.step.input {
        InputSpec::None | InputSpec::File(_) => false,
        InputSpec::RankZero => share.first == Rank(0),
        InputSpec::All => true,
    };
    let shares = record.step_ranks().filter(|_| !state.is_final()).filter(reads);
    Ok((record.first_step(), record.incarnation, shares.map(|share| share.node).collect()))
}

fn altered(jobs: &[JobId], done: Vec<Result<(), ApiError>>) -> Reply {
    Reply::Altered { jobs: outcomes(jobs, done) }
}

fn outcomes(jobs: &[JobId], done: Vec<Result<(), ApiError>>) -> Vec<CancelOutcome> {
    let outcome = |(job, done): (&JobId, Result<(), ApiError>)| CancelOutcome {
        job: *job,
        error: done.err(),
    };
    jobs.iter().zip(done).map(outcome).collect()
}

fn shut_down<P: Primitives, C: Contents + 'static>(
    shared: &Rc<Shared<P, C>>,
    peer: Peer,
) -> Result<Reply, ApiError> {
    // The user that the manager runs as is in the list of administrators.
    if !shared.core().is_admin(peer) {
        let message = "only an administrator may shut the cluster down";
        return Err(ApiError::new(ErrorCode::NotPermitted, message));
    }
    shared.drive(|core, now| core.shut_down(now));
    Ok(Reply::Ok)
}

impl<P: Primitives, C: Contents + 'static> Shared<P, C> {
    /// Answers after all effects that the core has queued so far.
    pub(super) fn answer(&self, replies: ReplySink, reply: Reply) {
        self.defer(move || {
            // A disconnected client needs no answer.
            let _ = replies.send(reply);
        });
    }

    /// The state and the latest run of a job that the peer may follow.
    pub(super) fn owned_by(
        &self,
        peer: Peer,
        job: JobId,
    ) -> Result<(JobState, JobIncarnation), ApiError> {
        let core = self.core();
        let record = core.job(job)?;
        if record.spec.owner.uid != peer.uid && !core.is_admin(peer) {
            let message = format!("job {job} belongs to another user");
            return Err(ApiError::new(ErrorCode::NotPermitted, message));
        }
        Ok((record.state(), record.incarnation))
    }
}
