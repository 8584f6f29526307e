//! The end of jobs: requested, forced, or reached.

use super::jobs::no_such_job;
use super::live::{Launch, LivePlace, Lost};
use super::{Core, Durable, JobTimer, Notice, Timer};
use crate::api::{ApiError, ErrorCode, JobState, Peer, Reply};
use crate::job::{EndCause, JobEventKind, JobRecord, Outcome, Phase, Sequel};
use std::time::Duration;
use storm_primitives::{Instant, NodeSet};
use storm_rm::JobId;
use storm_rm::message::{Command, ExitStatus, RankExit};
use storm_sched::Event;

/// The polite request to end, before the kill.
pub(super) const SIGTERM: i32 = 15;
/// Signals that a process gets through its own errors, not to end it: SIGILL, SIGBUS, SIGFPE and
/// SIGSEGV. SIGABRT is not among them, since libraries raise it when a peer has aborted.
const CRASHES: [i32; 4] = [4, 7, 8, 11];
/// Largest signal number of Linux (signal(7)).
const MAX_SIGNAL: i32 = 64;

impl Core {
    /// Ends a job, or the jobs of an array, on behalf of a user, or sends a signal.
    ///
    /// # Errors
    /// An [`ApiError`] for the client: no such job, another user's job, or over already.
    pub fn cancel(
        &mut self,
        now: Instant,
        peer: Peer,
        job: JobId,
        signal: Option<i32>,
    ) -> Result<(), ApiError> {
        self.cancel_those_in(now, peer, job, signal, &[])
    }

    /// Does the same as [`Core::cancel`], for a job in one of `states`; in any state if the list is
    /// empty.
    fn cancel_those_in(
        &mut self,
        now: Instant,
        peer: Peer,
        job: JobId,
        signal: Option<i32>,
        states: &[JobState],
    ) -> Result<(), ApiError> {
        // The last job first, so that none starts because another leaves.
        let jobs = self.jobs.of(job).into_iter().rev().collect();
        self.each_of(now, peer, job, jobs, |core, job| {
            core.jobs.check_state(job, states)?;
            core.cancel_one(now, peer, job, signal)
        })
    }

    /// Does the same as [`Core::cancel`] for several jobs, each in one of `states`, or in any state
    /// if the list is empty. Returns the outcomes in the order of `jobs`.
    pub fn cancel_all(
        &mut self,
        now: Instant,
        peer: Peer,
        jobs: &[JobId],
        signal: Option<i32>,
        states: &[JobState],
    ) -> Vec<Result<(), ApiError>> {
        self.together(now, |core| {
            let cancel = |job: &JobId| core.cancel_those_in(now, peer, *job, signal, states);
            jobs.iter().map(cancel).collect()
        })
    }

    fn cancel_one(
        &mut self,
        now: Instant,
        peer: Peer,
        job: JobId,
        signal: Option<i32>,
    ) -> Result<(), ApiError> {
        let record = self.jobs.get(&job).ok_or_else(|| no_such_job(job))?;
        if let Phase::Ended(outcome) = &record.phase {
            let message = format!("job {} has ended: {}", record.name(), outcome.state);
            return Err(ApiError::new(ErrorCode::JobEnded, message));
        }
        match signal {
            None => {
                self.end_job(now, job, EndCause::Cancelled { uid: peer.uid });
                Ok(())
            }
            Some(signal) => self.signal(job, signal),
        }
    }

    /// Whether a user may act on everyone's jobs.
    pub fn is_admin(&self, peer: Peer) -> bool {
        !peer.by_door && (peer.uid == 0 || self.config.admin_uids.contains(&peer.uid))
    }

    fn signal(&mut self, job: JobId, signal: i32) -> Result<(), ApiError> {
        check_signal(signal)?;
        let of_script = self.jobs.get(&job).is_some_and(JobRecord::is_script);
        if self.signal_steps(job, signal) && of_script {
            // As in Slurm, the signal is for the script's steps. A script without a step that runs
            // gets it itself.
            return Ok(());
        }
        match self.live.get(job) {
            Some(live) if live.is_on_nodes() => {
                let command = Command::SignalJob { step: self.first_step(job), signal };
                self.effects.durable.push(Durable::Command(live.nodes().clone(), command));
                Ok(())
            }
            Some(_) | None => {
                let name =
                    self.jobs.get(&job).map_or_else(|| job.to_string(), |record| record.name());
                let message = format!("job {name} has no processes yet");
                Err(ApiError::new(ErrorCode::BadRequest, message)
                    .hint("to end it, cancel it without a signal"))
            }
        }
    }

    /// Ends every job and takes no more.
    pub fn shut_down(&mut self, now: Instant) {
        self.jobs.close();
        // Jobs that wait end first, each queue from its end, and jobs that hold elements last: no
        // job may start because another leaves.
        let queues = self.partitions.iter().flat_map(|p| p.policy().pending().into_iter().rev());
        let queued: Vec<JobId> = queues.collect();
        let early: Vec<JobId> = self.jobs.needs().waiting().iter().copied().collect();
        let awaiting: Vec<JobId> = self.live.awaiting().map(|placed| placed.job()).rev().collect();
        let all: Vec<JobId> = self.jobs.keys().copied().collect();
        let queues = self.partitions.iter().map(|p| p.queue_of_next().iter().rev().copied());
        let early = queues.flatten().chain(early);
        let unfinished =
            early.collect::<Vec<_>>().into_iter().chain(queued).chain(awaiting).chain(all);
        self.together(now, |core| {
            for job in unfinished {
                core.end_job(now, job, EndCause::Shutdown);
            }
        });
    }

    /// Begins the end of a job, in whatever phase it is.
    pub(super) fn end_job(&mut self, now: Instant, job: JobId, cause: EndCause) {
        let Some(record) = self.jobs.get(&job) else { return };
        if record.first_over && self.live.contains(job) {
            // Its first step has decided the outcome, and its other steps are being ended.
            return;
        }
        match (&record.phase, self.live.get(job).map(LivePlace::launch)) {
            // Otherwise the job would be queued again after its user got the reply that the job
            // ends.
            (Phase::Ending(earlier), Some(_))
                if earlier.sequel().can_run_again()
                    && matches!(cause, EndCause::Cancelled { .. }) =>
            {
                self.append(now, job, JobEventKind::Ending { cause });
                self.pass_on_early(job);
            }
            (Phase::Ended(_) | Phase::Ending(_), _) => {}
            (Phase::Pending, _) | (Phase::Starting | Phase::Running, None) => {
                let partition = self.partitions.id_of(&record.partition);
                // A job that waits for something else is not with its policy.
                let partition = partition.filter(|_| !self.jobs.needs().is_waiting(job));
                self.end_waiting(now, job, cause);
                if partition.is_none() {
                    // The job's partition may not be there any more.
                    self.returns.forget(job);
                }
                if let Some(partition) = partition {
                    let withdrawn = Event::Cancel(job);
                    self.withdraw(now, partition, job, withdrawn);
                }
            }
            (Phase::Starting, Some(Launch::Staging | Launch::Staged)) => {
                self.effects.durable.push(Durable::AbandonStaging(job));
                self.finish(now, job, Some(cause));
            }
            (Phase::Starting | Phase::Running, Some(_)) => self.end_processes(now, job, cause),
        }
    }

    /// A job that waits leaves the queue.
    pub(super) fn withdraw(
        &mut self,
        now: Instant,
        partition: storm_rm::PartitionId,
        job: JobId,
        event: Event,
    ) {
        if self.returns.forget(job) || self.give_back(now, job) {
            return;
        }
        let later = self.jobs.needs().is_together();
        if let Some(event) = self.partitions.dequeue(partition, (job, event), later) {
            self.tell_policy(now, partition, event);
        }
    }

    fn end_processes(&mut self, now: Instant, job: JobId, cause: EndCause) {
        self.append(now, job, JobEventKind::Ending { cause: cause.clone() });
        if !self.is_launched_again(job) {
            self.pass_on_early(job);
        }
        let Some(nodes) = self.live.begin_end(job) else { return };
        self.order_end(now, job, nodes, &cause);
        self.end_steps(now, job, &cause);
    }

    /// Orders nodes to end their part of a job. A script is asked only when its steps are over: its
    /// commands pass the output of the steps on.
    pub(super) fn order_end(&mut self, now: Instant, job: JobId, nodes: NodeSet, cause: &EndCause) {
        let Some(live) = self.live.get(job) else { return };
        let incarnation = live.incarnation();
        if cause.asks_first() {
            let of_script = self.jobs.get(&job).is_some_and(JobRecord::is_script);
            if !of_script || live.steps().is_empty() {
                let ask = Command::SignalJob { step: self.first_step(job), signal: SIGTERM };
                self.effects.durable.push(Durable::Command(nodes, ask));
            }
            let at = now + self.config.kill_grace;
            self.effects.durable.push(Durable::Timer {
                at,
                timer: Timer::Job { job, incarnation, kind: JobTimer::Kill },
            });
        } else {
            self.effects
                .durable
                .push(Durable::Command(nodes, Command::DestroyJob { step: self.first_step(job) }));
        }
    }

    /// A step of a job is over. If it was the last one of a script that is being ended, the script
    /// is asked to end.
    pub(super) fn ask_script_to_end(&mut self, job: JobId) {
        let (Some(record), Some(live)) = (self.jobs.get(&job), self.live.get(job)) else { return };
        let asks = matches!(&record.phase, Phase::Ending(cause) if cause.asks_first());
        if asks && record.is_script() && live.steps().is_empty() && !live.is_over() {
            let ask = Command::SignalJob { step: self.first_step(job), signal: SIGTERM };
            self.effects.durable.push(Durable::Command(live.holders(), ask));
        }
    }

    /// The job's last process has ended: frees everything that the job held.
    pub(super) fn finish(&mut self, now: Instant, job: JobId, cause: Option<EndCause>) {
        let Some(live) = self.live.remove(job) else { return };
        let nodes = self.up(live.nodes());
        self.effects
            .durable
            .push(Durable::Command(nodes, Command::ReleaseJob { step: self.first_step(job) }));
        let cause = self.lost_meanwhile(job, &live, cause);
        let cause = cause.map(|cause| self.crash_behind(job, &live, cause));
        let requeue = self.runs_again(job, cause.as_ref());
        let is_cut = requeue && matches!(cause, Some(EndCause::LaunchCut { .. }));
        if !is_cut {
            self.pass_on(job, live.early_output().to_vec());
        }
        match cause {
            Some(cause) if requeue => {
                // The time of this run is charged, and the next run begins at zero.
                let time = live.run_time(now);
                if !time.is_zero() {
                    self.append(now, job, JobEventKind::Ran { time });
                }
                self.append(now, job, JobEventKind::Requeued { cause });
            }
            cause => {
                let ran = live.run_time(now);
                let exits = live.exits().values().cloned().collect();
                self.append_end(now, job, cause, exits, ran);
            }
        }
        self.live.free_slots_of(&live);
        self.place_awaiting(now);
        self.grant_all_steps(now);
        let lost = if live.is_on_nodes() { live.lost().clone() } else { Lost::new() };
        let in_place = is_cut && lost.is_empty() && !live.is_released();
        if in_place {
            self.queue_in_place(now, job, live.partition());
        } else if !live.is_released() {
            let finished = Event::Finished(job);
            self.tell_policy(now, live.partition(), finished);
        }
        self.ended_outside_matrix(now, job, live.place_nodes());
        self.return_stranded(now);
        if requeue && !in_place {
            self.queue_when_fenced(now, job, lost);
        }
    }

    /// Whether a job is ending because its launch was cut off, and is to be launched again.
    pub(super) fn is_launched_again(&self, job: JobId) -> bool {
        let Some(record) = self.jobs.get(&job) else { return false };
        match &record.phase {
            Phase::Ending(cause @ EndCause::LaunchCut { .. }) => {
                record.started.is_none() && self.runs_again(job, Some(cause))
            }
            Phase::Ending(_)
            | Phase::Pending
            | Phase::Starting
            | Phase::Running
            | Phase::Ended(_) => false,
        }
    }

    /// Whether a job that has ended for the given cause is queued again.
    fn runs_again(&self, job: JobId, cause: Option<&EndCause>) -> bool {
        let record = &self.jobs[&job];
        let sequel = cause.map_or(Sequel::Over, EndCause::sequel);
        !self.jobs.is_closed() && sequel.runs_again(record.spec.requeue, record.started.is_some())
    }

    /// The cause of a job's end, or the loss of a node that happened meanwhile.
    fn lost_meanwhile(
        &self,
        job: JobId,
        live: &LivePlace,
        cause: Option<EndCause>,
    ) -> Option<EndCause> {
        let may_repeat = self.jobs[&job].spec.requeue;
        let sequel = cause.as_ref().map_or(Sequel::Over, EndCause::sequel);
        if live.lost().is_empty() || !sequel.yields_to_a_loss(may_repeat) {
            return cause;
        }
        Some(EndCause::NodeLost { node: self.nodes.fold(&live.lost().keys().copied().collect()) })
    }

    /// When a rank crashes, other ranks see closed connections, and abort or leave. Even if the
    /// reports of their nodes arrive first, the crash counts as the cause. A library may also crash
    /// because a peer aborted, so the reason names both.
    fn crash_behind(&self, job: JobId, live: &LivePlace, cause: EndCause) -> EndCause {
        let Some(told) = cause.effect_of_a_crash() else { return cause };
        let crashed = live.exits().values().find_map(|exit| match exit.status {
            ExitStatus::Signal(signal) if exit.rank != told && CRASHES.contains(&signal) => {
                Some((exit.rank, signal))
            }
            ExitStatus::Signal(_) | ExitStatus::Code(_) => None,
        });
        let Some((rank, signal)) = crashed else { return cause };
        let shares = self.jobs.get(&job).map_or(&[][..], |record| &record.ranks);
        let Some(share) = shares.iter().find(|share| share.has(rank)) else { return cause };
        let node = self.node_name(share.node);
        EndCause::RankKilled { rank, node, signal, with: Some(Box::new(cause)) }
    }

    /// The last event of a job that is not on the machine.
    pub(super) fn end_waiting(&mut self, now: Instant, job: JobId, cause: EndCause) {
        let ran = self.jobs.get(&job).map_or(Duration::ZERO, |record| record.ran);
        self.append_end(now, job, Some(cause), Vec::new(), ran);
    }

    /// The last event of a job.
    fn append_end(
        &mut self,
        now: Instant,
        job: JobId,
        cause: Option<EndCause>,
        exits: Vec<RankExit>,
        ran: Duration,
    ) {
        let cause = cause.map(|cause| (self.config.said(&cause), cause));
        let outcome = outcome(cause, &exits);
        let breakdown = self.jobs.get(&job).and_then(|record| record.breakdown);
        let ended = Reply::Ended {
            job,
            state: outcome.state,
            exit_code: outcome.exit_code,
            reason: outcome.reason.clone(),
            breakdown,
        };
        if let Some(sched) = self.jobs.get(&job).and_then(|record| self.other_policy(record)) {
            self.append(now, job, JobEventKind::UnderPolicy { sched });
        }
        self.append(now, job, JobEventKind::Ended { outcome, exits, ran });
        self.absent_clients.remove(job);
        self.effects.durable.push(Durable::Notify(job, Notice::Event(ended)));
        self.tell_awaited(now, job);
        self.settle(now);
    }
}

/// Refuses a number that is not a signal.
pub(super) fn check_signal(signal: i32) -> Result<(), ApiError> {
    if (1..=MAX_SIGNAL).contains(&signal) {
        return Ok(());
    }
    let message = format!("{signal} is not a signal number");
    let hint = format!("use 1 to {MAX_SIGNAL}, for example 10 for SIGUSR1");
    Err(ApiError::new(ErrorCode::BadRequest, message).hint(hint))
}

/// The outcome of a job, from the cause of its end and the exits of its ranks.
pub(super) fn outcome(cause: Option<(String, EndCause)>, exits: &[RankExit]) -> Outcome {
    let worst = exits.iter().max_by_key(|exit| exit.status.shell_code());
    let code = worst.map_or(0, |exit| exit.status.shell_code());
    match cause {
        Some((said, cause)) => Outcome {
            state: cause.state(),
            exit_code: cause.exit_code().unwrap_or(code),
            reason: Some(said),
        },
        None => Outcome {
            state: if code == 0 { JobState::Completed } else { JobState::Failed },
            exit_code: code,
            reason: worst.filter(|_| code != 0).map(|exit| match exit.status {
                ExitStatus::Code(code) => format!("rank {} exited with {code}", exit.rank),
                ExitStatus::Signal(signal) => {
                    format!("rank {} was ended by signal {signal}", exit.rank)
                }
            }),
        },
    }
}
