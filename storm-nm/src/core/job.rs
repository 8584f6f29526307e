//! A run of a job on this node, and the state of its ranks.

use super::{Action, CoreConfig};
use crate::{JobKey, JobTask};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use storm_mpi::pmi::NodeServer;
use storm_rm::message::{ExitStatus, RankExit, Report, Stream};
use storm_rm::termination::{LocalPart, Urgency};
use storm_rm::{Coscheduling, JobSlot, PartitionId, Rank, RowSet};

/// The phase of a job on this node. A launching or running job may be stopped at any time: see
/// [`NodeCore::is_stopped`](crate::NodeCore::is_stopped).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobPhase {
    /// Its directory is being made.
    Preparing,
    /// Its ranks have been ordered to start.
    Launching,
    /// Every rank executes, or has executed.
    Running,
    /// Every rank has ended; output is still on its way.
    Ending,
    /// Its end has been announced.
    Ended,
}

/// The state of a rank.
#[derive(Clone, Debug)]
pub(super) enum RankState {
    Starting,
    Executing,
    Ended(RankExit),
}

#[derive(Debug)]
pub(super) struct LocalJob {
    pub(super) task: Rc<JobTask>,
    pub(super) phase: JobPhase,
    pub(super) rows: RowSet,
    /// How its ranks are coscheduled, if that changed while it was prepared.
    pub(super) coscheduling: Option<Coscheduling>,
    /// Whether the last order to the host was to stop the job.
    pub(super) stopped: bool,
    /// Number of signals that a stopped job currently has time to act on.
    pub(super) graces: u32,
    /// Whether to kill it as soon as it has processes.
    pub(super) doomed: bool,
    /// Whether nothing is reported of it any more: a later run is here, or the node leaves without
    /// an order.
    pub(super) silent: bool,
    /// Whether its Machine Manager is gone, or was for a while. Nothing is reported of it until
    /// [`resume`](NodeCore::resume) reports everything at once.
    pub(super) orphaned: bool,
    /// Whether output that was read here waits for the Machine Manager's consent.
    pub(super) withholds: bool,
    /// The place of its flags.
    pub(super) slot: JobSlot,
    /// The partition whose strobes schedule it, by the present manager's number.
    pub(super) partition: PartitionId,
    /// The cause of its end, as it was reported or is to be.
    pub(super) failure: Option<Report>,
    /// Whether to forget it as soon as it has ended.
    pub(super) released: bool,
    /// Whether a rank never executed.
    pub(super) launch_failed: bool,
    /// Whether a rank ended abnormally.
    pub(super) failed: bool,
    /// Whether a failure by exit status was reported, one by a signal, and one of a rank that left
    /// its peers.
    reported: [bool; 3],
    pub(super) ranks: BTreeMap<Rank, RankState>,
    /// The output streams that are not all handed on. The shared files together are one stream, of
    /// the first rank.
    pub(super) open_streams: BTreeSet<(Rank, StreamOrder)>,
    pub(super) pmi: NodeServer,
    /// Number of fences begun so far.
    pub(super) fences: u64,
    /// The report that a rank for which others may wait has ended, if there was such a report.
    pub(super) left_told: Option<Report>,
    /// Whether the last fence is in progress.
    pub(super) in_fence: bool,
    /// The reports of the last two fences, as another node may be one fence behind.
    pub(super) last_fences: VecDeque<Report>,
}

/// [`Stream`] with an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StreamOrder(u8);

impl From<Stream> for StreamOrder {
    fn from(stream: Stream) -> StreamOrder {
        match stream {
            Stream::Stdout => StreamOrder(1),
            Stream::Stderr => StreamOrder(2),
        }
    }
}

impl LocalJob {
    pub(super) fn new(task: Rc<JobTask>) -> LocalJob {
        LocalJob {
            phase: JobPhase::Preparing,
            rows: task.launch.rows,
            coscheduling: None,
            stopped: false,
            graces: 0,
            doomed: false,
            silent: false,
            orphaned: false,
            withholds: false,
            slot: task.launch.slot,
            partition: task.launch.partition,
            failure: None,
            released: false,
            launch_failed: false,
            failed: false,
            reported: [false; 3],
            ranks: task.ranks().map(|rank| (rank, RankState::Starting)).collect(),
            open_streams: BTreeSet::new(),
            pmi: NodeServer::new(task.pmi_config()),
            fences: 0,
            left_told: None,
            in_fence: false,
            last_fences: VecDeque::new(),
            task,
        }
    }

    pub(super) fn key(&self) -> JobKey {
        self.task.key()
    }

    /// Whether nothing is reported of it now.
    pub(super) fn is_unheard(&self) -> bool {
        self.silent || self.orphaned
    }

    /// Whether it has processes that a switch concerns.
    pub(super) fn is_live(&self) -> bool {
        match self.phase {
            JobPhase::Launching | JobPhase::Running => true,
            JobPhase::Preparing | JobPhase::Ending | JobPhase::Ended => false,
        }
    }

    /// Whether its ranks may have output on its way.
    pub(super) fn has_streams(&self) -> bool {
        match self.phase {
            JobPhase::Launching | JobPhase::Running | JobPhase::Ending => true,
            JobPhase::Preparing => false,
            JobPhase::Ended => self.withholds,
        }
    }

    /// Notes that the ranks were ordered to start. The ranks' output streams are open from now on.
    pub(super) fn launching(&mut self, stopped: bool) {
        self.phase = JobPhase::Launching;
        self.stopped = stopped;
        if self.task.output_to_client() {
            let both = |rank| [Stream::Stdout, Stream::Stderr].map(|s| (rank, s.into()));
            self.open_streams = self.task.ranks().flat_map(both).collect();
        } else if self.task.shares_files() {
            self.open_streams.insert((self.task.first, Stream::Stdout.into()));
        }
    }

    /// Notes that a rank executes. Returns true if it was the last to start.
    pub(super) fn executes(&mut self, rank: Rank) -> bool {
        if let Some(state @ RankState::Starting) = self.ranks.get_mut(&rank) {
            *state = RankState::Executing;
        }
        let starting = self.ranks.values().any(|state| matches!(state, RankState::Starting));
        if starting || self.phase != JobPhase::Launching || self.launch_failed {
            return false;
        }
        self.phase = JobPhase::Running;
        true
    }

    /// Records the end of a rank. Returns false if it had ended before or is unknown.
    pub(super) fn ended(&mut self, exit: RankExit) -> bool {
        self.failed |= exit.status != ExitStatus::Code(0);
        match self.ranks.get_mut(&exit.rank) {
            Some(state @ (RankState::Starting | RankState::Executing)) => {
                *state = RankState::Ended(exit);
                true
            }
            Some(RankState::Ended(_)) | None => false,
        }
    }

    /// The report of a rank's end, if the Machine Manager must get it at once because ranks may
    /// wait for the rank. Only the first report of each kind is needed, and none if the job is
    /// being killed anyway. Remembers the cause of the job's end. `joined`: the rank has not taken
    /// leave of its peers.
    pub(super) fn news_of(&mut self, exit: &RankExit, joined: bool) -> Option<Report> {
        let kind = match (exit.status, joined) {
            (ExitStatus::Signal(_), _) => 1,
            (ExitStatus::Code(_), true) => 2,
            (ExitStatus::Code(0), false) => return None,
            (ExitStatus::Code(_), false) => 0,
        };
        let alone = self.all_ended() && self.task.count == self.task.launch.size();
        if alone || self.doomed || self.silent {
            return None;
        }
        let JobKey { step, incarnation } = self.key();
        let report = Report::RankFailed { step, incarnation, exit: exit.clone(), joined };
        if kind > 0 {
            self.failure.get_or_insert(report.clone());
        }
        let first = !self.orphaned && !std::mem::replace(&mut self.reported[kind], true);
        first.then_some(report)
    }

    /// Drops the input of a rank that is gone, so that its sender does not wait for it.
    pub(super) fn drop_input(&self, rank: Rank, actions: &mut Vec<Action>) {
        if self.task.reads_input(rank) {
            actions.push(Action::DropInput { job: self.key(), rank });
        }
    }

    /// Ends every rank that never executed.
    pub(super) fn end_all(&mut self, status: ExitStatus) {
        for rank in self.task.ranks() {
            self.ended(RankExit { rank, status, user_us: 0, system_us: 0, max_rss_kib: 0 });
        }
    }

    pub(super) fn ranks_ended(&self) -> u32 {
        self.exits().count() as u32
    }

    pub(super) fn all_ended(&self) -> bool {
        self.ranks_ended() == self.task.count
    }

    fn part(&self) -> LocalPart {
        LocalPart {
            slot: self.slot,
            incarnation: self.task.launch.incarnation,
            ranks: self.task.count,
            ended: self.ranks_ended(),
            announcer: false,
            failed: self.failed,
        }
    }

    /// Reports that every rank of this node executes: sets the flag, and the announcer reports it
    /// to the Machine Manager. A job that is not whole here never counts as started, so it may be
    /// launched again.
    pub(super) fn tell_started(&self, config: &CoreConfig, actions: &mut Vec<Action>) {
        if matches!(self.failure, Some(Report::LaunchCut { .. })) {
            return;
        }
        let JobKey { step, incarnation } = self.key();
        actions.push(Action::MarkStarted { slot: self.slot, incarnation });
        if self.announces(config) {
            let report = Report::Started { step, incarnation };
            actions.push(Action::Post { report, urgency: Urgency::AtOnce });
        }
    }

    fn announces(&self, config: &CoreConfig) -> bool {
        self.task.launch.announcer == config.node
    }

    /// Stops reading the output, or continues. Output that was withheld leaves before the end of
    /// the job is announced, which would end the job's clients.
    pub(super) fn hold_output(
        &mut self,
        hold: bool,
        config: &CoreConfig,
        actions: &mut Vec<Action>,
    ) {
        actions.push(Action::HoldOutput { job: self.key(), hold });
        if !hold && std::mem::take(&mut self.withholds) && self.phase == JobPhase::Ended {
            self.announce_end(config, actions);
        }
    }

    /// Announces the end of this node's part to the Machine Manager, unless that must wait.
    pub(super) fn announce_end(&self, config: &CoreConfig, actions: &mut Vec<Action>) {
        if self.is_unheard() || self.withholds {
            return;
        }
        let announcer = self.announces(config);
        let part = LocalPart { announcer, ..self.part() };
        actions.push(Action::Announce { part, report: self.terminated_report() });
    }

    /// Reports the cause of the job's end, now or when a Machine Manager can receive the report.
    pub(super) fn fails(&mut self, report: Report, actions: &mut Vec<Action>) {
        if !self.is_unheard() {
            let report = report.clone();
            actions.push(Action::Post { report, urgency: Urgency::AtOnce });
        }
        self.failure.get_or_insert(report);
    }

    fn terminated_report(&self) -> Report {
        let JobKey { step, incarnation } = self.key();
        Report::Terminated { step, incarnation, ranks: self.exits().cloned().collect() }
    }

    fn exits(&self) -> impl Iterator<Item = &RankExit> {
        self.ranks.values().filter_map(|state| match state {
            RankState::Ended(exit) => Some(exit),
            RankState::Starting | RankState::Executing => None,
        })
    }
}
