//! Commands of the NM to its keeper and, for launches, straight to the PLs.
//!
//! No command blocks. Each is one message into a local socket, and its outcome is an event. A
//! command waits while the socket is full. The exceptions are pings and leases: both are repeated,
//! and useless if late.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};

use thiserror::Error;

use crate::descriptors::DescriptorLimit;
use crate::host_time::HostTime;
use crate::ids::{Errno, PadId, PlIndex, PlaceId, ProcessId};
use crate::keeper::{KeptId, PlaceSpec};
use crate::launch_spec::{EncodedSpec, RankSpec, SpecError};
use crate::node::event::lock;
use crate::node::outbox::Line;
use crate::node::pads::{Pad, Pads, Pl};
use crate::node::send_launch::send_launch;
use crate::node::streams::{LineEnds, NewStreams, OwnEnds, PlEnds};
use crate::protocol::{self, Command, PadStep};
use crate::seqpacket::{Seqpacket, Wait};
use crate::shared_files::SharedFilesSpec;
use crate::shortage::{self, Shortage};
use crate::switch::Freezer;

/// A launch under way.
#[derive(Debug)]
pub struct Launching {
    /// The process that becomes the application.
    pub pid: ProcessId,
    /// The streams of the rank, now the caller's.
    pub ends: PlEnds,
    /// The streams for files that the rank shares.
    pub lines: LineEnds,
    /// Copies that keep the streams open.
    pub own: OwnEnds,
    /// Whether the keeper has received, or will receive, the next daemon's part of the rank.
    pub kept: io::Result<()>,
}

/// The reason why a launch was not even started.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// There is no such PL.
    #[error("there is no {pl} in {pad}")]
    Unknown {
        /// The pad named.
        pad: PadId,
        /// The PL named.
        pl: PlIndex,
    },
    /// The PL is not waiting: it runs, has run, or died, or the pad is being cleaned.
    #[error("{pl} of {pad} is not waiting for a launch")]
    NotWaiting {
        /// The pad named.
        pad: PadId,
        /// The PL named.
        pl: PlIndex,
    },
    /// The rank's part cannot be sent.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The streams of the rank cannot be made. No stream is left open.
    #[error("cannot make the streams of a process{}", shortage::told(.0))]
    Streams(#[source] io::Error),
    /// The message could not be sent: the PL has just died.
    #[error("cannot reach the process that waits for the launch{}", shortage::told(.0))]
    Send(#[source] io::Error),
}

/// Commands to a keeper and its PLs. Cheap to clone, usable from any thread.
#[derive(Clone)]
pub struct KeeperHandle {
    pads: Arc<Mutex<Pads>>,
}

impl KeeperHandle {
    pub(super) fn new(pads: Arc<Mutex<Pads>>) -> Self {
        Self { pads }
    }

    /// PLs in each pad.
    #[must_use]
    pub fn capacity(&self) -> u16 {
        lock(&self.pads).capacity
    }

    /// Makes `count` pads with as many PLs as fit. [`crate::Event::Ready`] announces each.
    ///
    /// # Errors
    /// The keeper is gone, or this process has no descriptor left.
    pub fn make_pads(&self, count: u16) -> io::Result<Vec<PadId>> {
        let capacity = self.capacity();
        (0..count).map(|_| self.make_pad(capacity)).collect()
    }

    /// Makes a pad with only `pls` PLs, for a job that needs no more: each PL is a process. The pad
    /// is announced as ready with this number.
    ///
    /// # Errors
    /// The keeper is gone, or this process has no descriptor left.
    pub fn make_pad(&self, pls: u16) -> io::Result<PadId> {
        let mut pads = lock(&self.pads);
        let pad = pads.new_id().ok_or(io::ErrorKind::QuotaExceeded)?;
        let state = Pad::new(pads.capacity, pls);
        let fill = state.size;
        pads.pads.insert(pad, state);
        pads.line_to_node().send(Command::MakePad { pad, fill }, &[])?;
        Ok(pad)
    }

    /// Raises the number of PLs with which the pad is ready to `pls`. The pad gets them at the next
    /// [`release`](Self::release).
    ///
    /// # Errors
    /// There is no such pad.
    pub fn enlarge(&self, pad: PadId, pls: u16) -> io::Result<()> {
        let mut pads = lock(&self.pads);
        let capacity = pads.capacity;
        let Some(state) = pads.pads.get_mut(&pad) else { return Err(no_pad()) };
        state.size = state.size.max(pls).min(capacity);
        Ok(())
    }

    /// The number of PLs with which the pad is ready; 0 if there is no such pad.
    #[must_use]
    pub fn size(&self, pad: PadId) -> u16 {
        lock(&self.pads).pads.get(&pad).map_or(0, |state| state.size)
    }

    /// Gives the keeper these files of a job for the next daemon ([`Keeper::take_over`]). The files
    /// contain everything that the next daemon must know of the job. Call it before the ranks are
    /// launched.
    ///
    /// [`Keeper::take_over`]: crate::Keeper::take_over
    ///
    /// # Errors
    /// The keeper is gone, or there are no descriptors. The job then ends with this process.
    pub fn keep(&self, job: KeptId, pad: PadId, files: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut pads = lock(&self.pads);
        let count = u8::try_from(files.len()).unwrap_or(u8::MAX);
        let command = Command::Keep { job, pad, files: count, ranks: Vec::new() };
        pads.kept.insert(job, pad);
        pads.line(pad).send(command, files)
    }

    /// Gives the keeper copies of the streams of a rank that runs, as of a rank of the job.
    ///
    /// # Errors
    /// The keeper is gone, or there are no descriptors.
    pub fn keep_rank(&self, job: KeptId, at: (PadId, PlIndex), ends: &PlEnds) -> io::Result<()> {
        // The closed end shows that the rank was launched.
        let (launched, _) = Seqpacket::pair()?;
        lock(&self.pads).line(at.0).keep_rank(job, at, (&launched, ends))
    }

    /// Whether commands wait for the pad's keeper or the node's. Until
    /// [`ToldAll`](crate::Event::ToldAll), a later daemon may not find all of a kept job: its
    /// ranks, and the process that writes its shared files.
    #[must_use]
    pub fn is_behind(&self, pad: PadId) -> bool {
        let mut pads = lock(&self.pads);
        pads.line_to_node().is_behind() || pads.line(pad).is_behind()
    }

    /// Closes the keeper's copy of a kept rank's input. The pipe closes when this process has
    /// closed it too.
    pub fn close_kept_input(&self, job: KeptId, pl: PlIndex) {
        say(&mut lock(&self.pads), job, Command::CloseInput { job, pl });
    }

    /// Forgets a job that is over. The keeper then keeps nothing of it.
    pub fn forget_kept(&self, job: KeptId) {
        let mut pads = lock(&self.pads);
        say(&mut pads, job, Command::Forget { job });
        pads.kept.remove(&job);
    }

    /// Makes a waiting PL become `rank` of the job, by one message straight to the PL.
    ///
    /// # Errors
    /// The PL does not wait, or has just died, or there are no descriptors for its streams. After
    /// an error, a waiting PL continues to wait. Later failures are events.
    pub fn launch(
        &self,
        pad: PadId,
        pl: PlIndex,
        spec: &EncodedSpec,
        rank: &RankSpec,
    ) -> Result<Launching, LaunchError> {
        self.launch_kept(pad, pl, spec, rank, None)
    }

    /// Launches like [`launch`](Self::launch), but first gives the keeper the streams of the rank,
    /// as a rank of the job `kept`.
    ///
    /// # Errors
    /// The errors of `launch`.
    pub fn launch_kept(
        &self,
        pad: PadId,
        pl: PlIndex,
        spec: &EncodedSpec,
        rank: &RankSpec,
        kept: Option<KeptId>,
    ) -> Result<Launching, LaunchError> {
        let encoded = rank.encode()?;
        let mut pads = lock(&self.pads);
        let pads = &mut *pads;
        let limit = pads.limit;
        pads.begin_time(pad);
        let draining = pads.pads.get(&pad).is_some_and(|state| state.draining);
        let line = Line::to_node((&pads.control, &mut pads.outbox), &pads.epoll, limit);
        let state = pads.pads.get_mut(&pad);
        let found = state.and_then(|Pad { control, outbox, pls, .. }| {
            Some((line.or_to(pad, (control, outbox)), pls.get_mut(usize::from(pl.0))?))
        });
        let Some((mut line, state)) = found else { return Err(LaunchError::Unknown { pad, pl }) };
        if draining {
            return Err(LaunchError::NotWaiting { pad, pl });
        }
        let Pl::Idle { command, .. } = state else {
            return Err(LaunchError::NotWaiting { pad, pl });
        };
        let streams = NewStreams::make(spec, rank, limit).map_err(LaunchError::Streams)?;
        let kept =
            kept.map_or(Ok(()), |job| line.keep_rank(job, (pad, pl), (command, &streams.ends)));
        send_launch(command, spec, &encoded, &streams).map_err(LaunchError::Send)?;
        let (ends, lines, own) = streams.handed_over(limit);
        let Pl::Idle { pid, command } = std::mem::take(state) else {
            // Unreachable: the same variable matched above and has not changed since.
            return Err(LaunchError::NotWaiting { pad, pl });
        };
        *state = Pl::Launching { command };
        if let Err(error) = pads.watch_launch(pad, pl) {
            // The rank is launched all the same. The outcome of the launch is noticed when the rank
            // ends.
            tracing::warn!(%pad, %error, "the launch of a process cannot be watched");
        }
        Ok(Launching { pid, ends, lines, own, kept })
    }

    /// Starts the process that writes a job's shared files, and gives it `socket`.
    pub(crate) fn write_files(
        &self,
        spec: &SharedFilesSpec,
        socket: BorrowedFd<'_>,
    ) -> io::Result<()> {
        let command = Command::WriteFiles { spec: spec.clone() };
        lock(&self.pads).line_to_node().send(command, &[socket])
    }

    /// The limit behind the failure of a pad, if a limit was reached. Most steps are the keeper's,
    /// which has limits of its own.
    #[must_use]
    pub fn shortage(&self, step: PadStep, errno: Errno) -> Option<Shortage> {
        let shortage = Shortage::of(errno)?;
        let is_keepers = match step {
            PadStep::Cgroup | PadStep::Socket | PadStep::Fork | PadStep::Thaw => true,
            // The sender gets the error if too many descriptors are on their way.
            PadStep::Handover => errno.0 == libc::ETOOMANYREFS,
            PadStep::Freezer => false,
        };
        let limit = || DescriptorLimit::of(lock(&self.pads).keeper);
        Some(if is_keepers { shortage.at_keeper(limit()) } else { shortage })
    }

    /// Whether this process would still have plenty of descriptors after opening `descriptors`
    /// more.
    #[must_use]
    pub fn has_plenty_beside(&self, descriptors: u32) -> bool {
        let pads = lock(&self.pads);
        // The number of a fresh copy is the lowest free one.
        let next = pads.control.as_fd().try_clone_to_owned();
        next.is_ok_and(|next| pads.limit.is_far_beyond(next, descriptors))
    }

    /// Whether the pad was given back and is not clean yet. [`Event::Ready`] describes the time of
    /// its report; the pad may have been given back again since.
    ///
    /// [`Event::Ready`]: crate::Event::Ready
    #[must_use]
    pub fn is_draining(&self, pad: PadId) -> bool {
        lock(&self.pads).pads.get(&pad).is_some_and(|state| state.draining)
    }

    /// Limits the memory of the next job in the pad to `bytes` for all its processes together.
    /// `None` removes the limit.
    ///
    /// # Errors
    /// The limit cannot be set, or this node has no means for it ([`Keeper::limits_memory`]).
    ///
    /// [`Keeper::limits_memory`]: crate::Keeper::limits_memory
    pub fn limit_memory(&self, pad: PadId, bytes: Option<u64>) -> io::Result<()> {
        let mut pads = lock(&self.pads);
        let Some(bytes) = bytes else { return pads.lift_limit(pad) };
        let Pads { memory, pads, .. } = &mut *pads;
        let Some(state) = pads.get_mut(&pad) else { return Err(no_pad()) };
        let Some(memory) = memory else { return Err(io::ErrorKind::Unsupported.into()) };
        state.limited = true;
        memory.limit(pad, bytes, &state.waiting())
    }

    /// How many processes of the pad's job the kernel has killed so far for exceeding the limit of
    /// [`limit_memory`](Self::limit_memory).
    #[must_use]
    pub fn memory_kills(&self, pad: PadId) -> u64 {
        lock(&self.pads).memory.as_ref().map_or(0, |memory| memory.kills(pad))
    }

    /// Ends the job on this pad: kills its processes, ranks included, then fills the pad again.
    /// Unused PLs stay.
    ///
    /// # Errors
    /// The keeper is gone, or this process has no descriptor left.
    pub fn release(&self, pad: PadId) -> io::Result<()> {
        self.give_back(pad, true)
    }

    /// Cleans the pad like [`release`](Self::release), but does not fill it. A later `release`
    /// fills it, at a time when no job needs the processors.
    ///
    /// # Errors
    /// The keeper is gone, or this process has no descriptor left.
    pub fn clean(&self, pad: PadId) -> io::Result<()> {
        self.give_back(pad, false)
    }

    fn give_back(&self, pad: PadId, fill: bool) -> io::Result<()> {
        let mut pads = lock(&self.pads);
        let Some(state) = pads.pads.get_mut(&pad) else { return Err(no_pad()) };
        let running = state.select(|pl| matches!(pl, Pl::Launching { .. } | Pl::Running));
        let failed = state.select(|pl| matches!(pl, Pl::Failed));
        let ticket = state.drain();
        let fill = if fill { state.size } else { 0 };
        let command = Command::Release { pad, ticket, running, failed, fill };
        pads.line(pad).send(command, &[])
    }

    /// Kills every process in the pad at once, stopped or not, then fills it again.
    ///
    /// # Errors
    /// The keeper is gone, or this process has no descriptor left.
    pub fn destroy(&self, pad: PadId) -> io::Result<()> {
        let mut pads = lock(&self.pads);
        let Some(state) = pads.pads.get_mut(&pad) else { return Err(no_pad()) };
        let ticket = state.drain();
        // The waiting PLs die as well, so their sockets are useless.
        for pl in state.pls.iter_mut().filter(|pl| matches!(pl, Pl::Idle { .. })) {
            *pl = Pl::Absent;
        }
        let command = Command::Destroy { pad, ticket, fill: state.size };
        pads.line(pad).send(command, &[])
    }

    /// Kills every process in the pad and forgets it. The pad is not filled again, and no event
    /// follows.
    ///
    /// # Errors
    /// The keeper is gone, or this process has no descriptor left. The pad is forgotten all the
    /// same.
    pub fn discard(&self, pad: PadId) -> io::Result<()> {
        let mut pads = lock(&self.pads);
        let Some(state) = pads.pads.remove(&pad) else { return Err(no_pad()) };
        // A pad's own keeper ends when its socket closes, and kills every process.
        let Some(control) = &state.control else {
            return pads.line_to_node().send(Command::Discard { pad }, &[]);
        };
        // Otherwise a process that is being forked would keep the socket in the set.
        let _ = pads.epoll.delete(control);
        control.finish()
    }

    /// Sends `signal` to the process group of every running rank. In a stopped pad the signal acts
    /// when the pad is resumed.
    ///
    /// # Errors
    /// The keeper is gone, or this process has no descriptor left.
    pub fn kill(&self, pad: PadId, signal: i32) -> io::Result<()> {
        self.send_signal(pad, signal, true)
    }

    /// Sends `signal` to every running rank, and not to the processes that ranks started.
    ///
    /// # Errors
    /// As for [`kill`](Self::kill).
    pub fn kill_leaders(&self, pad: PadId, signal: i32) -> io::Result<()> {
        self.send_signal(pad, signal, false)
    }

    fn send_signal(&self, pad: PadId, signal: i32, groups: bool) -> io::Result<()> {
        let mut pads = lock(&self.pads);
        let Some(state) = pads.pads.get(&pad) else { return Err(no_pad()) };
        let pls = state.select(|pl| matches!(pl, Pl::Launching { .. } | Pl::Running));
        pads.line(pad).send(Command::Kill { pad, pls, signal, groups }, &[])
    }

    /// Copies a file as a user. [`crate::Event::Placed`] reports the result.
    ///
    /// # Errors
    /// The keeper is gone, or this process has no descriptor left.
    pub fn place(&self, spec: PlaceSpec) -> io::Result<PlaceId> {
        let mut pads = lock(&self.pads);
        let id = PlaceId(pads.next_place);
        pads.next_place += 1;
        pads.line_to_node().send(Command::Place { id, spec }, &[])?;
        Ok(id)
    }

    /// The freezer that stops and resumes the pad, or `None` before the pad is ready. Do not stop a
    /// pad between its release and the next launch.
    #[must_use]
    pub fn freezer(&self, pad: PadId) -> Option<Arc<Freezer>> {
        lock(&self.pads).pads.get(&pad)?.freezer.clone()
    }

    /// PLs of the pad that wait for a launch.
    #[must_use]
    pub fn waiting(&self, pad: PadId) -> Vec<PlIndex> {
        let pads = lock(&self.pads);
        pads.pads
            .get(&pad)
            .map_or_else(Vec::new, |state| state.select(|pl| matches!(pl, Pl::Idle { .. })))
    }

    /// Makes the keeper kill every process in these pads at `until`, stopped or not, even if this
    /// process is gone by then. A later call for the same pads replaces the time, and giving a pad
    /// back ends its lease. [`Event::LeaseOver`] reports each expired lease. The pad must then
    /// still be given back.
    ///
    /// [`Event::LeaseOver`]: crate::Event::LeaseOver
    ///
    /// # Errors
    /// The keeper is gone or does not read.
    pub fn lease(&self, leased: &[PadId], until: HostTime) -> io::Result<()> {
        let pads = lock(&self.pads);
        let (own, together): (Vec<PadId>, _) = leased
            .iter()
            .filter(|pad| pads.pads.get(pad).is_some_and(|state| !state.draining))
            .partition(|pad| pads.pads.get(pad).is_some_and(|state| state.control.is_some()));
        let together = Some(together).filter(|pads: &Vec<PadId>| !pads.is_empty());
        let mut said = Ok(());
        for leased in own.into_iter().map(|pad| vec![pad]).chain(together) {
            let control = leased.first().map_or(&pads.control, |pad| pads.control_of(*pad));
            let command = Command::Lease { pads: leased, until };
            // A keeper that does not read must not affect the others.
            said = said.and(protocol::send(control, &command, &[], Wait::No));
        }
        said
    }

    /// Pings the keeper. A keeper that has not answered the last `unanswered_max` pings is stopped
    /// or hangs, and is killed with all its processes. [`crate::Event::KeeperGone`] reports when.
    /// Answers are read with the events.
    pub fn ping(&self, unanswered_max: u32) {
        let mut pads = lock(&self.pads);
        if pads.unanswered >= unanswered_max {
            tracing::error!(keeper = pads.keeper.0, "the keeper of this node does not answer");
            return pads.kill_keeper();
        }
        pads.unanswered += 1;
        // A ping that cannot be sent counts as unanswered.
        let _ = protocol::send(&pads.control, &Command::Ping, &[], Wait::No);
    }

    /// Kills a keeper that [`shutdown`](Self::shutdown) does not end, with all its processes.
    /// [`crate::Event::KeeperGone`] reports when.
    pub fn kill_keeper(&self) {
        lock(&self.pads).kill_keeper();
    }

    /// Ends the keeper and all its processes. [`crate::Event::KeeperGone`] reports when.
    ///
    /// # Errors
    /// The keeper is already gone.
    pub fn shutdown(&self) -> io::Result<()> {
        let mut pads = lock(&self.pads);
        pads.ending = true;
        // Without this command, the keeper would keep the jobs that were left with it. A keeper
        // that does not read is killed instead.
        let _ = protocol::send(&pads.control, &Command::End, &[], Wait::No);
        pads.control.finish()
    }
}

/// Sends a command to the keeper of the job. A keeper that is gone keeps nothing.
fn say(pads: &mut Pads, job: KeptId, command: Command) {
    let _ = match pads.kept.get(&job).copied() {
        Some(pad) => pads.line(pad).send(command, &[]),
        None => pads.line_to_node().send(command, &[]),
    };
}

fn no_pad() -> io::Error {
    io::ErrorKind::NotFound.into()
}
