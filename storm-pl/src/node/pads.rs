//! The NM's record of its pads and PLs: the state shared by the handle and the event stream.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};

use crate::cgroup::MemoryControl;
use crate::descriptors::DescriptorLimit;
use crate::exit::{ExitStatus, Usage};
use crate::ids::{Errno, PadId, PlIndex, ProcessId};
use crate::keeper::KeptId;
use crate::launch_failure::LaunchFailure;
use crate::node::Event;
use crate::node::outbox::Outbox;
use crate::node::pad_time::PadTime;
use crate::node::source::Source;
use crate::protocol::{self, Command, PadStep, Report};
use crate::seqpacket::{Received, Seqpacket, Wait};
use crate::switch::{CgroupFreezer, Freezer, SignalFreezer};
use crate::sys;

/// A launch failure is two small integers.
const FAILURE_MAX_BYTES: usize = 64;

pub(super) struct Pads {
    pub(super) control: Seqpacket,
    pub(super) outbox: Outbox,
    pub(super) keeper: ProcessId,
    /// The keeper's process, if another process started it.
    pub(super) former: Option<OwnedFd>,
    /// The keeper is gone, and reaped or about to be.
    pub(super) gone: bool,
    /// Pings since the keeper's last answer to one.
    pub(super) unanswered: u32,
    pub(super) epoll: Arc<Epoll>,
    pub(super) capacity: u16,
    pub(super) cgroup: Option<PathBuf>,
    pub(super) memory: Option<MemoryControl>,
    pub(super) pads: BTreeMap<PadId, Pad>,
    /// Pads that were made so far.
    pub(super) made: u32,
    /// The limit on descriptors of this process.
    pub(super) limit: DescriptorLimit,
    pub(super) next_place: u64,
    /// The NM ordered the keeper to end.
    pub(super) ending: bool,
    /// The pads of the jobs that were left with the keepers.
    pub(super) kept: BTreeMap<KeptId, PadId>,
}

/// One pad.
#[derive(Default)]
pub(super) struct Pad {
    /// The socket of the pad's own keeper, on a node without cgroups.
    pub(super) control: Option<Seqpacket>,
    pub(super) outbox: Outbox,
    pub(super) freezer: Option<Arc<Freezer>>,
    pub(super) pls: Vec<Pl>,
    /// The pad is ready when this many PLs wait.
    pub(super) size: u16,
    /// Set between the end of a job and `PadClean`.
    pub(super) draining: bool,
    /// How often the pad was given back. A `PadClean` for an earlier ticket is outdated.
    pub(super) ticket: u32,
    /// The memory of the present job, or of the last job before the pad was filled, is limited.
    pub(super) limited: bool,
    /// `Ready` has not been reported since the last fill.
    pub(super) filling: bool,
    /// The PL whose launch is watched: see [`Pads::watch_launch`].
    pub(super) watched: Option<PlIndex>,
    /// An earlier daemon gave the pad back. The pad's keeper only keeps the results of the pad's
    /// jobs, and reports the ends of killed ranks.
    pub(super) vacant: bool,
    /// The CPU time of the present job, from its first launch on.
    pub(super) time: Option<PadTime>,
}

/// One PL.
#[derive(Default)]
pub(super) enum Pl {
    /// No process yet, or no longer.
    #[default]
    Absent,
    /// Waiting for a launch.
    Idle { pid: ProcessId, command: Seqpacket },
    /// The PL was sent its launch, and has neither executed nor failed.
    Launching { command: Seqpacket },
    /// The application runs.
    Running,
    /// The launch failed, or its socket did not arrive. Either was reported, so the end is not
    /// reported again.
    Failed,
    /// The application ended.
    Ended,
}

impl Pads {
    /// A number that no pad has. Numbers of pads that were given up long ago are used again.
    pub(super) fn new_id(&mut self) -> Option<PadId> {
        for _ in 0..=u16::MAX {
            // The cast starts again from 0 after the last number.
            let pad = PadId(self.made as u16);
            self.made = self.made.wrapping_add(1);
            if !self.pads.contains_key(&pad) {
                return Some(pad);
            }
        }
        None
    }

    /// The socket to the keeper of `pad`.
    pub(super) fn control_of(&self, pad: PadId) -> &Seqpacket {
        self.pads.get(&pad).and_then(|pad| pad.control.as_ref()).unwrap_or(&self.control)
    }

    /// Kills the keeper, stopped or not.
    pub(super) fn kill_keeper(&self) {
        if let Some(process) = &self.former {
            return sys::kill_process(process);
        }
        if !self.gone {
            // SAFETY: kill takes two integers. The keeper is a child of this process, which reaps
            // it only after `gone` was set under the same lock. The number therefore names no other
            // process.
            unsafe { libc::kill(self.keeper.0, libc::SIGKILL) };
        }
    }

    /// The cgroup of a pad.
    pub(super) fn group_of(&self, pad: PadId) -> Option<PathBuf> {
        self.cgroup.as_ref().map(|node| crate::cgroup::PadCgroup::path_in(node, pad))
    }

    /// Starts to count the time of the pad's job, at its first launch.
    pub(super) fn begin_time(&mut self, pad: PadId) {
        let group = self.group_of(pad);
        if let Some(state) = self.pads.get_mut(&pad).filter(|state| !state.draining) {
            state.time.get_or_insert_with(|| PadTime::begin(group.as_deref()));
        }
    }

    /// Watches a descriptor.
    pub(super) fn watch(&self, fd: impl AsFd, source: Source) -> io::Result<()> {
        Ok(self.epoll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, source.token()))?)
    }

    /// Removes the memory limit of a former job, so that it does not bind the next job.
    pub(super) fn lift_limit(&mut self, pad: PadId) -> io::Result<()> {
        let Some(state) = self.pads.get_mut(&pad).filter(|state| state.limited) else {
            return Ok(());
        };
        if let Some(memory) = &self.memory {
            memory.forget(pad, &state.waiting())?;
        }
        state.limited = false;
        Ok(())
    }

    /// Takes in one report of a keeper.
    pub(super) fn take_report(
        &mut self,
        report: Report,
        received: Received,
        events: &mut VecDeque<Event>,
    ) -> io::Result<()> {
        match report {
            Report::PlReady { pad, pl, pid } => self.add_pl(pad, pl, pid, received, events),
            Report::PadKeeper { pad, pid } => self.add_pad_keeper(pad, pid, received, events),
            Report::Exited { pad, pl, pid, status, usage, strays } => {
                self.take_exit((pad, pl, pid), status, (usage, strays), events);
                Ok(())
            }
            Report::PadClean { pad, ticket } => {
                if self.pads.get(&pad).is_some_and(|state| state.ticket != ticket) {
                    return Ok(());
                }
                if let Err(error) = self.lift_limit(pad) {
                    tracing::warn!(%pad, %error, "the limit of a job's memory is not lifted");
                }
                if let Some(state) = self.pads.get_mut(&pad) {
                    state.draining = false;
                    state.time = None;
                    state.filling = true;
                    events.push_back(Event::PadClean { pad });
                    state.announce(pad, events);
                }
                Ok(())
            }
            Report::PadFailed { pad, step, errno } => {
                if self.pads.contains_key(&pad) {
                    events.push_back(Event::PadFailed { pad, step, errno });
                }
                Ok(())
            }
            Report::PadStuck { pad, processes } => {
                events.push_back(Event::PadStuck { pad, processes });
                Ok(())
            }
            Report::Placed { id, result } => {
                events.push_back(Event::Placed { id, result });
                Ok(())
            }
            Report::LeaseOver { pad } => {
                events.push_back(Event::LeaseOver { pad });
                Ok(())
            }
            Report::Pong => {
                self.unanswered = 0;
                Ok(())
            }
            Report::NotKept { job } => {
                events.push_back(Event::NotKept { job, errno: Errno(libc::EMFILE) });
                Ok(())
            }
            Report::Started { .. }
            | Report::Refused { .. }
            | Report::Inheritance { .. }
            | Report::InheritedPad { .. }
            | Report::InheritedJob { .. }
            | Report::InheritedRank { .. } => Err(invalid()),
        }
    }

    /// Watches the launch of `pl`, and of no other PL of the pad, so that the NM is woken once for
    /// all ranks. When this launch is over, the earlier ones most likely are too, and are checked.
    pub(super) fn watch_launch(&mut self, pad: PadId, pl: PlIndex) -> io::Result<()> {
        let Some(state) = self.pads.get_mut(&pad) else { return Ok(()) };
        let Some(Pl::Launching { command }) = state.pls.get(usize::from(pl.0)) else {
            return Ok(());
        };
        let token = Source::Pl(pad, pl).token();
        self.epoll.add(command, EpollEvent::new(EpollFlags::EPOLLIN, token))?;
        if let Some(former) = state.watched.replace(pl)
            && let Some(Pl::Launching { command }) = state.pls.get(usize::from(former.0))
        {
            self.epoll.delete(command)?;
        }
        Ok(())
    }

    /// Handles the end of a launch in the pad, most likely that of `pl`. Records the outcome of
    /// every launch that is over, and watches the last launch that is not.
    pub(super) fn take_launches(&mut self, pad: PadId, pl: PlIndex, events: &mut VecDeque<Event>) {
        if !self.take_launch(pad, pl, events) {
            return;
        }
        let Some(state) = self.pads.get(&pad) else { return };
        for pl in state.select(|pl| matches!(pl, Pl::Launching { .. })) {
            self.take_launch(pad, pl, events);
        }
        self.watch_last(pad);
    }

    pub(super) fn watch_last(&mut self, pad: PadId) {
        let Some(state) = self.pads.get(&pad) else { return };
        let under_way = state.select(|pl| matches!(pl, Pl::Launching { .. }));
        let Some(last) = under_way.last().filter(|_| state.watched.is_none()) else { return };
        if let Err(error) = self.watch_launch(pad, *last) {
            // The outcome of the launch is then noticed when the process ends.
            tracing::warn!(%pad, %error, "the launch of a process cannot be watched");
        }
    }

    /// Reads the command socket of a launching PL. End of file means that the application runs; a
    /// message has the reason why it does not. Returns false if there is neither yet.
    fn take_launch(&mut self, pad: PadId, pl: PlIndex, events: &mut VecDeque<Event>) -> bool {
        let Some(pad_state) = self.pads.get_mut(&pad) else { return false };
        let is_watched = pad_state.watched == Some(pl);
        let Some(state @ Pl::Launching { .. }) = pad_state.pl_mut(pl) else { return false };
        let Pl::Launching { command } = &*state else { return false };
        let mut buffer = [0; FAILURE_MAX_BYTES];
        // The message stays unread, because the keeper may have to give this end to the next
        // daemon.
        let len = match command.peek(&mut buffer) {
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(_) => 0,
        };
        if is_watched {
            // The close that follows is not enough: a process that the NM is forking would keep the
            // readable socket in the set. The socket is in the set, so the call does not fail.
            let _ = self.epoll.delete(command);
        }
        if len == 0 {
            *state = Pl::Running;
            events.push_back(Event::Launched { pad, pl });
        } else {
            *state = Pl::Failed;
            let failure = LaunchFailure::decode(&buffer[..len]);
            events.push_back(Event::LaunchFailed { pad, pl, failure });
        }
        if is_watched {
            pad_state.watched = None;
        }
        true
    }

    fn add_pl(
        &mut self,
        pad: PadId,
        pl: PlIndex,
        pid: ProcessId,
        received: Received,
        events: &mut VecDeque<Event>,
    ) -> io::Result<()> {
        if !self.pads.contains_key(&pad) {
            // The pad was discarded meanwhile. The PL ends as the received socket is dropped.
            return Ok(());
        }
        let command = self.open_freezer(pad).and_then(|()| self.socket(received));
        let state = self.pads.get_mut(&pad).ok_or_else(invalid)?;
        let slot = state.pl_mut(pl).ok_or_else(invalid)?;
        match command {
            Ok(command) => {
                *slot = Pl::Idle { pid, command };
                state.announce(pad, events);
            }
            Err(refused) => {
                // The PL ends, because its socket has lost the other end.
                *slot = Pl::Failed;
                state.fail(pad, refused, events);
            }
        }
        Ok(())
    }

    /// Opens the freezer of a pad in a cgroup, if it is not open.
    fn open_freezer(&mut self, pad: PadId) -> Result<(), (PadStep, Errno)> {
        let (Some(node), Some(state)) = (&self.cgroup, self.pads.get_mut(&pad)) else {
            return Ok(());
        };
        if state.freezer.is_none() {
            let path = crate::cgroup::PadCgroup::path_in(node, pad);
            let opened = CgroupFreezer::open(&path)
                .map_err(|error| (PadStep::Freezer, Errno::of(&error)))?;
            state.freezer = Some(Arc::new(Freezer::Cgroup(opened)));
        }
        Ok(())
    }

    /// The received socket, unless this process has no room for it.
    fn socket(&self, received: Received) -> Result<Seqpacket, (PadStep, Errno)> {
        let came = received.descriptors.into_iter().next().filter(|fd| self.limit.admits(fd));
        came.map(Seqpacket::from).ok_or((PadStep::Handover, Errno(libc::EMFILE)))
    }

    fn add_pad_keeper(
        &mut self,
        pad: PadId,
        pid: ProcessId,
        received: Received,
        events: &mut VecDeque<Event>,
    ) -> io::Result<()> {
        if !self.pads.contains_key(&pad) {
            return Ok(());
        }
        let watched = self.socket(received).and_then(|control| {
            self.watch(&control, Source::PadKeeper(pad))
                .map_err(|error| (PadStep::Handover, Errno::of(&error)))?;
            Ok(control)
        });
        let state = self.pads.get_mut(&pad).ok_or_else(invalid)?;
        match watched {
            Ok(control) => {
                state.control = Some(control);
                state.freezer = Some(Arc::new(Freezer::Signal(SignalFreezer::new(pid))));
            }
            Err(refused) => {
                state.fail(pad, refused, events);
                // The node's keeper may have a copy of the socket. A retry makes another keeper.
                protocol::send(&self.control, &Command::Discard { pad }, &[], Wait::No)?;
            }
        }
        Ok(())
    }

    fn take_exit(
        &mut self,
        (pad, pl, pid): (PadId, PlIndex, ProcessId),
        status: ExitStatus,
        (usage, strays): (Usage, Usage),
        events: &mut VecDeque<Event>,
    ) {
        let group = self.group_of(pad);
        // An execution has to be found, and reported, before the end.
        self.take_launches(pad, pl, events);
        let Some(pad_state) = self.pads.get_mut(&pad) else { return };
        pad_state.watched.take_if(|watched| *watched == pl);
        let draining = pad_state.draining;
        let Some(state) = pad_state.pl_mut(pl) else { return };
        match std::mem::take(state) {
            Pl::Launching { .. } | Pl::Running => {
                *state = Pl::Ended;
                let usage = pad_state.usage_at_exit(usage, strays, group.as_deref());
                events.push_back(Event::Exited { pad, pl, pid, status, usage });
            }
            Pl::Failed | Pl::Ended => *state = Pl::Ended,
            Pl::Idle { .. } | Pl::Absent if draining => {}
            Pl::Idle { .. } | Pl::Absent => events.push_back(Event::PlDied { pad, pl, status }),
        }
        // The pad's own keeper, if there is one, stays until the job is forgotten.
        if pad_state.vacant && pad_state.control.is_none() && !pad_state.has_processes() {
            self.pads.remove(&pad);
        }
        self.watch_last(pad);
    }
}

impl Pad {
    pub(super) fn new(capacity: u16, size: u16) -> Self {
        let pls = (0..capacity).map(|_| Pl::Absent).collect();
        Self { pls, size: size.min(capacity), filling: true, ..Self::default() }
    }

    pub(super) fn pl_mut(&mut self, pl: PlIndex) -> Option<&mut Pl> {
        self.pls.get_mut(usize::from(pl.0))
    }

    /// The usage of a PL that has just ended. For the last PL of a job it includes all usage that
    /// belongs to no PL.
    fn usage_at_exit(&mut self, usage: Usage, strays: Usage, group: Option<&Path>) -> Usage {
        let is_under_way = |pl: &Pl| matches!(pl, Pl::Launching { .. } | Pl::Running);
        match (&mut self.time, self.pls.iter().any(is_under_way)) {
            (Some(time), false) => time.last(usage, strays, group),
            (Some(time), true) => {
                time.ended(usage);
                usage
            }
            (None, false) => usage.plus(strays),
            (None, true) => usage,
        }
    }

    /// PLs in one of the states that `wanted` picks.
    pub(super) fn select(&self, wanted: impl Fn(&Pl) -> bool) -> Vec<PlIndex> {
        (0u16..).zip(&self.pls).filter(|(_, pl)| wanted(pl)).map(|(i, _)| PlIndex(i)).collect()
    }

    /// The processes that wait for a launch.
    pub(super) fn waiting(&self) -> Vec<ProcessId> {
        let waiting = self.pls.iter().filter_map(|pl| match pl {
            Pl::Idle { pid, .. } => Some(*pid),
            _ => None,
        });
        waiting.collect()
    }

    /// Whether a launched process may be alive.
    pub(super) fn has_processes(&self) -> bool {
        let may_live = |pl: &Pl| !matches!(pl, Pl::Absent | Pl::Ended);
        self.pls.iter().any(may_live)
    }

    /// Marks the pad as given back, and returns a new ticket.
    pub(super) fn drain(&mut self) -> u32 {
        self.draining = true;
        self.ticket = self.ticket.wrapping_add(1);
        self.ticket
    }

    /// Reports that the pad could not be filled, once for each fill.
    fn fail(&mut self, pad: PadId, (step, errno): (PadStep, Errno), events: &mut VecDeque<Event>) {
        if std::mem::take(&mut self.filling) {
            events.push_back(Event::PadFailed { pad, step, errno });
        }
    }

    fn announce(&mut self, pad: PadId, events: &mut VecDeque<Event>) {
        let waiting = self.pls.iter().filter(|pl| matches!(pl, Pl::Idle { .. })).count();
        let complete = waiting >= usize::from(self.size);
        if self.filling && !self.draining && complete {
            self.filling = false;
            events.push_back(Event::Ready { pad });
        }
    }
}

fn invalid() -> io::Error {
    io::ErrorKind::InvalidData.into()
}
