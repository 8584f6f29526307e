//! The state of one node: its jobs, and the active row of each partition.

use super::active_rows::ActiveRows;
use super::ending::SIGKILL;
use super::job::{JobPhase, LocalJob};
use super::node_life::NodeLife;
use super::pmi::{news_of_gone, pmi_actions};
use super::rows::runs_in;
use super::{Action, Event};
use crate::reason::{amount, bounded};
use crate::{HostEvent, JobKey, JobTask, LaunchRefused, Whom};
use std::collections::BTreeMap;
use std::rc::Rc;
use storm_primitives::NodeId;
use storm_rm::message::{
    Command, ExitStatus, LaunchJob, RankExit, ReceiveFile, Report, Slices, Strobe,
};
use storm_rm::termination::Urgency;
use storm_rm::{
    Coscheduling, JobId, JobIncarnation, Owner, PartitionId, Rank, RowSet, StepId, StepRef,
};

/// The core's data on its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreConfig {
    /// The id of this life of the node in the network.
    pub node: NodeId,
    /// Its name, for reasons that users read.
    pub name: String,
    /// Its host name, for reasons that users read.
    pub hostname: String,
    /// Most ranks of a job.
    pub pes: u32,
    /// The only user as whom jobs can run here; `None` if jobs can run as any user.
    pub only_uid: Option<u32>,
}

/// The pure core of a node manager.
#[derive(Debug)]
pub struct NodeCore {
    pub(super) config: CoreConfig,
    pub(super) jobs: BTreeMap<JobKey, LocalJob>,
    pub(super) active: ActiveRows,
    pub(super) life: NodeLife,
}

impl NodeCore {
    /// A node without jobs.
    pub fn new(config: CoreConfig) -> NodeCore {
        NodeCore {
            config,
            jobs: BTreeMap::new(),
            active: ActiveRows::default(),
            life: NodeLife::default(),
        }
    }

    /// Takes an event. Returns the resulting actions, in order.
    pub fn handle(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Command(command) => self.command(command, &mut actions),
            Event::Prepared { job, outcome } => self.prepared(job, outcome, &mut actions),
            Event::Host(event) => self.host_event(event, &mut actions),
            Event::SliceBegins(strobe) => self.begin_slice(strobe, &mut actions),
            Event::Waiting { jobs } => self.take_turns(&jobs, &mut actions),
            Event::StreamEnded { job, rank, stream } => {
                if let Some(state) = self.jobs.get_mut(&job) {
                    state.open_streams.remove(&(rank, stream.into()));
                }
                self.try_finish(job, &mut actions);
            }
            Event::SignalGraceOver { job } => {
                if let Some(state) = self.jobs.get_mut(&job) {
                    state.graces = state.graces.saturating_sub(1);
                }
                self.reschedule(None, None, &mut actions);
            }
            Event::Unserviceable { job, reason } => {
                self.unserviceable(job, reason, &mut actions);
            }
            Event::LaunchCut { job, cut } => self.launch_cut(job, cut, &mut actions),
            Event::ManagerLost => self.orphan(),
            Event::GivenUp => self.end_requeued(&mut actions),
            Event::Leave => self.leave_unasked(&mut actions),
        }
        actions
    }

    /// The phase of a job; `None` if it is not known here.
    pub fn phase(&self, job: JobKey) -> Option<JobPhase> {
        self.jobs.get(&job).map(|state| state.phase)
    }

    /// Whether anything is to be reported of the job to the Machine Manager.
    pub fn is_heard(&self, job: JobKey) -> bool {
        self.jobs.get(&job).is_some_and(|state| state.is_live() && !state.is_unheard())
    }

    /// Whether the job has stopped processes.
    pub fn is_stopped(&self, job: JobKey) -> bool {
        self.jobs.get(&job).is_some_and(|state| state.is_live() && state.stopped)
    }

    /// The runs here that requested requeueing. These runs may run elsewhere once this node is
    /// given up.
    pub fn requeued(&self) -> Vec<JobKey> {
        let requeued = |job: &LocalJob| job.is_live() && job.task.spec().requeue && !job.doomed;
        self.jobs.iter().filter(|(_, job)| requeued(job)).map(|(key, _)| *key).collect()
    }

    /// Whether no job has a process here.
    pub fn is_idle(&self) -> bool {
        self.jobs.values().all(|job| job.phase == JobPhase::Ended)
    }

    /// The runs of jobs known here.
    pub fn jobs(&self) -> impl Iterator<Item = JobKey> + '_ {
        self.jobs.keys().copied()
    }

    fn command(&mut self, command: Command, actions: &mut Vec<Action>) {
        if !self.life.is_meant_by(&command) {
            // Nobody would end a job launched by it.
            tracing::debug!(?command, "what was said to an earlier life was ignored");
            return;
        }
        match command {
            Command::ReceiveFile(info) => actions.push(self.receive(info)),
            Command::LaunchJob(launch) => self.launch(launch, actions),
            Command::Strobe(strobe) => self.strobe(strobe, None, actions),
            Command::Slices(slices) => self.strobe(slices.strobe, Some(slices), actions),
            Command::SetRows { job, rows } => self.set_rows(job, rows, actions),
            Command::Coschedule { job, coscheduling } => {
                for key in self.steps_of(job) {
                    self.coschedule(key, coscheduling, actions);
                }
            }
            Command::SignalJob { step, signal } => self.signal(step, (signal, Whom::All), actions),
            Command::SignalScript { step, signal } => {
                self.signal(step, (signal, Whom::Script), actions);
            }
            Command::DestroyJob { step } => {
                if let Some(key) = self.current(step) {
                    self.doom(key, actions);
                }
            }
            Command::ReleaseJob { step } => self.release(step, actions),
            Command::Input { step, data, eof } => self.input(step, (None, data, eof), actions),
            Command::InputAgain { step, offset, data, eof } => {
                self.input(step, (Some(offset), data, eof), actions);
            }
            Command::HoldOutput { step, hold } => {
                let key = self.current(step);
                if let Some(state) = key.and_then(|key| self.jobs.get_mut(&key)) {
                    state.hold_output(hold && !state.doomed, &self.config, actions);
                }
            }
            Command::FenceDone { step, sequence, puts } => {
                self.fence_done(step, sequence, puts, actions);
            }
            Command::Shutdown => self.leave(actions),
            // The node manager handles the command and leaves.
            Command::RefuseNode { .. } | Command::HandOver { .. } => {}
            Command::Resume { jobs, next_run, .. } => {
                self.life.joined(next_run);
                self.resume(jobs, actions);
            }
        }
    }

    fn receive(&self, info: ReceiveFile) -> Action {
        match self.foreign(info.owner) {
            Some(why) => Action::RefuseFile { info, reason: why },
            None => Action::Receive(info),
        }
    }

    /// Why a user's jobs cannot run here; `None` if they can.
    fn foreign(&self, owner: Owner) -> Option<String> {
        let only = self.config.only_uid?;
        (only != owner.uid).then(|| {
            format!(
                "the node manager runs as user {only}, not as root: it can run jobs of that user \
                 only, not of user {}",
                owner.uid
            )
        })
    }

    fn launch(&mut self, launch: Rc<LaunchJob>, actions: &mut Vec<Action>) {
        let (step, partition, row) = (launch.step, launch.partition, launch.active_row);
        let place = launch.place;
        let (rows, coscheduling) = (launch.rows, launch.coscheduling);
        let (owner, hold_output) = (launch.spec.owner, launch.hold_output);
        let Some(task) = JobTask::of_node(launch, self.config.node) else {
            tracing::error!(%step, "told to launch a step that has no rank here");
            return;
        };
        let (task, key) = (Rc::new(task.clone()), task.key());
        if self.life.is_older(key.incarnation) {
            tracing::error!(job = %key, "told to launch a run from before this node was there");
            return;
        }
        let is_past = |(known, job): (&JobKey, &LocalJob)| {
            let is_step = known.step == step && known.incarnation >= key.incarnation;
            is_step || job.task.launch.place > place
        };
        if self.of_job(step.job).any(is_past) {
            tracing::error!(job = %key, "told to launch a step that was launched before");
            return;
        }
        // A step belongs to one run of its job.
        let is_earlier =
            |known: &JobKey, job: &LocalJob| known.step == step || job.task.launch.place < place;
        let earlier = self.of_job(step.job).filter(|(known, job)| is_earlier(known, job));
        let earlier: Vec<JobKey> = earlier.map(|(known, _)| *known).collect();
        for old in earlier {
            self.supersede(old, actions);
        }
        if self.active.launch_names(partition, row) {
            self.reschedule(Some(partition), None, actions);
        }
        // If rows don't run at once, the host needs the rows only of a job with several, but not
        // all.
        if coscheduling.at_once() || (rows != RowSet::ALL && !rows.0.is_power_of_two()) {
            actions.push(Action::Rows { job: key, rows });
        }
        self.jobs.insert(key, LocalJob::new(task.clone()));
        if hold_output {
            actions.push(Action::HoldOutput { job: key, hold: true });
        }
        let refused = self.foreign(owner).or_else(|| {
            (task.count > self.config.pes).then(|| {
                format!("{} ranks do not fit {} processing elements", task.count, self.config.pes)
            })
        });
        match refused {
            None => actions.push(Action::Prepare(task)),
            Some(reason) => {
                let exit_code = LaunchRefused::NOT_EXECUTABLE;
                self.prepared(key, Err(LaunchRefused { reason, exit_code }), actions);
            }
        }
    }

    fn prepared(
        &mut self,
        key: JobKey,
        outcome: Result<(), LaunchRefused>,
        actions: &mut Vec<Action>,
    ) {
        let should_run = self.should_run(key);
        let report = self.jobs.get(&key).map(|job| job.task.first);
        let Some(job) = self.jobs.get_mut(&key) else { return };
        match outcome {
            Ok(()) if job.doomed => job.end_all(ExitStatus::Signal(SIGKILL)),
            Ok(()) => {
                let stopped = !should_run;
                job.launching(stopped);
                actions.push(Action::Launch { task: job.task.clone(), stopped });
                let told = job.coscheduling.take();
                actions
                    .extend(told.map(|told| Action::Coschedule { job: key, coscheduling: told }));
            }
            Err(refused) => {
                job.launch_failed = true;
                job.end_all(ExitStatus::Code(refused.exit_code));
                if let Some(rank) = report {
                    self.post_launch_failed(key, rank, refused, actions);
                }
            }
        }
        self.try_finish(key, actions);
    }

    /// Changes how the job's ranks are coscheduled. Ranks that do not exist yet follow once they
    /// do.
    fn coschedule(&mut self, job: JobKey, how: Coscheduling, actions: &mut Vec<Action>) {
        match self.jobs.get_mut(&job) {
            Some(state) if state.phase == JobPhase::Preparing => state.coscheduling = Some(how),
            Some(_) => actions.push(Action::Coschedule { job, coscheduling: how }),
            None => {}
        }
    }

    pub(super) fn host_event(&mut self, event: HostEvent, actions: &mut Vec<Action>) {
        match event {
            HostEvent::Launched { job, rank } => self.executes(job, rank, actions),
            HostEvent::LaunchFailed { job, rank, refused } => {
                let Some(state) = self.jobs.get_mut(&job) else { return };
                state.launch_failed = true;
                let status = ExitStatus::Code(refused.exit_code);
                let exit = RankExit { rank, status, user_us: 0, system_us: 0, max_rss_kib: 0 };
                if state.ended(exit) {
                    state.drop_input(rank, actions);
                    self.post_launch_failed(job, rank, refused, actions);
                }
                self.try_finish(job, actions);
            }
            HostEvent::Exited { job, exit } => self.exited(job, exit, actions),
            HostEvent::OverMemory { job, limit_bytes } => {
                self.over_memory(job, &amount(limit_bytes), actions);
            }
            HostEvent::Pmi { job, rank, line } => {
                if let Some(state) = self.jobs.get_mut(&job) {
                    let outputs = state.pmi.request(storm_mpi::Rank(rank.0), &line);
                    pmi_actions(state, outputs, actions);
                }
                self.end_if_in_vain(job, actions);
            }
            HostEvent::LeaseOver { job } => self.lease_over(job, actions),
            // The driver reports it; there is nothing to decide.
            HostEvent::Classified { .. } => {}
            HostEvent::Lost => self.lose_processes(actions),
        }
    }

    fn executes(&mut self, key: JobKey, rank: Rank, actions: &mut Vec<Action>) {
        let Some(job) = self.jobs.get_mut(&key) else { return };
        if job.executes(rank) && !job.is_unheard() {
            job.tell_started(&self.config, actions);
        }
    }

    fn exited(&mut self, key: JobKey, exit: RankExit, actions: &mut Vec<Action>) {
        let Some(job) = self.jobs.get_mut(&key) else { return };
        if !job.ended(exit.clone()) {
            return;
        }
        job.drop_input(exit.rank, actions);
        let rank = storm_mpi::Rank(exit.rank.0);
        let joined = job.pmi.is_among_peers(rank);
        job.pmi.rank_ended(rank);
        // Nobody waits for messages of a rank that exits by itself and is not among its peers.
        let awaited = joined || matches!(exit.status, ExitStatus::Signal(_));
        if job.task.launch.buffered && awaited {
            actions.push(Action::RankGone { job: key, rank: exit.rank });
        }
        if let Some(report) = job.news_of(&exit, joined) {
            actions.push(Action::Post { report, urgency: Urgency::AtOnce });
        }
        self.end_if_in_vain(key, actions);
        self.try_finish(key, actions);
    }

    /// Ends a job whose ranks wait here in a PMI barrier that can never open. Reports to the
    /// Machine Manager if ranks on other nodes may wait in it.
    fn end_if_in_vain(&mut self, key: JobKey, actions: &mut Vec<Action>) {
        let Some(job) = self.jobs.get_mut(&key).filter(|job| !job.doomed) else { return };
        if let Some(reason) = news_of_gone(job, actions) {
            self.unserviceable(key, reason, actions);
        }
    }

    fn post_launch_failed(
        &mut self,
        key: JobKey,
        rank: Rank,
        refused: LaunchRefused,
        actions: &mut Vec<Action>,
    ) {
        let Some(state) = self.jobs.get_mut(&key).filter(|job| !job.silent) else { return };
        let CoreConfig { name, hostname, .. } = &self.config;
        let LaunchRefused { reason, exit_code } = refused;
        let reason = format!("rank {rank} cannot start on {name} ({hostname}): {reason}");
        let reason = bounded(reason);
        let JobKey { step, incarnation } = key;
        state.fails(Report::LaunchFailed { step, incarnation, rank, reason, exit_code }, actions);
    }

    /// SCHEDULE-PROCESS (paper, Algorithm 5): the row's jobs run, and others stop.
    fn strobe(&mut self, strobe: Strobe, slices: Option<Slices>, actions: &mut Vec<Action>) {
        let partition = strobe.partition;
        let Some(followed) = self.active.strobe(&strobe, slices.is_some()) else { return };
        // First, as the later slices are computed from the strobe's arrival.
        if followed || slices.is_some() {
            actions.push(Action::Follow { partition, slices });
        }
        self.reschedule(Some(partition), Some(strobe), actions);
    }

    fn set_rows(&mut self, job: JobId, rows: RowSet, actions: &mut Vec<Action>) {
        for key in self.steps_of(job) {
            if let Some(state) = self.jobs.get_mut(&key) {
                state.rows = rows;
                actions.push(Action::Rows { job: key, rows });
            }
        }
        self.reschedule(None, None, actions);
    }

    fn should_run(&self, key: JobKey) -> bool {
        self.jobs.get(&key).is_some_and(|job| self.wanted(job))
    }

    fn wanted(&self, job: &LocalJob) -> bool {
        self.active.running(job.partition).is_none_or(|row| runs_in(job, row))
    }

    /// Stops and resumes jobs as the active rows require.
    pub(super) fn reschedule(
        &mut self,
        partition: Option<PartitionId>,
        strobe: Option<Strobe>,
        actions: &mut Vec<Action>,
    ) {
        let (mut stop, mut resume) = (Vec::new(), Vec::new());
        for (key, job) in &self.jobs {
            let elsewhere = partition.is_some_and(|only| job.partition != only);
            if elsewhere || !job.is_live() {
                continue;
            }
            match (job.stopped, self.wanted(job)) {
                (false, false) => stop.push(*key),
                (true, true) => resume.push(*key),
                (false, true) | (true, false) => {}
            }
        }
        for (keys, stopped) in [(&stop, true), (&resume, false)] {
            for key in keys {
                if let Some(job) = self.jobs.get_mut(key) {
                    job.stopped = stopped;
                }
            }
        }
        if strobe.is_some() || !stop.is_empty() || !resume.is_empty() {
            actions.push(Action::Switch { strobe, stop, resume });
        }
    }

    fn signal(&mut self, step: StepRef, (signal, whom): (i32, Whom), actions: &mut Vec<Action>) {
        let Some(key) = self.current(step) else { return };
        let Some(state) = self.jobs.get_mut(&key) else { return };
        if !state.is_live() {
            return;
        }
        if whom == Whom::Script && step.step != StepId::Batch {
            return;
        }
        actions.push(Action::Signal { job: key, signal, whom });
        if state.stopped && signal != SIGKILL {
            state.graces += 1;
            actions.push(Action::GrantSignalGrace { job: key });
            self.reschedule(None, None, actions);
        }
    }

    pub(super) fn fence_done(
        &mut self,
        step: StepRef,
        sequence: u64,
        puts: Vec<(String, String)>,
        actions: &mut Vec<Action>,
    ) {
        let Some(key) = self.current(step) else { return };
        let Some(state) = self.jobs.get_mut(&key) else { return };
        if sequence > state.fences {
            let begun = state.fences;
            tracing::warn!(job = %key, sequence, begun, "a fence ends before it begins");
            return;
        }
        if sequence < state.fences || !state.in_fence {
            // A returned Machine Manager ends the latest fence again, which is over here.
            tracing::debug!(job = %key, sequence, "the fence is over already");
            return;
        }
        state.in_fence = false;
        let outputs = state.pmi.fence_done(puts);
        pmi_actions(state, outputs, actions);
    }

    /// The latest run of a step that is known here.
    pub(super) fn current(&self, step: StepRef) -> Option<JobKey> {
        let runs = JobKey { step, incarnation: JobIncarnation(0) }..=JobKey {
            step,
            incarnation: JobIncarnation(u64::MAX),
        };
        self.jobs.range(runs).next_back().map(|(key, _)| *key)
    }

    /// The runs of a job's steps that are known here.
    fn of_job(&self, job: JobId) -> impl Iterator<Item = (&JobKey, &LocalJob)> {
        let least = StepRef { job, step: StepId::Batch };
        let all = self.jobs.range(JobKey { step: least, incarnation: JobIncarnation(0) }..);
        all.take_while(move |(key, _)| key.step.job == job)
    }

    /// The latest run of each step in the present place of a job.
    fn steps_of(&self, job: JobId) -> Vec<JobKey> {
        let place = self.of_job(job).map(|(_, state)| state.task.launch.place).max();
        let present = self.of_job(job).filter(|(_, state)| Some(state.task.launch.place) == place);
        let present = present.map(|(key, _)| (key.step, *key)).collect::<BTreeMap<_, _>>();
        present.into_values().collect()
    }
}
