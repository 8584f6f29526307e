//! Commands of the NM to its keeper and, for launches, straight to the PLs.
//!
//! No command waits: each is one message into a local socket, and its outcome is an event.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};

use nix::poll::{PollTimeout, poll};
use thiserror::Error;

use crate::carried::Carried;
use crate::host_time::HostTime;
use crate::ids::{Errno, PadId, PlIndex, PlaceId, ProcessId};
use crate::keeper::{KeptId, PlaceSpec};
use crate::launch_spec::{EncodedSpec, RankSpec, SpecBody, SpecError};
use crate::node::event::lock;
use crate::node::outbox::Line;
use crate::node::pads::{Pad, Pads, Pl};
use crate::node::streams::{LineEnds, NewStreams, OwnEnds, PlEnds};
use crate::protocol::{self, Command};
use crate::seqpacket::{Seqpacket, Wait};
use crate::shared_files::SharedFilesSpec;
use crate::shortage::Shortage;
use crate::switch::Freezer;

/// Tries (some 20 ms) to send the descriptors of a rank while too many of this user's are on their
/// way to processes that have not had a processor.
const SEND_TRIES_MAX: u32 = 20;
const SEND_AGAIN_MS: u16 = 1;

/// A launch under way.
#[derive(Debug)]
pub struct Launching {
    /// The process that becomes the application.
    pub pid: ProcessId,
    /// The streams of the rank, now the caller's.
    pub ends: PlEnds,
    /// The streams for files that it shares.
    pub lines: LineEnds,
    /// What keeps them open.
    pub own: OwnEnds,
    /// Whether the keeper has, or will have, what the next daemon needs of the rank.
    pub kept: io::Result<()>,
}

/// Why a launch was not even started.
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
    /// The streams of the rank cannot be made. Nothing is left of them.
    #[error("cannot make the streams of a process{}", limit(.0))]
    Streams(#[source] io::Error),
    /// The message could not be sent: the PL has just died.
    #[error("cannot reach the process that waits for the launch{}", limit(.0))]
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

    /// Makes `count` pads with as many PLs as fit; each is announced by [`crate::Event::Ready`].
    ///
    /// # Errors
    /// When the keeper is gone or does not read.
    pub fn make_pads(&self, count: u16) -> io::Result<Vec<PadId>> {
        let capacity = self.capacity();
        (0..count).map(|_| self.make_pad(capacity)).collect()
    }

    /// Makes a pad that is ready, and says so, with so many PLs: for a job that needs no more, since
    /// each is a process.
    ///
    /// # Errors
    /// When the keeper is gone or does not read.
    pub fn make_pad(&self, pls: u16) -> io::Result<PadId> {
        let mut pads = lock(&self.pads);
        let pad = pads.new_id().ok_or(io::ErrorKind::QuotaExceeded)?;
        let state = Pad::new(pads.capacity, pls);
        let fill = state.size;
        pads.pads.insert(pad, state);
        protocol::send(&pads.control, &Command::MakePad { pad, fill }, &[], Wait::No)?;
        Ok(pad)
    }

    /// From now on the pad is ready with so many PLs, if it was with fewer: it gets them with the
    /// next [`release`](Self::release).
    ///
    /// # Errors
    /// When there is no such pad.
    pub fn enlarge(&self, pad: PadId, pls: u16) -> io::Result<()> {
        let mut pads = lock(&self.pads);
        let capacity = pads.capacity;
        let Some(state) = pads.pads.get_mut(&pad) else { return Err(no_pad()) };
        state.size = state.size.max(pls).min(capacity);
        Ok(())
    }

    /// With how many PLs the pad is ready; 0 when there is no such pad.
    #[must_use]
    pub fn size(&self, pad: PadId) -> u16 {
        lock(&self.pads).pads.get(&pad).map_or(0, |state| state.size)
    }

    /// Leaves these files of a job with the keeper, for the daemon that comes after this one
    /// ([`Keeper::take_over`]): what it has to know of the job. Said before its ranks are launched.
    ///
    /// [`Keeper::take_over`]: crate::Keeper::take_over
    ///
    /// # Errors
    /// When the keeper is gone, or there are no descriptors: the job will end with this process.
    pub fn keep(&self, job: KeptId, pad: PadId, files: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut pads = lock(&self.pads);
        let count = u8::try_from(files.len()).unwrap_or(u8::MAX);
        let command = Command::Keep { job, pad, files: count, ranks: Vec::new() };
        pads.kept.insert(job, pad);
        pads.line(pad).send(command, files)
    }

    /// The input of a kept rank has ended: its pipe is closed when this process has closed it too.
    pub fn close_kept_input(&self, job: KeptId, pl: PlIndex) {
        say(&mut lock(&self.pads), job, Command::CloseInput { job, pl });
    }

    /// The job is over, and nothing of it is kept any more.
    pub fn forget_kept(&self, job: KeptId) {
        let mut pads = lock(&self.pads);
        say(&mut pads, job, Command::Forget { job });
        pads.kept.remove(&job);
    }

    /// Tells a waiting PL to become `rank` of the job: one message, straight to the PL.
    ///
    /// # Errors
    /// When the PL does not wait, or has just died, or there are no descriptors for its streams. The PL
    /// waits on then, if it did. Later failures are events.
    pub fn launch(
        &self,
        pad: PadId,
        pl: PlIndex,
        spec: &EncodedSpec,
        rank: &RankSpec,
    ) -> Result<Launching, LaunchError> {
        self.launch_kept(pad, pl, spec, rank, None)
    }

    /// As [`launch`](Self::launch). The streams of the rank are left with the keeper first, as those of a
    /// rank of the job that is `kept`.
    ///
    /// # Errors
    /// The same.
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
            // The same variable matched above and nothing has changed it since.
            return Err(LaunchError::NotWaiting { pad, pl });
        };
        *state = Pl::Launching { command };
        if let Err(error) = pads.watch_launch(pad, pl) {
            // It is launched all the same, and heard of when it ends.
            tracing::warn!(%pad, %error, "the launch of a process cannot be watched");
        }
        Ok(Launching { pid, ends, lines, own, kept })
    }

    /// Starts the process that writes a job's shared files, with its end of the socket.
    pub(crate) fn write_files(
        &self,
        spec: &SharedFilesSpec,
        socket: BorrowedFd<'_>,
    ) -> io::Result<()> {
        let command = Command::WriteFiles { spec: spec.clone() };
        protocol::send_soon(&lock(&self.pads).control, &command, &[socket])
    }

    /// Whether so many descriptors more leave this process plenty.
    #[must_use]
    pub fn has_plenty_beside(&self, descriptors: u32) -> bool {
        let pads = lock(&self.pads);
        // The lowest free number is that of the copy.
        let next = pads.control.as_fd().try_clone_to_owned();
        next.is_ok_and(|next| pads.limit.is_far_beyond(next, descriptors))
    }

    /// Whether the pad was given back and is not clean yet. [`Event::Ready`] tells of the time
    /// at which it was reported: the pad may have been given back once more since.
    ///
    /// [`Event::Ready`]: crate::Event::Ready
    #[must_use]
    pub fn is_draining(&self, pad: PadId) -> bool {
        lock(&self.pads).pads.get(&pad).is_some_and(|state| state.draining)
    }

    /// Holds the job that is launched in the pad next to so many bytes of memory together, or to
    /// nothing.
    ///
    /// # Errors
    /// When the limit cannot be set, or this node has no way to ([`Keeper::limits_memory`]).
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

    /// How many processes of the job on the pad the kernel has killed so far for more memory
    /// than [`limit_memory`](Self::limit_memory) allows.
    #[must_use]
    pub fn memory_kills(&self, pad: PadId) -> u64 {
        lock(&self.pads).memory.as_ref().map_or(0, |memory| memory.kills(pad))
    }

    /// The job on this pad is over: kills what is left of it, then fills the pad again.
    /// PLs that were not used stay. Ranks that still run are killed.
    ///
    /// # Errors
    /// When the keeper is gone or does not read.
    pub fn release(&self, pad: PadId) -> io::Result<()> {
        self.give_back(pad, true)
    }

    /// As [`release`](Self::release), but the pad is not filled again before that is called:
    /// making processes can wait for a time at which nobody else wants the processors.
    ///
    /// # Errors
    /// When the keeper is gone or does not read.
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
        pads.line(pad).say(command)
    }

    /// Kills every process in the pad at once, stopped or not, then fills it again.
    ///
    /// # Errors
    /// When the keeper is gone or does not read.
    pub fn destroy(&self, pad: PadId) -> io::Result<()> {
        let mut pads = lock(&self.pads);
        let Some(state) = pads.pads.get_mut(&pad) else { return Err(no_pad()) };
        let ticket = state.drain();
        // The waiting PLs die as well; their sockets are of no more use.
        for pl in state.pls.iter_mut().filter(|pl| matches!(pl, Pl::Idle { .. })) {
            *pl = Pl::Absent;
        }
        let command = Command::Destroy { pad, ticket, fill: state.size };
        pads.line(pad).say(command)
    }

    /// Kills every process in the pad and forgets it: it is not filled again, and nothing more is said of it.
    ///
    /// # Errors
    /// When the keeper is gone or does not read; it is forgotten all the same.
    pub fn discard(&self, pad: PadId) -> io::Result<()> {
        let mut pads = lock(&self.pads);
        let Some(state) = pads.pads.remove(&pad) else { return Err(no_pad()) };
        // A keeper of its own ends with the socket to it, and takes everything along.
        let Some(control) = &state.control else {
            return pads.line_to_node().say(Command::Discard { pad });
        };
        // Else a process that is just being forked would keep it in the set.
        let _ = pads.epoll.delete(control);
        control.finish()
    }

    /// Sends `signal` to the process group of every rank that runs. In a stopped pad it acts when
    /// the pad is resumed.
    ///
    /// # Errors
    /// When the keeper is gone or does not read.
    pub fn kill(&self, pad: PadId, signal: i32) -> io::Result<()> {
        let pads = lock(&self.pads);
        let Some(state) = pads.pads.get(&pad) else { return Err(no_pad()) };
        let pls = state.select(|pl| matches!(pl, Pl::Launching { .. } | Pl::Running));
        protocol::send(pads.control_of(pad), &Command::Kill { pad, pls, signal }, &[], Wait::No)
    }

    /// Copies a file as a user; ends with [`crate::Event::Placed`].
    ///
    /// # Errors
    /// When the keeper is gone or does not read.
    pub fn place(&self, spec: PlaceSpec) -> io::Result<PlaceId> {
        let mut pads = lock(&self.pads);
        let id = PlaceId(pads.next_place);
        pads.next_place += 1;
        protocol::send(&pads.control, &Command::Place { id, spec }, &[], Wait::No)?;
        Ok(id)
    }

    /// Stops and resumes the pad; known once the pad is ready. Do not stop a pad after its
    /// release and before the next launch.
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

    /// Has the keeper kill everything in these pads at that time, stopped or not, whatever has become of
    /// this process by then: unless this is said of them again, with another time, or they are given
    /// back. [`Event::LeaseOver`] tells of each; it is to be given back then as well.
    ///
    /// [`Event::LeaseOver`]: crate::Event::LeaseOver
    ///
    /// # Errors
    /// When the keeper is gone or does not read.
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
            // The others do not suffer for one that does not read.
            said = said.and(protocol::send(control, &command, &[], Wait::No));
        }
        said
    }

    /// Asks the keeper for a sign of life. One that has left the last `unanswered_max` questions
    /// without an answer is stopped or hangs, and is killed with everything it keeps;
    /// [`crate::Event::KeeperGone`] tells when. Answers are taken in with the events.
    pub fn ping(&self, unanswered_max: u32) {
        let mut pads = lock(&self.pads);
        if pads.unanswered >= unanswered_max {
            tracing::error!(keeper = pads.keeper.0, "the keeper of this node does not answer");
            return pads.kill_keeper();
        }
        pads.unanswered += 1;
        // A message that cannot even be sent finds no answer.
        let _ = protocol::send(&pads.control, &Command::Ping, &[], Wait::No);
    }

    /// Kills the keeper, which takes everything it keeps along; for one that does not end by
    /// [`shutdown`](Self::shutdown). [`crate::Event::KeeperGone`] tells when.
    pub fn kill_keeper(&self) {
        lock(&self.pads).kill_keeper();
    }

    /// Ends the keeper and everything it keeps; [`crate::Event::KeeperGone`] tells when.
    ///
    /// # Errors
    /// When it is gone already.
    pub fn shutdown(&self) -> io::Result<()> {
        let mut pads = lock(&self.pads);
        pads.ending = true;
        // Without this word it would keep the jobs that were left with it. One that does not read is
        // killed.
        let _ = protocol::send(&pads.control, &Command::End, &[], Wait::No);
        pads.control.finish()
    }
}

/// Tells whoever keeps the job. A keeper that is gone keeps nothing.
fn say(pads: &mut Pads, job: KeptId, command: Command) {
    let _ = match pads.kept.get(&job).copied() {
        Some(pad) => pads.line(pad).send(command, &[]),
        None => pads.line_to_node().send(command, &[]),
    };
}

/// What comes along, length of the rank's part, rank's part, and the shared part unless its file
/// comes along.
fn send_launch(
    command: &Seqpacket,
    spec: &EncodedSpec,
    rank: &[u8],
    streams: &NewStreams,
) -> io::Result<()> {
    let mut carried = streams.carried;
    let mut descriptors: Vec<BorrowedFd<'_>> = streams.theirs.iter().map(AsFd::as_fd).collect();
    let shared: &[u8] = match &spec.body {
        SpecBody::Inline(shared) => shared,
        SpecBody::File(file) => {
            carried.insert(Carried::Spec);
            descriptors.push(file.as_fd());
            &[]
        }
    };
    // RankSpec::encode has bounded it.
    let length = (rank.len() as u32).to_le_bytes();
    let carried = [carried.byte()];
    let parts = [&carried[..], &length, rank, shared].map(IoSlice::new);
    let mut tries = 0;
    loop {
        match command.send(&parts, &descriptors, Wait::No) {
            Err(error)
                if error.raw_os_error() == Some(libc::ETOOMANYREFS) && tries < SEND_TRIES_MAX =>
            {
                tries += 1;
                let _ = poll(&mut [], PollTimeout::from(SEND_AGAIN_MS));
            }
            sent => return sent,
        }
    }
}

/// Which limit an error is about, to follow what failed.
fn limit(error: &io::Error) -> String {
    Shortage::of(Errno::of(error)).map_or_else(String::new, |shortage| format!(" ({shortage})"))
}

fn no_pad() -> io::Error {
    io::ErrorKind::NotFound.into()
}
