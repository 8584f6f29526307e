//! The keeper's event loop: commands from the NM, deaths of children, pads becoming clean.
//!
//! The keeper has one thread and blocks whenever nothing happens. The keeper ends when the NM sends
//! the command. The keeper also ends when the NM is gone and no next NM takes over a kept job. The
//! keeper's processes then die.

mod exits;
mod leases;
mod orphan;
mod output;
mod pad_keeper;
mod reports;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;

use self::exits::HeldExit;
use crate::cgroup::{NodeCgroup, PadCgroup, kill_and_remove};
use crate::descriptors::DescriptorLimit;
use crate::exit::ExitStatus;
use crate::ids::{Errno, PadId, PlIndex, PlaceId, ProcessId};
use crate::keeper::claim::claim_node;
use crate::keeper::fill::{NewPl, make_pl};
use crate::keeper::kept::KeptJobs;
use crate::keeper::leases::Leases;
use crate::keeper::memory;
use crate::keeper::pad::{Clean, Draining, Pad};
use crate::keeper::place::{PlaceFailure, PlaceSpec, PlaceStep, place};
use crate::keeper::process_state::{CONTROL_DESCRIPTOR, PARENT_GONE, settle, watch_signals};
use crate::process_tree;
use crate::protocol::{self, Command, MESSAGE_MAX_BYTES, PadStep, Report};
use crate::seqpacket::{Seqpacket, Wait};
use crate::sys::{self, Forked};
use crate::title::set_title;
use orphan::Survivor;
use pad_keeper::PadKeeper;

/// How soon a draining pad is checked again. Deaths wake the keeper anyway. The timer is for
/// processes that leave their cgroup a moment after the death of their parent was reported.
const LOOK_AGAIN_MS: u16 = 2;
/// After this many checks (some 10 s), the keeper reports to the NM that a pad does not become
/// clean.
const LOOKS_BEFORE_STUCK: u32 = 5_000;
/// The most processes that this report names.
const STUCK_NAMED_MAX: usize = 16;
/// How many reports may wait to be sent together, each with the socket of a PL.
const UNTOLD_MAX: usize = 5;
/// How often an ending keeper checks (some 4 s) before it leaves processes that it cannot kill.
const LAST_LOOKS_MAX: u32 = 2_000;
/// How many of these checks spare the processes that write files.
const WRITERS_LOOKS_MAX: u32 = 1_000;

/// Runs a keeper on `control`, for as long as [`crate::KeeperConfig`] permits.
pub(crate) fn run_keeper(control: OwnedFd) {
    let Ok(control) = settle(control) else { return };
    let mut buffer = vec![0; MESSAGE_MAX_BYTES];
    let Ok(received) = control.receive(&mut buffer, Wait::Block) else { return };
    let Ok(Command::Setup(setup)) = protocol::decode(&buffer[..received.len]) else { return };
    // A stopped keeper resumes when its NM dies, to end ranks that may run elsewhere by now.
    let _ = sys::set_parent_death_signal(libc::SIGCONT);
    // Separates the jobs from the session and the terminal of the NM. The call fails only for the
    // leader of a process group, and a fresh child never leads one.
    let _ = nix::unistd::setsid();
    set_title(&format!("storm: keeper {}", setup.node));
    let (node, cgroup) = match claim_node(&setup, &control) {
        Ok(claim) => claim,
        Err(what) => {
            let _ = protocol::send(&control, &Report::Refused { what }, &[], Wait::Block);
            return;
        }
    };
    // A keeper without a door cannot be found, so it ends with its NM.
    let survivor =
        setup.survival.and_then(|survival| Survivor::open(&survival, cgroup.clone()).ok());
    let started = Report::Started { cgroup, survives: survivor.is_some() };
    if protocol::send(&control, &started, &[], Wait::Block).is_err() {
        // The NM died before it knew of the cgroup, and no other process knows of it.
        if let Some(node) = &node {
            let _ = kill_and_remove(node.path());
        }
        return;
    }
    // The limit of each PL and its program, unless the job has its own.
    let descriptors_max = DescriptorLimit::of_this_process().0;
    // If the limit cannot be raised, the keeper serves as many pads as it can.
    let _ = DescriptorLimit::raise();
    let sizes = Sizes { capacity: setup.capacity, descriptors_max };
    match KeeperProcess::new(control, sizes, node, (Kind::Node, setup.node)) {
        Ok(mut keeper) => {
            keeper.survivor = survivor;
            keeper.run();
            // Done before the node is released, because the next keeper waits for the release.
            if let Some(leftovers) = setup.leftovers {
                leftovers.remove();
            }
        }
        Err(_) => sys::exit_now(1),
    }
}

/// The pads that a keeper is responsible for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The pads of a node.
    Node,
    /// One pad, on a node without cgroup v2. The keeper is the nearest subreaper of every process
    /// of the pad, so all of them are its descendants.
    OnePad,
}

/// The purpose of a child of the keeper.
#[derive(Clone, Copy)]
enum Child {
    Pl(PadId, PlIndex),
    Place(PlaceId),
    PadKeeper(PadId),
    /// Writes the shared files of a job.
    FilesWriter,
}

/// Sizes that all pads of a node have in common.
#[derive(Clone, Copy)]
struct Sizes {
    /// PLs in each.
    capacity: u16,
    /// Descriptors that each PL may have open.
    descriptors_max: u64,
}

/// A report, and a descriptor to send with it.
type News = (Report, Option<OwnedFd>);

struct KeeperProcess {
    control: Seqpacket,
    signals: SignalFd,
    sizes: Sizes,
    node: Option<NodeCgroup>,
    kind: Kind,
    pads: BTreeMap<PadId, Pad>,
    leases: Leases,
    /// Pads with an expired lease that was not reported to the NM yet.
    leases_over: Vec<PadId>,
    children: HashMap<i32, Child>,
    /// Ends of PLs that were not reported to the NM yet.
    exits: Vec<HeldExit>,
    buffer: Vec<u8>,
    /// Commands that were read before their turn.
    early: VecDeque<(Command, Vec<OwnedFd>)>,
    /// Set when a pad's keeper died: the orphans of its pad must be found and killed.
    orphans: bool,
    /// Jobs that are kept for the next NM.
    kept: KeptJobs,
    /// How this process continues without an NM, if it does.
    survivor: Option<Survivor>,
    /// Room for the socket of the next NM.
    spare: Option<OwnedFd>,
    /// The keepers of pads that continue without an NM, as this keeper does.
    pad_keepers: BTreeMap<PadId, PadKeeper>,
    /// Set in the keeper of a pad when the node's keeper has reported the loss of the NM.
    orphaned: bool,
    /// Set while the last commands of a dead NM are read.
    hears_last: bool,
    /// Set by SIGTERM: the keeper ends as soon as there is no NM.
    asked_to_end: bool,
    /// The name of the node, for titles.
    name: String,
    /// The event loop is over.
    ended: bool,
}

impl KeeperProcess {
    fn new(
        control: Seqpacket,
        sizes: Sizes,
        node: Option<NodeCgroup>,
        (kind, name): (Kind, String),
    ) -> Result<Self, Errno> {
        memory::give_back();
        sys::become_subreaper()?;
        Ok(Self {
            control,
            signals: watch_signals()?,
            sizes,
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
            kept: KeptJobs::default(),
            survivor: None,
            spare: None,
            pad_keepers: BTreeMap::new(),
            orphaned: false,
            hears_last: false,
            asked_to_end: false,
            name,
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
                false => self.next_look(),
            };
            let is_at_door = self.is_at_door();
            let door = self.survivor.as_ref().map(|survivor| survivor.door.as_fd());
            let heard = door.filter(|_| is_at_door).unwrap_or(self.control.as_fd());
            let mut sources = [
                PollFd::new(heard, PollFlags::POLLIN),
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            ];
            // Both sources are read without blocking, so an interruption does no harm.
            let _ = poll(&mut sources, timeout);
            let [commanded, signalled] = sources.map(|source| source.any().unwrap_or(false));
            if signalled {
                self.take_signals();
            }
            match is_at_door {
                true if commanded => self.answer_door(),
                true => {}
                false if commanded || !self.early.is_empty() => drop(self.take_command()),
                false => {}
            }
            self.look_at_bound();
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
            self.asked_to_end |= signal.ssi_signo == Signal::SIGTERM as u32;
        }
        self.reap();
    }

    /// Executes one command. Returns false if there was none.
    fn take_command(&mut self) -> bool {
        let next = self.early.pop_front().or_else(|| self.receive());
        let Some((command, came)) = next else { return false };
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
            Command::Discard { pad } if self.pad_keepers.remove(&pad).is_some() => {}
            Command::Discard { pad } => self.discard(pad),
            Command::Kill { pad, pls, signal, groups } => self.kill(pad, &pls, signal, groups),
            Command::Place { id, spec } => self.place(id, &spec),
            Command::WriteFiles { spec } => self.write_files(&spec, came),
            Command::Lease { pads, until } => self.hold_leases(&pads, until),
            Command::Keep { job, pad, files, ranks } => self.keep((job, pad), files, ranks, came),
            Command::CloseInput { job, pl } => {
                self.kept_rank(job, pl).into_iter().for_each(|rank| rank.close_input());
            }
            Command::Forget { job } => self.forget_kept(job),
            Command::Orphan => self.orphan(),
            Command::Adopt => self.adopt(came),
            Command::End => self.ended = true,
            Command::Ping => self.report(&Report::Pong, &[]),
            // A second set-up is a bug of the NM, and no guess would be safe.
            Command::Setup(_) => self.ended = true,
        }
        true
    }

    /// The next command and its descriptors, if any. Handles a lost NM and a malformed command.
    fn receive(&mut self) -> Option<(Command, Vec<OwnedFd>)> {
        let received = match self.control.receive(&mut self.buffer, Wait::No) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
            Ok(received) if received.len > 0 => received,
            Ok(_) | Err(_) => {
                self.lose_nm();
                return None;
            }
        };
        let command = protocol::decode(&self.buffer[..received.len]).ok();
        self.ended |= command.is_none();
        Some((command?, received.descriptors))
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
        self.pads.insert(id, Pad::new(id, cgroup, self.sizes.capacity));
        self.fill(id, pls, Vec::new());
    }

    /// Makes PLs until the pad has `pls`. Reports several at once to the NM, after the `untold`
    /// reports. The NM thus wakes once, and not between two forks.
    fn fill(&mut self, id: PadId, pls: u16, mut untold: Vec<News>) {
        for index in 0..self.sizes.capacity {
            let Some(pad) = self.pads.get_mut(&id) else { break };
            let pl = PlIndex(index);
            if pad.process(pl).is_some() {
                continue;
            }
            if pad.pls.iter().flatten().count() >= usize::from(pls) {
                break;
            }
            let cgroup = pad.cgroup.as_ref().map(PadCgroup::directory);
            match make_pl(cgroup, self.sizes.descriptors_max, &self.name) {
                Ok(NewPl { pid, command }) => {
                    pad.set_process(pl, pid);
                    self.children.insert(pid.0, Child::Pl(id, pl));
                    untold.push((Report::PlReady { pad: id, pl, pid }, Some(command)));
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

    /// Removes the remains of a job that has ended, then fills the pad to `draining.fill` PLs.
    fn release(&mut self, id: PadId, running: &[PlIndex], mut draining: Draining) {
        // A pad that could not be made is tried again.
        let Some(pad) = self.pads.get(&id) else {
            self.report(&Report::PadClean { pad: id, ticket: draining.ticket }, &[]);
            return self.make_pad(id, draining.fill);
        };
        draining.everything = running.iter().any(|&pl| pad.process(pl).is_some());
        self.drain(id, draining);
    }

    fn drain(&mut self, id: PadId, mut draining: Draining) {
        self.leases.forget(id);
        self.kept.on(id).for_each(|job| job.given_back = true);
        let Some(pad) = self.pads.get_mut(&id) else { return };
        if let Some(former) = &pad.draining {
            draining.everything |= former.everything;
            draining.fill = draining.fill.max(former.fill);
            draining.discarded |= former.discarded;
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
            // More children may have died since the last signal.
            self.reap();
            self.tell_exits();
            if self.holds_exit_of(id) {
                continue;
            }
            let Some(pad) = self.pads.get_mut(&id) else { continue };
            if let Some(Clean { ticket, fill, discarded }) = pad.look() {
                if discarded {
                    self.remove(id);
                    continue;
                }
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

    /// Removes a clean pad that the NM has forgotten.
    fn remove(&mut self, id: PadId) {
        let pad = self.pads.remove(&id);
        // A directory that a process still holds is removed with the node's.
        if let Some(cgroup) = pad.and_then(|pad| pad.cgroup) {
            cgroup.remove();
        }
    }

    fn kill(&self, id: PadId, pls: &[PlIndex], signal: i32, groups: bool) {
        let Some(pad) = self.pads.get(&id) else { return };
        for pid in pls.iter().filter_map(|&pl| pad.process(pl)) {
            // The process is an unreaped child that leads its group, so the number cannot name
            // another process or group. An empty group is no failure.
            // SAFETY: kill takes two integers.
            unsafe { libc::kill(if groups { -pid.0 } else { pid.0 }, signal) };
        }
    }

    fn place(&mut self, id: PlaceId, spec: &PlaceSpec) {
        let parent = ProcessId(nix::unistd::getpid().as_raw());
        // SAFETY: the keeper has one thread.
        match unsafe { sys::fork_into(None) } {
            Ok(Forked::Child) => {
                // The lock of the node's cgroup, among others, must not outlive the keeper.
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

    /// Reports the end of a placement that failed. A process that succeeds reports by itself.
    fn place_ended(&mut self, id: PlaceId, status: ExitStatus) {
        if !status.success() {
            let failure = PlaceFailure { step: PlaceStep::Killed, errno: Errno(libc::ECANCELED) };
            self.report(&Report::Placed { id, result: Err(failure) }, &[]);
        }
    }

    /// Kills the processes that a dead keeper of a pad left. These processes are children of this
    /// keeper now.
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
            // SAFETY: kill takes two integers; the process is an unreaped child of this process.
            unsafe { libc::kill(orphan.0, libc::SIGKILL) };
        }
        self.orphans = !orphans.is_empty();
    }

    /// Kills every process and removes the node's cgroup.
    fn end(&mut self) {
        if let Some(node) = &self.node {
            // Processes that cannot be killed in time stay behind, and are found at the next start.
            let _ = kill_and_remove(node.path());
        }
        let own = ProcessId(nix::unistd::getpid().as_raw());
        for look in 0..LAST_LOOKS_MAX {
            self.reap();
            // Writers end by themselves once they have written the last output of the killed ranks.
            let spared = if look < WRITERS_LOOKS_MAX { self.files_writers() } else { Vec::new() };
            let left = process_tree::kill_descendants(own, &spared);
            if left == 0 && spared.is_empty() {
                return;
            }
            let mut sources = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            let _ = poll(&mut sources, PollTimeout::from(LOOK_AGAIN_MS));
            while let Ok(Some(_)) = self.signals.read_signal() {}
        }
    }
}
