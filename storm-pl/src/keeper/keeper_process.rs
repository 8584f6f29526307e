//! The keeper's event loop: commands from the NM, deaths of children, pads becoming clean.
//!
//! One thread, no runtime. It blocks whenever nothing happens, and ends only when the NM is gone
//! or tells it to; whatever the end, it takes every process of every pad with it.

mod exits;
mod leases;
mod reports;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signalfd::SignalFd;

use self::exits::HeldExit;
use crate::cgroup::{
    CgroupUnusable, NodeCgroup, NodeCgroupError, PadCgroup, kill_and_remove, own_directory,
};
use crate::exit::ExitStatus;
use crate::ids::{Errno, PadId, PlIndex, PlaceId, ProcessId};
use crate::keeper::fill::{NewPl, make_pl};
use crate::keeper::leases::Leases;
use crate::keeper::memory;
use crate::keeper::pad::{Clean, Draining, Pad};
use crate::keeper::place::{PlaceFailure, PlaceSpec, PlaceStep, place};
use crate::keeper::process_state::{CONTROL_DESCRIPTOR, PARENT_GONE, settle, watch_signals};
use crate::process_tree;
use crate::protocol::{self, Command, MESSAGE_MAX_BYTES, PadStep, Refusal, Report, Setup};
use crate::seqpacket::{PlDescriptors, Seqpacket, Wait};
use crate::sys::{self, Forked};

/// How soon a draining pad is looked at again. Deaths wake the keeper anyhow; the timer is for
/// processes that leave their cgroup a moment after their parent heard of it.
const LOOK_AGAIN_MS: u16 = 2;
/// After so many looks (some 10 s) the NM hears that a pad does not become clean.
const LOOKS_BEFORE_STUCK: u32 = 5_000;
/// As many processes are named in that report.
const STUCK_NAMED_MAX: usize = 16;
/// So many reports may wait for those after them, each with the descriptors of a PL.
const UNTOLD_MAX: usize = 5;
/// Looks at the end of the keeper (some 4 s) before it leaves what cannot be killed.
const LAST_LOOKS_MAX: u32 = 2_000;

/// Runs a keeper on `control` until its NM is gone.
pub(crate) fn run_keeper(control: OwnedFd) {
    let Ok(control) = settle(control) else { return };
    let mut buffer = vec![0; MESSAGE_MAX_BYTES];
    let Ok(received) = control.receive(&mut buffer, Wait::Block) else { return };
    let Ok(Command::Setup(setup)) = protocol::decode(&buffer[..received.len]) else { return };
    // A keeper that somebody has stopped goes on when its NM dies, and ends the ranks: they could be
    // at work elsewhere already.
    let _ = sys::set_parent_death_signal(libc::SIGCONT);
    // The session of the NM and its terminal must not reach the jobs. Fails only for a process
    // that leads its group already, which a fresh child does not.
    let _ = nix::unistd::setsid();
    let (node, report) = match claim_node(&setup, &control) {
        Ok((node, cgroup)) => (node, Report::Started { cgroup }),
        Err(what) => (None, Report::Refused { what }),
    };
    let refused = matches!(report, Report::Refused { .. });
    if protocol::send(&control, &report, &[], Wait::Block).is_err() || refused {
        // An NM that died before it could be told: nobody else knows of it.
        if let Some(node) = &node {
            let _ = kill_and_remove(node.path());
        }
        return;
    }
    match KeeperProcess::new(control, setup.capacity, node, Kind::Node) {
        Ok(mut keeper) => {
            keeper.run();
            // While it has the node: the next keeper waits for it.
            if let Some(leftovers) = setup.leftovers {
                leftovers.remove();
            }
        }
        Err(_) => sys::exit_now(1),
    }
}

/// What a keeper keeps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// All pads of a node.
    Node,
    /// One pad, on a node without cgroup v2: being the nearest subreaper of every process of the
    /// pad, it knows them all by descent.
    OnePad,
}

/// What a child of the keeper is.
#[derive(Clone, Copy)]
enum Child {
    Pl(PadId, PlIndex),
    Place(PlaceId),
    PadKeeper,
}

/// A report, and the descriptors that come along.
type News = (Report, Option<PlDescriptors>);

struct KeeperProcess {
    control: Seqpacket,
    signals: SignalFd,
    capacity: u16,
    node: Option<NodeCgroup>,
    kind: Kind,
    pads: BTreeMap<PadId, Pad>,
    leases: Leases,
    /// Pads whose leases have run out, which the NM has not been told.
    leases_over: Vec<PadId>,
    children: HashMap<i32, Child>,
    /// Ends of PLs that the NM has not been told.
    exits: Vec<HeldExit>,
    buffer: Vec<u8>,
    /// Commands that were read before their turn.
    early: VecDeque<Command>,
    /// A pad's keeper died: orphans of its pad have to be found and killed.
    orphans: bool,
    /// The NM is gone.
    ended: bool,
}

impl KeeperProcess {
    fn new(
        control: Seqpacket,
        capacity: u16,
        node: Option<NodeCgroup>,
        kind: Kind,
    ) -> Result<Self, Errno> {
        memory::give_back();
        sys::become_subreaper()?;
        Ok(Self {
            control,
            signals: watch_signals()?,
            capacity,
            node,
            kind,
            pads: BTreeMap::new(),
            leases: Leases::default(),
            leases_over: Vec::new(),
            children: HashMap::new(),
            exits: Vec::new(),
            buffer: vec![0; MESSAGE_MAX_BYTES],
            early: VecDeque::new(),
            orphans: false,
            ended: false,
        })
    }

    fn run(&mut self) {
        while !self.ended {
            let waiting = self.orphans
                || !self.exits.is_empty()
                || self.pads.values().any(|pad| pad.draining.is_some());
            let timeout = match waiting {
                _ if !self.early.is_empty() => PollTimeout::ZERO,
                true => LOOK_AGAIN_MS.into(),
                false => self.lease_timeout(),
            };
            let mut sources = [
                PollFd::new(self.control.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            ];
            // Interrupted or not, both sources are asked without blocking.
            let _ = poll(&mut sources, timeout);
            let [commanded, signalled] = sources.map(|source| source.any().unwrap_or(false));
            if signalled {
                self.take_signals();
            }
            if commanded || !self.early.is_empty() {
                self.take_command();
            }
            self.look_at_leases();
            self.look_at_exits();
            self.look_at_pads();
            self.look_for_orphans();
        }
        self.end();
    }

    fn take_signals(&mut self) {
        while let Ok(Some(signal)) = self.signals.read_signal() {
            if signal.ssi_signo == PARENT_GONE as u32 {
                self.ended = true;
            }
        }
        self.reap();
    }

    /// Whether there was one.
    fn take_command(&mut self) -> bool {
        let Some(command) = self.early.pop_front().or_else(|| self.receive()) else { return false };
        match command {
            Command::MakePad { pad, fill } => self.make_pad(pad, fill),
            Command::Release { pad, ticket, running, failed, fill } => {
                let draining = Draining { ticket, awaited: failed, fill, ..Draining::default() };
                self.release(pad, &running, draining);
            }
            Command::Destroy { pad, ticket, fill } => {
                let everything = true;
                self.drain(pad, Draining { ticket, everything, fill, ..Draining::default() });
            }
            Command::Kill { pad, pls, signal } => self.kill(pad, &pls, signal),
            Command::Place { id, spec } => self.place(id, &spec),
            Command::Lease { pads, until } => self.hold_leases(&pads, until),
            Command::Ping => self.report(&Report::Pong, &[]),
            // The NM is this same program: a second set-up is a bug there, and a keeper that guesses would
            // make it worse.
            Command::Setup(_) => self.ended = true,
        }
        true
    }

    /// The next command, if there is one; none will come when the NM is gone, or says what does not decode.
    fn receive(&mut self) -> Option<Command> {
        let received = match self.control.receive(&mut self.buffer, Wait::No) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
            received => received.ok().filter(|received| received.len > 0),
        };
        let command = received.and_then(|it| protocol::decode(&self.buffer[..it.len]).ok());
        self.ended |= command.is_none();
        command
    }

    fn make_pad(&mut self, id: PadId, pls: u16) {
        if self.node.is_none() && self.kind == Kind::Node {
            return self.make_pad_keeper(id, pls);
        }
        let cgroup = match &self.node {
            None => None,
            Some(node) => match PadCgroup::create(&node.pad_path(id)) {
                Ok(cgroup) => Some(cgroup),
                Err(error) => return self.failed(id, PadStep::Cgroup, Errno::of(&error)),
            },
        };
        self.pads.insert(id, Pad::new(id, cgroup, self.capacity));
        self.fill(id, pls, Vec::new());
    }

    /// Forks the keeper of one pad. It gets its own control socket to the NM.
    fn make_pad_keeper(&mut self, id: PadId, pls: u16) {
        let (ours, theirs) = match Seqpacket::pair() {
            Ok(pair) => pair,
            Err(error) => return self.failed(id, PadStep::Streams, Errno::of(&error)),
        };
        let parent = nix::unistd::getpid();
        // SAFETY: the keeper has one thread.
        match unsafe { sys::fork_into(None) } {
            Ok(Forked::Child) => {
                run_pad_keeper(theirs.into(), parent, self.capacity, (id, pls));
                sys::exit_now(0)
            }
            Ok(Forked::Parent(pid)) => {
                self.children.insert(pid.0, Child::PadKeeper);
                self.report(&Report::PadKeeper { pad: id, pid }, &[&ours.into()]);
            }
            Err(error) => self.failed(id, PadStep::Fork, Errno::of(&error)),
        }
    }

    /// Makes the PLs that the pad lacks to have so many. The NM hears of several at once, after what is
    /// `untold`: it is woken once and not between any two forks.
    fn fill(&mut self, id: PadId, pls: u16, mut untold: Vec<News>) {
        for index in 0..self.capacity {
            let Some(pad) = self.pads.get_mut(&id) else { break };
            let pl = PlIndex(index);
            if pad.process(pl).is_some() {
                continue;
            }
            if pad.pls.iter().flatten().count() >= usize::from(pls) {
                break;
            }
            match make_pl(pad.cgroup.as_ref().map(PadCgroup::directory)) {
                Ok(NewPl { pid, ends }) => {
                    pad.pls[usize::from(index)] = Some(pid);
                    self.children.insert(pid.0, Child::Pl(id, pl));
                    untold.push((Report::PlReady { pad: id, pl, pid }, Some(ends)));
                }
                Err((step, errno)) => {
                    self.tell(&mut untold);
                    return self.failed(id, step, errno);
                }
            }
            if untold.len() >= UNTOLD_MAX {
                self.tell(&mut untold);
            }
        }
        self.tell(&mut untold);
    }

    /// The job is over: what is left of it goes, then the pad is filled again, or stays as it is.
    fn release(&mut self, id: PadId, running: &[PlIndex], mut draining: Draining) {
        // Another try for a pad that could not be made.
        let Some(pad) = self.pads.get(&id) else {
            self.report(&Report::PadClean { pad: id, ticket: draining.ticket }, &[]);
            return self.make_pad(id, draining.fill);
        };
        draining.everything = running.iter().any(|&pl| pad.process(pl).is_some());
        self.drain(id, draining);
    }

    fn drain(&mut self, id: PadId, mut draining: Draining) {
        self.leases.forget(id);
        let Some(pad) = self.pads.get_mut(&id) else { return };
        if let Some(former) = &pad.draining {
            draining.everything |= former.everything;
            draining.fill = draining.fill.max(former.fill);
        }
        if draining.everything {
            pad.kill_everything();
        }
        pad.draining = Some(draining);
    }

    fn look_at_pads(&mut self) {
        let draining: Vec<PadId> =
            self.pads.values().filter(|pad| pad.draining.is_some()).map(|pad| pad.id).collect();
        for id in draining {
            // Deaths that the look depends on may have come since the last signal.
            self.reap();
            self.tell_exits();
            if self.holds_exit_of(id) {
                continue;
            }
            let Some(pad) = self.pads.get_mut(&id) else { continue };
            if let Some(Clean { ticket, fill }) = pad.look() {
                match pad.cgroup.as_ref().map_or(Ok(()), PadCgroup::thaw) {
                    Ok(()) => {
                        self.fill(id, fill, vec![(Report::PadClean { pad: id, ticket }, None)]);
                    }
                    Err(error) => self.failed(id, PadStep::Thaw, Errno::of(&error)),
                }
            } else if pad.looks() == LOOKS_BEFORE_STUCK {
                let mut processes = pad.strays().unwrap_or_default();
                processes.extend(pad.pls.iter().flatten());
                processes.truncate(STUCK_NAMED_MAX);
                self.report(&Report::PadStuck { pad: id, processes }, &[]);
            }
        }
    }

    fn kill(&self, id: PadId, pls: &[PlIndex], signal: i32) {
        let Some(pad) = self.pads.get(&id) else { return };
        for pid in pls.iter().filter_map(|&pl| pad.process(pl)) {
            // The process is an unreaped child and leads its group, so the number cannot name
            // anything else; that the group is already empty is no failure.
            // SAFETY: kill takes two integers.
            unsafe { libc::kill(-pid.0, signal) };
        }
    }

    fn place(&mut self, id: PlaceId, spec: &PlaceSpec) {
        let parent = ProcessId(nix::unistd::getpid().as_raw());
        // SAFETY: the keeper has one thread.
        match unsafe { sys::fork_into(None) } {
            Ok(Forked::Child) => {
                // With the lock of the node's cgroup, which must not outlive the keeper.
                let _ = sys::close_from(CONTROL_DESCRIPTOR + 1);
                let result = place(spec);
                let orphan = nix::unistd::getppid().as_raw() != parent.0;
                let report = Report::Placed { id, result };
                let sent = protocol::send(&self.control, &report, &[], Wait::Block);
                sys::exit_now(i32::from(orphan || sent.is_err()))
            }
            Ok(Forked::Parent(pid)) => drop(self.children.insert(pid.0, Child::Place(id))),
            Err(error) => {
                let failure = PlaceFailure { step: PlaceStep::Start, errno: Errno::of(&error) };
                self.report(&Report::Placed { id, result: Err(failure) }, &[]);
            }
        }
    }

    /// A process that placed a file has ended; it has told of its success itself.
    fn place_ended(&mut self, id: PlaceId, status: ExitStatus) {
        if !status.success() {
            let failure = PlaceFailure { step: PlaceStep::Killed, errno: Errno(libc::ECANCELED) };
            self.report(&Report::Placed { id, result: Err(failure) }, &[]);
        }
    }

    /// After the death of a pad's keeper, what it kept is this keeper's by descent.
    fn look_for_orphans(&mut self) {
        if !self.orphans {
            return;
        }
        self.reap();
        let own = ProcessId(nix::unistd::getpid().as_raw());
        let orphans: Vec<ProcessId> = process_tree::children(own)
            .into_iter()
            .filter(|pid| !self.children.contains_key(&pid.0))
            .collect();
        for &orphan in &orphans {
            process_tree::kill_descendants(orphan, &[]);
            // SAFETY: kill takes two integers; the process is an unreaped child of this one.
            unsafe { libc::kill(orphan.0, libc::SIGKILL) };
        }
        self.orphans = !orphans.is_empty();
    }

    /// Takes everything along.
    fn end(&mut self) {
        if let Some(node) = &self.node {
            // What cannot be killed within the bound stays behind and is found at the next start.
            let _ = kill_and_remove(node.path());
        }
        let own = ProcessId(nix::unistd::getpid().as_raw());
        for _ in 0..LAST_LOOKS_MAX {
            self.reap();
            let left = process_tree::kill_descendants(own, &[]);
            if left == 0 {
                return;
            }
            let mut sources = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            let _ = poll(&mut sources, PollTimeout::from(LOOK_AGAIN_MS));
            while let Ok(Some(_)) = self.signals.read_signal() {}
        }
    }
}

fn run_pad_keeper(
    control: OwnedFd,
    parent: nix::unistd::Pid,
    capacity: u16,
    (id, pls): (PadId, u16),
) {
    let Ok(control) = settle(control) else { return };
    let Ok(mut keeper) = KeeperProcess::new(control, capacity, None, Kind::OnePad) else { return };
    let followed = sys::set_parent_death_signal(PARENT_GONE as i32);
    if followed.is_err() || nix::unistd::getppid() != parent {
        return;
    }
    keeper.make_pad(id, pls);
    keeper.run();
}

/// The node's cgroup, or why there is none.
type Claim = (Option<NodeCgroup>, Result<std::path::PathBuf, CgroupUnusable>);

fn claim_node(setup: &Setup, control: &Seqpacket) -> Result<Claim, Refusal> {
    if setup.signals_only {
        return Ok((None, Err(CgroupUnusable::SwitchedOff)));
    }
    let parent = match &setup.cgroup_parent {
        Some(parent) => Ok(parent.clone()),
        None => own_directory(),
    };
    let parent = match parent {
        Ok(parent) => parent,
        Err(why) => return Ok((None, Err(why))),
    };
    // It says nothing before it is told of the start: what can be read is its end.
    let is_there = || {
        let mut end = [PollFd::new(control.as_fd(), PollFlags::POLLIN)];
        poll(&mut end, PollTimeout::ZERO).unwrap_or(0) == 0
    };
    match NodeCgroup::claim(&parent, &setup.name, is_there) {
        Ok(node) => {
            let path = node.path().to_owned();
            Ok((Some(node), Ok(path)))
        }
        Err(NodeCgroupError::Unusable(why)) => Ok((None, Err(why))),
        Err(NodeCgroupError::Refused(what)) => Err(what),
    }
}
