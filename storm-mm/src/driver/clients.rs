//! Clients: each request is answered from the core; attached clients get the
//! events and the output of their job.

use super::inputs::InputRequest;
use super::subscriber::Subscriber;
use super::{Contents, Shared};
use crate::Notice;
use crate::api::{
    ApiError, Call, CancelOutcome, ErrorCode, HistoryQuery, JobFilter, JobState, ManagerRequest,
    Peer, Reply, ReplySink, Service,
};
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{NodeId, NodeSet, Primitives, Runtime};
use storm_rm::message::{Command, NodeRanks};
use storm_rm::{InputSpec, JobId, JobIncarnation, JobSpec, Rank};

/// Answers calls for as long as the manager runs.
pub(super) async fn run<P: Primitives, C: Contents + 'static>(
    shared: Rc<Shared<P, C>>,
    calls: async_channel::Receiver<Call>,
) {
    while let Ok(call) = calls.recv().await {
        answer(&shared, call);
    }
}

/// Tells the core of users that the host has learnt of.
pub(super) async fn learn_users<P: Primitives, C: Contents + 'static>(shared: Rc<Shared<P, C>>) {
    let Some(known) = shared.config.known_users.clone() else { return };
    while let Ok((name, uid)) = known.recv().await {
        shared.drive(|core, now| core.user_known(now, &name, uid));
    }
}

/// Whether an event ends a run of a job: it is over, or waits again.
pub(super) fn ends_the_run(reply: &Reply) -> bool {
    matches!(reply, Reply::Ended { .. } | Reply::State { state: JobState::Pending, .. })
}

fn answer<P: Primitives, C: Contents + 'static>(shared: &Rc<Shared<P, C>>, call: Call) {
    // Answers must show the present state.
    shared.pass_ordered_slices();
    let Call { peer, request, replies } = call;
    let (now, core) = (shared.now(), &shared.core);
    let reply = match request.once_each() {
        ManagerRequest::Submit { spec, attach, service, reservation } => {
            return submit(shared, peer, *spec, (service, reservation), attach, replies);
        }
        ManagerRequest::Attach { job } => return attach(shared, peer, job, replies),
        ManagerRequest::Wait { jobs } => return shared.wait(peer, &jobs, replies),
        ManagerRequest::Input { job, data, eof } => {
            return input(shared, peer, job, InputRequest { data, eof, replies });
        }
        ManagerRequest::Cancel { jobs, signal, states } => {
            let done = shared.drive(|core, now| core.cancel_all(now, peer, &jobs, signal, &states));
            Ok(Reply::Cancelled { jobs: outcomes(&jobs, done) })
        }
        ManagerRequest::Hold { jobs } => {
            Ok(altered(&jobs, shared.drive(|core, now| core.hold_all(now, peer, &jobs))))
        }
        ManagerRequest::Release { jobs } => {
            Ok(altered(&jobs, shared.drive(|core, now| core.release_all(now, peer, &jobs))))
        }
        ManagerRequest::SetPartition { partition, sched, quantum_us } => {
            set_partition(shared, peer, &partition, sched.as_deref(), quantum_us)
        }
        ManagerRequest::ResetPartition { partition, sched, quantum } => shared
            .drive(|core, now| core.reset_partition(now, peer, &partition, sched, quantum))
            .map(|partition| Reply::Partitions { partitions: vec![partition] }),
        ManagerRequest::Shutdown => shut_down(shared, peer),
        ManagerRequest::Jobs(filter) => Ok(jobs(shared, &filter)),
        ManagerRequest::History(query) => Ok(history(shared, &query)),
        ManagerRequest::Show { job } => {
            core.borrow().show(now, job).map(|job| Reply::Job { job: Box::new(job) })
        }
        ManagerRequest::Explain { job } => explain(shared, job),
        ManagerRequest::Nodes => Ok(Reply::Nodes { nodes: core.borrow().list_nodes(shared.now()) }),
        ManagerRequest::Drain { nodes, reason } => {
            shared.drive(|core, now| core.drain(now, peer, &nodes, &reason)).map(|()| Reply::Ok)
        }
        ManagerRequest::Resume { nodes } => {
            shared.drive(|core, now| core.resume(now, peer, &nodes)).map(|()| Reply::Ok)
        }
        ManagerRequest::Partitions => {
            Ok(Reply::Partitions { partitions: core.borrow().list_partitions() })
        }
        ManagerRequest::Reservations => {
            Ok(Reply::Reservations { reservations: core.borrow().list_reservations(now) })
        }
        ManagerRequest::Reserve(request) => shared
            .drive(|core, now| core.reserve(now, peer, &request))
            .map(|made| Reply::Reservations { reservations: vec![made] }),
        ManagerRequest::Unreserve { name } => {
            shared.drive(|core, now| core.unreserve(now, peer, &name)).map(|()| Reply::Ok)
        }
        ManagerRequest::Priority { jobs } => {
            let (jobs, left) = core.borrow_mut().list_priorities(now, &jobs);
            Ok(Reply::Priorities { jobs, left })
        }
        ManagerRequest::Shares => Ok(Reply::Shares { shares: core.borrow_mut().list_shares(now) }),
        ManagerRequest::Status => {
            Ok(Reply::Status { status: Box::new(core.borrow().status(now, shared.started)) })
        }
    };
    send_behind(shared, reply, replies);
}

fn jobs<P: Primitives, C: Contents + 'static>(shared: &Shared<P, C>, filter: &JobFilter) -> Reply {
    let (now, mut core) = (shared.now(), shared.core.borrow_mut());
    let (jobs, more) = match filter.part {
        Some(part) => core.list_part(now, filter, part),
        None => (core.list_jobs(now, filter), false),
    };
    Reply::Jobs { jobs, more }
}

fn history<P: Primitives, C: Contents + 'static>(
    shared: &Shared<P, C>,
    query: &HistoryQuery,
) -> Reply {
    let (now, core) = (shared.now(), shared.core.borrow());
    let (jobs, more) = match query.part {
        Some(part) => core.history_part(now, query, part),
        None => (core.history(now, query), false),
    };
    Reply::Jobs { jobs, more }
}

fn explain<P: Primitives, C: Contents + 'static>(
    shared: &Shared<P, C>,
    job: JobId,
) -> Result<Reply, ApiError> {
    let why = shared.core.borrow().explain(shared.now(), job)?;
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
        shared.subscribe(job, replies.clone());
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
    let state = match shared.owned_by(peer, job) {
        Ok(state) => state,
        Err(error) => {
            let _ = replies.refuse(error);
            return;
        }
    };
    let _ = replies.send(Reply::Attached { job, state });
    if state.is_final() {
        let core = shared.core.borrow();
        if let Ok(record) = core.job(job)
            && let crate::job::Phase::Ended(outcome) = &record.phase
        {
            let _ = replies.send(Reply::Ended {
                job,
                state: outcome.state,
                exit_code: outcome.exit_code,
                reason: outcome.reason.clone(),
                breakdown: record.breakdown,
            });
        }
        return;
    }
    shared.subscribe(job, replies);
}

/// Input is answered when all of it is on its way.
fn input<P: Primitives, C: Contents + 'static>(
    shared: &Rc<Shared<P, C>>,
    peer: Peer,
    job: JobId,
    request: InputRequest,
) {
    match input_nodes(shared, peer, job) {
        Ok((incarnation, nodes)) if !nodes.is_empty() => {
            shared.take_input(job, incarnation, &nodes, request);
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
) -> Result<(JobIncarnation, NodeSet), ApiError> {
    let state = shared.owned_by(peer, job)?;
    let core = shared.core.borrow();
    let record = core.job(job)?;
    if state == JobState::Pending {
        let message = format!("job {job} has no processes yet that could read");
        return Err(ApiError::new(ErrorCode::BadRequest, message)
            .hint("send input after the event that says RUNNING"));
    }
    let reads = |share: &&NodeRanks| match record.spec.input {
        InputSpec::None => false,
        InputSpec::RankZero => share.first == Rank(0),
        InputSpec::All => true,
    };
    let shares = record.ranks.iter().filter(|_| !state.is_final()).filter(reads);
    Ok((record.incarnation, shares.map(|share| share.node).collect()))
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
    if !shared.core.borrow().is_admin(peer) {
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
            // A client that is gone needs no answer.
            let _ = replies.send(reply);
        });
    }

    fn owned_by(&self, peer: Peer, job: JobId) -> Result<JobState, ApiError> {
        let core = self.core.borrow();
        let record = core.job(job)?;
        if record.spec.owner.uid != peer.uid && !core.is_admin(peer) {
            let message = format!("job {job} belongs to another user");
            return Err(ApiError::new(ErrorCode::NotPermitted, message));
        }
        Ok(record.state())
    }

    /// Lets a client follow a job.
    fn subscribe(self: &Rc<Self>, job: JobId, sink: ReplySink) {
        let subscriber = Rc::new(Subscriber::new(sink));
        self.subscribers.borrow_mut().entry(job).or_default().push(subscriber.clone());
        self.drive(|core, _| core.release_output(job));
        let (this, own) = (self.clone(), subscriber.clone());
        let passing = self.primitives.runtime().spawn(async move {
            own.pass_on(|| this.adjust_flow(job)).await;
            this.unsubscribe(job, &own);
        });
        passing.detach();
    }

    fn unsubscribe(&self, job: JobId, gone: &Rc<Subscriber>) {
        let mut all = self.subscribers.borrow_mut();
        let Some(list) = all.get_mut(&job) else { return };
        list.retain(|subscriber| !Rc::ptr_eq(subscriber, gone));
        if list.is_empty() {
            all.remove(&job);
        }
        drop(all);
        self.adjust_flow(job);
    }

    /// Passes news of a job to those attached to it.
    pub(super) fn publish(&self, job: JobId, notice: Notice) {
        let subscribers = self.subscribers.borrow().get(&job).cloned().unwrap_or_default();
        let reply = match notice {
            Notice::Event(reply) => reply,
            // Only for clients that wait, not for those that follow.
            Notice::Over(_) => return,
            Notice::Output(rank, stream, offset, data) => {
                Reply::Output { job, rank, stream, offset, data }
            }
        };
        for subscriber in subscribers {
            subscriber.push(reply.clone());
        }
        self.adjust_flow(job);
    }

    /// The run of a job is over: its nodes hold no output any more and take no input.
    pub(super) fn forget_flow(&self, job: JobId) {
        self.held_output.borrow_mut().remove(&job);
        self.forget_input(job);
    }

    /// Has the nodes hold the job's output while a client is behind.
    fn adjust_flow(&self, job: JobId) {
        let behind = |all: &Vec<Rc<Subscriber>>| all.iter().any(|one| one.is_behind());
        let hold = self.subscribers.borrow().get(&job).is_some_and(behind);
        let changed = {
            let mut held = self.held_output.borrow_mut();
            if hold { held.insert(job) } else { held.remove(&job) }
        };
        if !changed {
            return;
        }
        let nodes: NodeSet = match self.core.borrow().job(job) {
            Ok(record) => record.ranks.iter().map(|share| share.node).collect(),
            Err(_) => return,
        };
        self.say_in_turn(nodes, Command::HoldOutput { job, hold });
    }
    /// A node has come back: tells it again for which of its jobs the output is held.
    pub(super) fn hold_again(&self, node: NodeId) {
        let is_there = |job: &JobId| {
            let core = self.core.borrow();
            core.job(*job).is_ok_and(|record| record.ranks.iter().any(|share| share.node == node))
        };
        let held: Vec<JobId> = self.held_output.borrow().iter().copied().filter(is_there).collect();
        for job in held {
            self.say_in_turn(NodeSet::single(node), Command::HoldOutput { job, hold: true });
        }
    }
}
