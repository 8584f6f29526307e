//! One run of a job on this node: where its ranks stand.

use super::{Action, CoreConfig};
use crate::{JobKey, JobTask};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use storm_mpi::pmi::NodeServer;
use storm_rm::message::{ExitStatus, RankExit, Report, Stream};
use storm_rm::termination::{LocalPart, Urgency};
use storm_rm::{Coscheduling, JobSlot, PartitionId, Rank, RowSet};

/// How far a job is on this node. A job that is launching or running may be
/// stopped at any time: see [`NodeCore::is_stopped`](crate::NodeCore::is_stopped).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobPhase {
    /// Its directory is being made.
    Preparing,
    /// Its ranks have been told to start.
    Launching,
    /// Every rank executes, or has.
    Running,
    /// Every rank has ended; output is still on its way.
    Ending,
    /// Its end has been announced.
    Ended,
}

/// Where one rank stands.
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
    /// How its ranks are to come to run together, if that changed while it was prepared.
    pub(super) coscheduling: Option<Coscheduling>,
    /// What the host was told last.
    pub(super) stopped: bool,
    /// Signals that a stopped job is being given time to act on.
    pub(super) graces: u32,
    /// To be killed as soon as there is something to kill.
    pub(super) doomed: bool,
    /// Nothing is said of it any more: a later run is here, or the node leaves
    /// unasked, which says it all.
    pub(super) silent: bool,
    /// Its Machine Manager is gone, or was for a while: nothing is said of it until
    /// [`resume`](NodeCore::resume) tells all at once.
    pub(super) orphaned: bool,
    /// Where its flags lie.
    pub(super) slot: JobSlot,
    /// The partition whose strobes schedule it, by the number that the present manager has for it.
    pub(super) partition: PartitionId,
    /// What ended the job or will, as it was reported or would have been.
    pub(super) failure: Option<Report>,
    /// To be forgotten as soon as it has ended.
    pub(super) released: bool,
    /// Some rank never executed.
    pub(super) launch_failed: bool,
    /// Some rank ended abnormally.
    pub(super) failed: bool,
    /// A failure by exit status has been reported, one by a signal, and one of a rank that
    /// left its peers.
    reported: [bool; 3],
    pub(super) ranks: BTreeMap<Rank, RankState>,
    /// Output that is not all handed on. That of all shared files is one stream, of the first rank.
    pub(super) open_streams: BTreeSet<(Rank, StreamOrder)>,
    pub(super) pmi: NodeServer,
    /// Fences begun so far.
    pub(super) fences: u64,
    /// The report that a rank is gone that others may wait for, once there was one.
    pub(super) left_told: Option<Report>,
    /// Whether the last of them is under way.
    pub(super) in_fence: bool,
    /// The reports of the last two: another node may be one fence behind.
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

    /// Nothing is said of it now.
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

    /// The ranks have been told to start: their output streams are open.
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

    /// A rank executes; true when it was the last to start.
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

    /// Records the end of a rank; false when it had ended before or is unknown.
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

    /// What the Machine Manager must hear of this end at once: ranks here or
    /// elsewhere may wait for this one. The first of each kind is enough, and
    /// none is when the job is being killed anyway. What ends the job is kept in mind.
    /// `joined`: the rank has not taken leave of its peers.
    pub(super) fn news_of(&mut self, exit: &RankExit, joined: bool) -> Option<Report> {
        let kind = match (exit.status, joined) {
            (ExitStatus::Signal(_), _) => 1,
            (ExitStatus::Code(_), true) => 2,
            (ExitStatus::Code(0), false) => return None,
            (ExitStatus::Code(_), false) => 0,
        };
        let alone = self.all_ended() && self.task.count == self.task.spec().procs;
        if alone || self.doomed || self.silent {
            return None;
        }
        let JobKey { job, incarnation } = self.key();
        let report = Report::RankFailed { job, incarnation, exit: exit.clone(), joined };
        if kind > 0 {
            self.failure.get_or_insert(report.clone());
        }
        let first = !self.orphaned && !std::mem::replace(&mut self.reported[kind], true);
        first.then_some(report)
    }

    /// A rank is gone: whoever sends it input must not wait for it.
    pub(super) fn drop_input(&self, rank: Rank, actions: &mut Vec<Action>) {
        if self.task.reads_input(rank) {
            actions.push(Action::DropInput { job: self.key(), rank });
        }
    }

    /// Ends every rank that never got to run.
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

    /// Every rank of this node executes: the flag says so, and the announcer the
    /// Machine Manager.
    pub(super) fn tell_started(&self, config: &CoreConfig, actions: &mut Vec<Action>) {
        let JobKey { job, incarnation } = self.key();
        actions.push(Action::MarkStarted { slot: self.slot, incarnation });
        if self.announces(config) {
            let report = Report::Started { job, incarnation };
            actions.push(Action::Post { report, urgency: Urgency::AtOnce });
        }
    }

    fn announces(&self, config: &CoreConfig) -> bool {
        self.task.launch.announcer == config.node
    }

    /// The end of this node's part, for the Machine Manager.
    pub(super) fn announcement(&self, config: &CoreConfig) -> Action {
        let announcer = self.announces(config);
        let part = LocalPart { announcer, ..self.part() };
        Action::Announce { part, report: self.terminated_report() }
    }

    /// Reports what ends the job, now or when there is somebody to hear it.
    pub(super) fn fails(&mut self, report: Report, actions: &mut Vec<Action>) {
        if !self.is_unheard() {
            let report = report.clone();
            actions.push(Action::Post { report, urgency: Urgency::AtOnce });
        }
        self.failure.get_or_insert(report);
    }

    fn terminated_report(&self) -> Report {
        let JobKey { job, incarnation } = self.key();
        Report::Terminated { job, incarnation, ranks: self.exits().cloned().collect() }
    }

    fn exits(&self) -> impl Iterator<Item = &RankExit> {
        self.ranks.values().filter_map(|state| match state {
            RankState::Ended(exit) => Some(exit),
            RankState::Starting | RankState::Executing => None,
        })
    }
}
