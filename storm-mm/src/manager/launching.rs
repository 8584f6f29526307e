//! A job's way from placed to running. Its files are brought to the nodes. Then the launch is sent,
//! on the slice edge if the job's row does not run now. Then all its ranks are seen to execute.

use super::absent_clients::CLIENT_GRACE;
use super::jobs::without_dependency;
use super::live::{self, LivePlace};
use super::partitions::Partition;
use super::{
    ClusterTimer, Core, Draft, Durable, JobTimer, Launch, StageOutcome, Timer, Watch, early_signals,
};
use crate::api::JobState;
use crate::job::{EndCause, JobEventKind, JobRecord, Phase};
use std::borrow::Cow;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Instant, NodeSet};
use storm_rm::message::Command;
use storm_rm::{JobId, JobIncarnation, LaunchFacts, PartitionId, RowSet};

/// Exit status of a job or step whose ranks did not start in time: that of a shell for a program
/// that cannot be executed.
const NOT_STARTED: u8 = 126;

/// How long returned nodes have to report the ends of ranks in their absence. A report takes
/// milliseconds.
const REPORT_GRACE: Duration = Duration::from_secs(1);

/// Parts of a time limit. In a row among several, the run time is journaled after each part. A
/// restart of the manager therefore loses at most one part.
const LIMIT_PARTS: u32 = 16;

impl Core {
    /// The files of a job are on its nodes, or cannot be brought there.
    pub fn staged(
        &mut self,
        now: Instant,
        job: JobId,
        incarnation: JobIncarnation,
        outcome: Result<StageOutcome, String>,
    ) {
        if let Some(number) = self.live.step_of_run(job, incarnation) {
            return self.step_staged(now, (job, number), outcome);
        }
        let live = self.live.run(job, incarnation);
        let Some(live) = live.filter(|live| live.launch() == live::Launch::Staging) else { return };
        let (partition, rows) = (live.partition(), live.rows());
        match outcome {
            Ok(stage) => {
                self.live.staged(now, job, stage);
                if self.partitions[partition].may_launch(rows) {
                    self.launch(now, job);
                }
            }
            Err(reason) => {
                self.live.count_failure();
                self.end_job(now, job, EndCause::StagingFailed { reason });
            }
        }
    }

    /// Launches all jobs that wait for this slice edge.
    pub(super) fn launch_staged(&mut self, now: Instant, partition: PartitionId) {
        self.launch_those(now, partition, |_, _| true);
    }

    /// Launches the jobs that wait for an edge but run in the active row.
    pub(super) fn launch_running(&mut self, now: Instant, partition: PartitionId) {
        self.launch_those(now, partition, |partition, live| partition.may_launch(live.rows()));
    }

    fn launch_those(
        &mut self,
        now: Instant,
        partition: PartitionId,
        chosen: impl Fn(&Partition, &LivePlace) -> bool,
    ) {
        if self.jobs.is_closed() {
            // All these jobs are about to be ended.
            return;
        }
        let entry = &self.partitions[partition];
        let staged = self
            .live
            .of(partition)
            .filter(|(_, live)| live.launch() == live::Launch::Staged)
            .filter(|(_, live)| live.rows() != RowSet::NONE);
        let waiting: Vec<JobId> =
            staged.filter(|(_, live)| chosen(entry, live)).map(|(job, _)| job).collect();
        for job in waiting {
            self.launch(now, job);
        }
        self.launch_staged_steps(now, partition, |core, job| {
            let live = core.live.get(job).filter(|live| live.rows() != RowSet::NONE);
            live.is_some_and(|live| chosen(&core.partitions[partition], live))
        });
    }

    /// Launches a job whose files are on its nodes.
    pub(super) fn launch(&mut self, now: Instant, job: JobId) {
        let Some(live) = self.live.get(job) else { return };
        let nodes = live.nodes().clone();
        self.live.count_launch();
        self.launch_on(now, job, nodes);
    }

    /// The facts that the processes of a job learn about it.
    pub(super) fn facts_of(&self, record: &JobRecord) -> LaunchFacts {
        LaunchFacts {
            cluster: self.config.cluster.clone(),
            partition: record.partition.clone(),
            account: record.service.account.clone(),
            qos: record.service.qos.clone(),
            restarts: record.runs.saturating_sub(1),
        }
    }

    /// Issues the launch of a job to `nodes`, a part of its nodes, and watches for its start on
    /// all.
    pub(super) fn launch_on(&mut self, now: Instant, job: JobId, nodes: NodeSet) {
        let Some(live) = self.live.get(job) else { return };
        let client_until = self.absent_clients.awaited_by_new(now, job);
        // The other nodes of a job that continues hold its output.
        let hold_output =
            client_until.is_some() || live.is_recovering() && self.absent_clients.has(job);
        let announcer = self.announcer(live.nodes());
        let partition = &self.partitions[live.partition()];
        let runs = partition.runs(live.rows());
        let record = &self.jobs[&job];
        let draft = Draft::Launch(Rc::new(Launch {
            step: record.first_step(),
            incarnation: live.incarnation(),
            place: live.incarnation(),
            slot: live.slot(),
            task: record.task,
            spec: match without_dependency(&record.spec) {
                Cow::Borrowed(_) => record.spec.clone(),
                Cow::Owned(spec) => Rc::new(spec),
            },
            ranks: record.ranks.iter().cloned().collect(),
            partition: live.partition(),
            rows: live.rows(),
            coscheduling: partition.coscheduling(),
            announcer,
            node_list: record.node_list.clone(),
            buffered: partition.policy().communication_slice().is_some(),
            hold_output,
            facts: self.facts_of(record),
        }));
        self.live.launched(now, job, runs);
        let Some(live) = self.live.get(job) else { return };
        let (watch, incarnation) = (live.watch(self.first_step(job)), live.incarnation());
        let relaunched = nodes != *live.nodes();
        if !nodes.is_empty() {
            self.effects.durable.push(Durable::Draft(nodes, draft));
        }
        if relaunched {
            // The job's announcer may have reported to the former manager.
            self.effects.durable.push(Durable::AwaitStarted(watch));
        }
        let at = now + self.config.launch_timeout;
        self.effects.durable.push(Durable::Timer {
            at,
            timer: Timer::Job { job, incarnation, kind: JobTimer::Launch },
        });
        if let Some(at) = client_until {
            self.await_client(at, job, incarnation);
        }
    }

    /// The announcer of a job reports that its ranks execute: now the other nodes are queried.
    pub(super) fn part_started(&mut self, now: Instant, job: JobId, incarnation: JobIncarnation) {
        let live = self.live.run(job, incarnation);
        let Some(live) = live.filter(|live| live.launch() == live::Launch::Launched) else {
            return;
        };
        if live.nodes().len() == 1 {
            return self.started(now, job, incarnation);
        }
        self.effects.durable.push(Durable::AwaitStarted(live.watch(self.first_step(job))));
    }

    /// All ranks of a job execute.
    pub fn started(&mut self, now: Instant, job: JobId, incarnation: JobIncarnation) {
        if let Some(number) = self.live.step_of_run(job, incarnation) {
            return self.step_started(now, (job, number));
        }
        let Some(breakdown) = self.live.started(now, job, incarnation) else { return };
        if self.jobs[&job].phase != Phase::Starting {
            return;
        }
        self.append(now, job, JobEventKind::Started { breakdown });
        self.notify_state(job, JobState::Running, None);
        self.pass_on_early(job);
        self.arm_time_limit(now, job);
        self.grant_steps(now, job);
        self.settle(now);
    }

    /// Sets the timer for the earliest instant at which the job can have reached its time limit.
    pub(super) fn arm_time_limit(&mut self, now: Instant, job: JobId) {
        self.arm_time_limit_from(now, job, now);
    }

    /// Does the same for a job whose nodes have all returned. The nodes have a moment to report the
    /// ends of ranks in the meantime, since these ranks may have ended within the limit.
    pub(super) fn arm_time_limit_of_returned(&mut self, now: Instant, job: JobId) {
        let client = if self.absent_clients.has(job) { CLIENT_GRACE } else { Duration::ZERO };
        self.arm_time_limit_from(now, job, now + REPORT_GRACE + client);
    }

    /// Sets the timer for the earliest instant from `from` on at which the job can have reached its
    /// time limit.
    fn arm_time_limit_from(&mut self, now: Instant, job: JobId, from: Instant) {
        let (Some(live), Some(record)) = (self.live.get(job), self.jobs.get(&job)) else { return };
        if let Some(limit) = record.spec.time_limit {
            let next = limit.min(record.ran + limit / LIMIT_PARTS);
            let runs_all = self.partitions[live.partition()].runs_all();
            let next = if runs_all { limit } else { next };
            let due = early_signals::due(record).filter(|_| !live.is_recovering());
            let next = due.map_or(next, |due| due.min(next));
            let (at, incarnation) = (live.earliest(now, next).max(from), live.incarnation());
            self.effects.durable.push(Durable::Timer {
                at,
                timer: Timer::Job { job, incarnation, kind: JobTimer::TimeLimit },
            });
        }
    }

    /// The job may have reached its time limit, or the next part of its limit, which is journaled.
    fn time_limit_timer(&mut self, now: Instant, job: JobId) {
        let (Some(live), Some(record)) = (self.live.get(job), self.jobs.get(&job)) else { return };
        let Some(limit) = record.spec.time_limit else { return };
        if live.is_recovering() && live.holders().is_empty() {
            // Only nodes that are away have ranks, which may have ended. The nodes report it when
            // they return, and the timer is set anew.
            return;
        }
        let time = live.run_time(now);
        if time >= limit {
            return self.end_job(now, job, EndCause::TimeLimit);
        }
        self.signal_early(now, job, time);
        let (Some(live), Some(record)) = (self.live.get(job), self.jobs.get(&job)) else { return };
        let runs_all = self.partitions[live.partition()].runs_all();
        let runs = record.phase == Phase::Running && !runs_all;
        if runs && time >= record.ran + limit / LIMIT_PARTS {
            self.append(now, job, JobEventKind::Ran { time });
        }
        self.arm_time_limit(now, job);
    }

    /// The timer of a job's launch has fired.
    fn launch_timer(&mut self, now: Instant, job: JobId) {
        let Some(live) = self.live.get(job) else { return };
        if live.launch() != live::Launch::Launched {
            return;
        }
        // The run time of a place begins with the launch of its first step.
        let launched = (live.watch(self.first_step(job)), Duration::ZERO);
        let incarnation = live.incarnation();
        let timer = Timer::Job { job, incarnation, kind: JobTimer::Launch };
        self.look_for_unstarted(now, job, launched, timer);
    }

    /// The timer of the launch of a step has fired: finds which nodes have not started, unless the
    /// place was stopped for part of the time. The place had run for `since` at the launch.
    pub(super) fn look_for_unstarted(
        &mut self,
        now: Instant,
        job: JobId,
        (watch, since): (Watch, Duration),
        timer: Timer,
    ) {
        let Some(live) = self.live.get(job) else { return };
        let until = since + self.config.launch_timeout;
        let effect = match live.run_time(now) >= until {
            true => Durable::NameUnstarted(watch),
            false => Durable::Timer { at: live.earliest(now, until), timer },
        };
        self.effects.durable.push(effect);
    }

    /// Why a step ends of which these nodes have not started their ranks.
    pub(super) fn not_started(&self, nodes: &NodeSet) -> EndCause {
        let limit = self.config.launch_timeout;
        let nodes = self.nodes.fold(nodes);
        let reason = format!("its ranks did not start on {nodes} within {limit:?}");
        EndCause::LaunchFailed { reason, exit_code: NOT_STARTED }
    }

    /// A launch has reached its time limit, and these nodes have not started their ranks. If the
    /// set is empty, all nodes have started, or the report of a death is on its way.
    pub fn unstarted(
        &mut self,
        now: Instant,
        job: JobId,
        incarnation: JobIncarnation,
        nodes: &NodeSet,
    ) {
        if let Some(number) = self.live.step_of_run(job, incarnation) {
            return self.step_unstarted(now, (job, number), nodes);
        }
        let live = self.live.run(job, incarnation);
        let Some(live) = live.filter(|live| live.launch() == live::Launch::Launched) else {
            return;
        };
        if self.jobs[&job].phase != Phase::Starting {
            return;
        }
        if nodes.is_empty() {
            self.effects.durable.push(Durable::AwaitStarted(live.watch(self.first_step(job))));
            return;
        }
        self.live.count_failure();
        let cause = self.not_started(nodes);
        self.end_job(now, job, cause);
    }

    /// A requested timer has fired.
    pub fn timer(&mut self, now: Instant, timer: Timer) {
        match timer {
            Timer::Job { job, incarnation, kind } => self.job_timer(now, job, incarnation, kind),
            Timer::Step { job, number, run, kind } => {
                self.step_timer(now, (job, number), run, kind);
            }
            Timer::Cluster(ClusterTimer::Priorities) => self.reckon_priorities(now),
            Timer::Cluster(ClusterTimer::Wake) => self.wake(now),
            Timer::Cluster(ClusterTimer::Returned) => self.nodes_returned(now),
            Timer::Cluster(ClusterTimer::Absence) => self.absence_timer(now),
        }
    }

    fn job_timer(&mut self, now: Instant, job: JobId, incarnation: JobIncarnation, kind: JobTimer) {
        let run = self.live.run(job, incarnation);
        match kind {
            JobTimer::Fenced => self.queue_if_fenced(now, job),
            JobTimer::Begin => self.reconsider(now, job),
            // The run that the timer was for is over.
            JobTimer::Launch
            | JobTimer::TimeLimit
            | JobTimer::Kill
            | JobTimer::Recovery
            | JobTimer::Output
                if run.is_none() => {}
            JobTimer::Launch => self.launch_timer(now, job),
            JobTimer::TimeLimit => self.time_limit_timer(now, job),
            JobTimer::Kill => {
                let nodes =
                    run.map(|live| live.nodes().difference(live.over())).unwrap_or_default();
                self.effects.durable.push(Durable::Command(
                    nodes,
                    Command::DestroyJob { step: self.first_step(job) },
                ));
            }
            JobTimer::Recovery => self.recovery_timer(now, job),
            JobTimer::Output => self.release_output(job),
        }
    }
}
