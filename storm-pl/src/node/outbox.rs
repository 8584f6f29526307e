//! Commands about kept jobs. The commands reach a keeper in order, even if the keeper does not read
//! for a long time.
//!
//! A keeper that gets no processor while a large job starts leaves its socket full. The caller does
//! not wait for it. Commands wait here, and are sent as soon as the keeper has read some.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};

use crate::descriptors::DescriptorLimit;
use crate::ids::{Errno, PadId, PlIndex};
use crate::keeper::{Keeps, KeptId};
use crate::node::Event;
use crate::node::source::Source;
use crate::node::streams::PlEnds;
use crate::protocol::{self, Command};
use crate::seqpacket::{Seqpacket, Wait};
use crate::shared_files::{FileFailure, FileStep, FilesEnd, say_end};

/// Commands that wait until a keeper has room for them.
#[derive(Default)]
pub(super) struct Outbox {
    unsent: VecDeque<(Command, Vec<OwnedFd>)>,
    room: Option<Room>,
}

/// Wakes the node each time that the keeper has read something.
struct Room {
    /// A separate descriptor, watched for edges. The original is watched for levels.
    socket: OwnedFd,
    epoll: Arc<Epoll>,
}

impl Room {
    fn watch(control: &Seqpacket, epoll: &Arc<Epoll>, source: Source) -> io::Result<Self> {
        let socket = control.as_fd().try_clone_to_owned()?;
        let edges = EpollFlags::EPOLLOUT | EpollFlags::EPOLLET;
        epoll.add(&socket, EpollEvent::new(edges, source.token()))?;
        Ok(Self { socket, epoll: Arc::clone(epoll) })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // Closing the socket is not enough, since it has another descriptor.
        let _ = self.epoll.delete(&self.socket);
    }
}

/// The way to one keeper.
pub(super) struct Line<'a> {
    pub(super) control: &'a Seqpacket,
    outbox: &'a mut Outbox,
    epoll: &'a Arc<Epoll>,
    source: Source,
    limit: DescriptorLimit,
}

impl<'a> Line<'a> {
    /// The way to the node's keeper.
    pub(super) fn to_node(
        (control, outbox): (&'a Seqpacket, &'a mut Outbox),
        epoll: &'a Arc<Epoll>,
        limit: DescriptorLimit,
    ) -> Self {
        Self { control, outbox, epoll, source: Source::Room, limit }
    }

    /// The way to the pad's own keeper, or `self` if the pad has none.
    pub(super) fn or_to(self, pad: PadId, own: (&'a Option<Seqpacket>, &'a mut Outbox)) -> Self {
        match own {
            (Some(control), outbox) => {
                Self { control, outbox, source: Source::PadRoom(pad), ..self }
            }
            (None, _) => self,
        }
    }

    /// Gives the keeper the streams of a rank that is about to be launched.
    ///
    /// # Errors
    /// The keeper is gone, or this process has no more descriptors. The job then ends with this
    /// process.
    pub(super) fn keep_rank(
        &mut self,
        job: KeptId,
        (pad, pl): (PadId, PlIndex),
        (command, ends): (&Seqpacket, &PlEnds),
    ) -> io::Result<()> {
        let all = [&ends.stdin, &ends.stdout, &ends.stderr, &ends.pmi];
        let [stdin, stdout, stderr, pmi] = all.map(Option::is_some);
        let keeps = Keeps { stdin, stdout, stderr, pmi };
        let ends = all.into_iter().flatten().map(AsFd::as_fd);
        let descriptors: Vec<_> = [command.as_fd()].into_iter().chain(ends).collect();
        self.send(Command::Keep { job, pad, files: 0, ranks: vec![(pl, keeps)] }, &descriptors)
    }

    /// Sends a command after those that wait. If there is no room for it, it waits too.
    ///
    /// # Errors
    /// The keeper is gone, or this process has no descriptors for those of the command.
    pub(super) fn send(
        &mut self,
        command: Command,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        if !self.outbox.waits() {
            match protocol::send(self.control, &command, descriptors, Wait::No) {
                Err(error) if is_full(&error) => {}
                sent => return sent,
            }
        }
        let copies: io::Result<Vec<OwnedFd>> =
            descriptors.iter().map(|fd| self.copy(*fd)).collect();
        let copies = copies?;
        if self.outbox.room.is_none() {
            self.outbox.room = Some(Room::watch(self.control, self.epoll, self.source)?);
        }
        self.outbox.unsent.push_back((command, copies));
        Ok(())
    }

    /// Sends the commands for which there is room. If a `Keep` fails, its job is not kept. If a
    /// writer of shared files cannot be started, the job reads that from the writer's socket.
    pub(super) fn send_waiting(&mut self, events: &mut VecDeque<Event>) {
        while let Some((command, copies)) = self.outbox.unsent.pop_front() {
            let borrowed: Vec<BorrowedFd<'_>> = copies.iter().map(AsFd::as_fd).collect();
            match protocol::send(self.control, &command, &borrowed, Wait::No) {
                Err(error) if is_full(&error) => {
                    self.outbox.unsent.push_front((command, copies));
                    return;
                }
                Err(error) => self.give_up((command, copies), Errno::of(&error), events),
                Ok(()) => {}
            }
        }
        if self.outbox.room.take().is_some() {
            events.push_back(Event::ToldAll);
        }
    }

    fn give_up(
        &mut self,
        (command, copies): (Command, Vec<OwnedFd>),
        errno: Errno,
        events: &mut VecDeque<Event>,
    ) {
        match command {
            Command::Keep { job, .. } => {
                self.outbox.forget_keeps(job);
                events.push_back(Event::NotKept { job, errno });
            }
            Command::WriteFiles { .. } => {
                let failure = FileFailure { step: FileStep::Start, file: 0, errno };
                let sockets = copies.into_iter().map(Seqpacket::from);
                sockets.for_each(|socket| say_end(&socket, FilesEnd::Failed(failure)));
            }
            // The keeper is gone; its own event reports that end.
            _ => {}
        }
    }

    /// Whether a command waits for its keeper.
    pub(super) fn is_behind(&self) -> bool {
        self.outbox.waits()
    }

    /// A copy, since the command may outlive the caller's descriptor, such as a stream of the rank.
    fn copy(&self, descriptor: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        let copy = descriptor.try_clone_to_owned()?;
        match self.limit.admits(&copy) {
            true => Ok(copy),
            false => Err(io::Error::from_raw_os_error(libc::EMFILE)),
        }
    }
}

impl Outbox {
    /// Drops the later ranks of a job of which one is missing.
    fn forget_keeps(&mut self, missing: KeptId) {
        let is_of =
            |command: &Command| matches!(command, Command::Keep { job, .. } if *job == missing);
        self.unsent.retain(|(command, _)| !is_of(command));
    }

    /// Whether a command waits.
    pub(super) fn waits(&self) -> bool {
        !self.unsent.is_empty()
    }
}

/// Whether the receiver has much to read, or too many descriptors of this user are on their way.
fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::ETOOMANYREFS)
}
