//! The events of the keeper, in order, from one place.
//!
//! One epoll instance holds the keeper's socket and those of the PLs being launched. The runtime
//! watches only this instance.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::cgroup::{MemoryControl, remove_remains};
use crate::descriptors::DescriptorLimit;
use crate::exit::{ExitStatus, Usage};
use crate::ids::{Errno, PadId, PlIndex, PlaceId, ProcessId};
use crate::keeper::{KeptId, PlaceFailure};
use crate::launch_failure::LaunchFailure;
use crate::node::outbox::Outbox;
use crate::node::pads::Pads;
use crate::node::source::Source;
use crate::node::{Keeper, KeeperHandle};
use crate::protocol::{self, Command, MESSAGE_MAX_BYTES, PadStep};
use crate::seqpacket::{Seqpacket, Wait};

/// Descriptors queried at once.
const READY_MAX: usize = 64;
/// Messages read from one socket before other sockets get their turn.
const MESSAGES_PER_TURN_MAX: usize = 64;

/// A keeper that ends gives the killed processes some 4 s to die.
const END_TIMEOUT_MS: u16 = 5_000;
/// More reports than one pad can have on their way. This number bounds the wait for the end of the
/// pad's keeper.
const LAST_MESSAGES_MAX: usize = 16 * 1024;

/// An event from the keeper and its PLs.
///
/// Each launch causes either `LaunchFailed`, or `Launched` and later `Exited`. A process that is
/// killed after its launch and before its first instruction counts as launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The pad has as many waiting PLs as it was made for. Follows [`KeeperHandle::make_pads`] or
    /// [`KeeperHandle::make_pad`], and is repeated after `PadClean`.
    Ready {
        /// The pad.
        pad: PadId,
    },
    /// The pad could not be made or filled; [`KeeperHandle::release`] tries again.
    PadFailed {
        /// The pad.
        pad: PadId,
        /// The step that failed.
        step: PadStep,
        /// Why.
        errno: Errno,
    },
    /// The application executes.
    Launched {
        /// The pad.
        pad: PadId,
        /// The PL.
        pl: PlIndex,
    },
    /// The application never executed. No further event follows for this launch.
    LaunchFailed {
        /// The pad.
        pad: PadId,
        /// The PL.
        pl: PlIndex,
        /// The step that failed, and why.
        failure: LaunchFailure,
    },
    /// The application's process ended. The process's children may continue until the pad is
    /// released.
    Exited {
        /// The pad.
        pad: PadId,
        /// The PL.
        pl: PlIndex,
        /// Its process, no longer there.
        pid: ProcessId,
        /// How it ended.
        status: ExitStatus,
        /// Its usage of resources.
        usage: Usage,
    },
    /// A PL died while it waited for a launch; a new PL replaces it when the pad is released.
    PlDied {
        /// The pad.
        pad: PadId,
        /// The PL.
        pl: PlIndex,
        /// How it ended.
        status: ExitStatus,
    },
    /// No process of the former job is left in the pad, and the pad is not frozen.
    PadClean {
        /// The pad.
        pad: PadId,
    },
    /// Processes of the former job have not died for some ten seconds. Most likely they wait for a
    /// file system that does not answer. `PadClean` follows when these processes die.
    PadStuck {
        /// The pad.
        pad: PadId,
        /// Up to 16 of them.
        processes: Vec<ProcessId>,
    },
    /// The lease of the pad has run out ([`KeeperHandle::lease`]): every process in it is dead or
    /// about to be. Precedes the ends of the processes that the keeper killed for the lease.
    LeaseOver {
        /// The pad.
        pad: PadId,
    },
    /// The pad's own keeper (on a node without cgroup v2) died, and with it every process in the
    /// pad.
    PadLost {
        /// The pad, which is lost for good.
        pad: PadId,
    },
    /// A placement ended.
    Placed {
        /// The placement.
        id: PlaceId,
        /// Whether the file is there.
        result: Result<(), PlaceFailure>,
    },
    /// The keeper did not receive a part of the job that a later daemon needs. The job ends with
    /// this daemon.
    NotKept {
        /// The job.
        job: KeptId,
        /// Why.
        errno: Errno,
    },
    /// A keeper has been sent all commands that waited for room: one pad, or the last pad, is no
    /// longer [behind](crate::KeeperHandle::is_behind).
    ToldAll,
    /// The keeper ended with every process of every pad. The last event.
    KeeperGone {
        /// Whether [`KeeperHandle::shutdown`] requested the end.
        expected: bool,
    },
}

/// The stream of events of one keeper.
pub struct KeeperEvents {
    ready: AsyncFd<Watched>,
    pads: Arc<Mutex<Pads>>,
    queue: VecDeque<Event>,
    buffer: Vec<u8>,
    gone: bool,
}

/// The epoll instance as the runtime wants it.
struct Watched(Arc<Epoll>);

impl AsRawFd for Watched {
    fn as_raw_fd(&self) -> RawFd {
        self.0.0.as_raw_fd()
    }
}

impl KeeperEvents {
    pub(super) fn attach(keeper: Keeper) -> io::Result<(KeeperHandle, Self)> {
        let Keeper { control, pid, capacity, cgroup, memory, former, .. } = keeper;
        let epoll = Arc::new(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?);
        let mut pads = Pads {
            former: None,
            control,
            outbox: Outbox::default(),
            keeper: pid,
            gone: false,
            unanswered: 0,
            epoll: Arc::clone(&epoll),
            capacity,
            cgroup: cgroup.ok(),
            memory: memory.ok(),
            pads: Default::default(),
            made: 0,
            limit: DescriptorLimit::of_this_process(),
            next_place: 0,
            ending: false,
            kept: Default::default(),
        };
        pads.watch(&pads.control, Source::Keeper)?;
        if let Some(former) = former {
            pads.take_over(former)?;
        }
        let pads = Arc::new(Mutex::new(pads));
        // SAFETY: `Watched` shares the ownership of the epoll instance, so its descriptor stays
        // open, and stays the same, for as long as the `AsyncFd` holds it.
        let ready = unsafe { AsyncFd::register_with_interest(Watched(epoll), Interest::READABLE) }?;
        let events = Self {
            ready,
            pads: Arc::clone(&pads),
            queue: VecDeque::new(),
            buffer: vec![0; MESSAGE_MAX_BYTES],
            gone: false,
        };
        Ok((KeeperHandle::new(pads), events))
    }

    /// The next event; `None` after [`Event::KeeperGone`]. Cancel safe.
    pub async fn next_event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Some(event);
            }
            if self.gone {
                return None;
            }
            let mut ready = [EpollEvent::empty(); READY_MAX];
            let count = match self.ready.readable().await {
                Err(error) => {
                    self.lose_keeper(&error);
                    continue;
                }
                Ok(mut guard) => match guard.get_inner().0.wait(&mut ready, 0u8) {
                    Ok(0) | Err(_) => {
                        guard.clear_ready();
                        continue;
                    }
                    Ok(count) => count,
                },
            };
            for event in &ready[..count] {
                self.take(Source::from_token(event.data()));
            }
        }
    }

    fn take(&mut self, source: Source) {
        let result = match source {
            Source::Pl(pad, pl) => {
                lock(&self.pads).take_launches(pad, pl, &mut self.queue);
                Ok(true)
            }
            Source::Keeper | Source::PadKeeper(_) => self.take_reports(source),
            Source::Room | Source::PadRoom(_) => Ok(true),
        };
        lock(&self.pads).send_waiting(source, &mut self.queue);
        match (result, source) {
            (Ok(true), _) => {}
            (Ok(false), Source::PadKeeper(pad)) => self.lose_pad(pad),
            (Ok(false), _) => self.lose_keeper(&io::ErrorKind::UnexpectedEof.into()),
            (Err(error), _) => self.lose_keeper(&error),
        }
    }

    /// Takes reports from a keeper. Returns false when the other end is gone.
    fn take_reports(&mut self, source: Source) -> io::Result<bool> {
        let mut pads = lock(&self.pads);
        for _ in 0..MESSAGES_PER_TURN_MAX {
            let control = match source {
                Source::PadKeeper(pad) => match pads.pads.get(&pad).map(|pad| &pad.control) {
                    Some(Some(control)) => control,
                    _ => return Ok(true),
                },
                _ => &pads.control,
            };
            let received = match control.receive(&mut self.buffer, Wait::No) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                other => other?,
            };
            if received.len == 0 {
                return Ok(false);
            }
            let report = protocol::decode(&self.buffer[..received.len])?;
            pads.take_report(report, received, &mut self.queue)?;
        }
        Ok(true)
    }

    fn lose_pad(&mut self, pad: PadId) {
        let mut pads = lock(&self.pads);
        let lost = pads.pads.remove(&pad);
        if !pads.ending && !lost.is_some_and(|state| state.vacant && !state.has_processes()) {
            self.queue.push_back(Event::PadLost { pad });
        }
    }

    /// Makes sure that no process of a pad outlives the keeper.
    fn lose_keeper(&mut self, why: &io::Error) {
        if self.gone {
            return;
        }
        self.gone = true;
        let mut pads = lock(&self.pads);
        pads.gone = true;
        let expected = pads.ending;
        // `End` and our closed ends also end a keeper that still runs after a bad message.
        let _ = protocol::send(&pads.control, &Command::End, &[], Wait::No);
        let _ = pads.control.finish();
        pads.outbox = Outbox::default();
        pads.ending = true;
        for (_, pad) in std::mem::take(&mut pads.pads) {
            if let Some(control) = pad.control {
                await_end(&control);
            }
        }
        if !expected {
            tracing::error!(keeper = pads.keeper.0, %why, "the keeper of this node is gone");
        }
        // The keeper has closed its sockets, so it has ended or is about to. If another part of the
        // program has already reaped it, there is no harm.
        match &pads.former {
            None => drop(waitpid(Pid::from_raw(pads.keeper.0), None)),
            Some(process) => {
                let mut ended = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
                let _ = poll(&mut ended, PollTimeout::from(END_TIMEOUT_MS));
            }
        }
        if let Some(path) = &pads.cgroup
            && let Err(error) = remove_remains(path)
        {
            let path = path.display();
            tracing::error!(%path, %error, "processes of former jobs cannot be removed");
        }
        pads.memory.iter().for_each(MemoryControl::remove);
        self.queue.push_back(Event::KeeperGone { expected });
    }
}

/// Waits until a pad's own keeper, which has lost its parent, has cleaned up and ended.
fn await_end(control: &Seqpacket) {
    let mut buffer = vec![0; MESSAGE_MAX_BYTES];
    if control.finish().is_err() {
        return;
    }
    for _ in 0..LAST_MESSAGES_MAX {
        let mut source = [PollFd::new(control.as_fd(), PollFlags::POLLIN)];
        let ended = match poll(&mut source, PollTimeout::from(END_TIMEOUT_MS)) {
            Err(nix::errno::Errno::EINTR) => false,
            Ok(1) => control.receive(&mut buffer, Wait::No).is_ok_and(|message| message.len == 0),
            Ok(_) | Err(_) => true,
        };
        if ended {
            return;
        }
    }
}

/// A panic while the lock is held leaves a state that is still consistent: every change is one
/// assignment.
pub(super) fn lock(pads: &Mutex<Pads>) -> std::sync::MutexGuard<'_, Pads> {
    pads.lock().unwrap_or_else(PoisonError::into_inner)
}
