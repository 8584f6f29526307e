//! A keeper whose NM is gone. The keeper keeps the jobs for a bounded time, in which the next NM
//! may take them over (`docs/decisions/0130-a-node-managers-jobs-outlive-it.md`). Without cgroup
//! v2, the keepers of pads keep the jobs. The node's keeper has the door, and enforces the bound.

use super::{KeeperProcess, Kind, LOOK_AGAIN_MS};
use crate::cgroup::CgroupUnusable;
use crate::host_time::HostTime;
use crate::ids::{PadId, PlIndex};
use crate::keeper::door::{Door, Greeting};
use crate::keeper::kept::{Keeps, KeptId, KeptJob, KeptRank, Survival};
use crate::keeper::pad::Draining;
use crate::protocol::{self, Command, KEEPER_VERSION, Report};
use crate::seqpacket::{Seqpacket, Wait};
use nix::poll::{PollTimeout, poll};
use serde::Serialize;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

/// Node Managers of another version that wait for the end of this keeper.
const STRANGERS_MAX: usize = 8;
/// How often the handover of descriptors is tried (some 2 s).
const HANDOVER_TRIES_MAX: u32 = 1_000;

/// How a keeper survives its NM.
pub(super) struct Survivor {
    pub(super) door: Door,
    bound: Duration,
    /// The node's cgroup directory, or why there is none, for the next NM.
    cgroup: Result<PathBuf, CgroupUnusable>,
    /// The end of the bounded time; `None` while there is an NM.
    until: Option<HostTime>,
    /// Connections of Node Managers of another version. The end of a connection shows them that
    /// this keeper has ended.
    strangers: Vec<Seqpacket>,
}

impl Survivor {
    pub(super) fn open(
        survival: &Survival,
        cgroup: Result<PathBuf, CgroupUnusable>,
    ) -> io::Result<Self> {
        let (door, bound) = (Door::open(&survival.door)?, survival.bound);
        Ok(Self { door, bound, cgroup, until: None, strangers: Vec::new() })
    }
}

impl KeeperProcess {
    /// Whether there is no NM, and a next NM may arrive.
    pub(super) fn is_orphan(&self) -> bool {
        self.orphaned || self.is_at_door()
    }

    /// Whether the keeper waits for the next NM at its door. The keeper of a pad has no door. The
    /// node's keeper informs it of the next NM.
    pub(super) fn is_at_door(&self) -> bool {
        self.survivor.as_ref().is_some_and(|survivor| survivor.until.is_some())
    }

    fn keeps_nothing(&self) -> bool {
        self.kept.0.is_empty() && self.pad_keepers.is_empty()
    }

    /// Handles the loss of the NM: the keeper keeps the jobs that were left with it, or else ends.
    pub(super) fn lose_nm(&mut self) {
        let Some(survivor) = self.survivor.as_ref().filter(|_| !self.asked_to_end) else {
            self.ended = true;
            return;
        };
        if survivor.until.is_some() || self.hears_last {
            return;
        }
        // The last commands of the NM are still valid, for example about a rank that it left or an
        // input that it closed. A connection reset is reported before the data that was sent ahead
        // of it.
        self.hears_last = true;
        while !self.ended && self.take_command() {}
        self.hears_last = false;
        if self.keeps_nothing() {
            self.ended = true;
            return;
        }
        if let Some(survivor) = &mut self.survivor {
            let bound = survivor.bound;
            survivor.until = Some(HostTime(HostTime::now().0.saturating_add(bound)));
        }
        self.orphan_pad_keepers();
        self.let_go_of_idle();
    }

    /// Handles the report from the node's keeper that the NM is gone.
    pub(super) fn orphan(&mut self) {
        self.hears_last = false;
        if self.kept.0.is_empty() || self.asked_to_end {
            self.ended = true;
            return;
        }
        // The socket of the next NM may arrive at any time.
        (self.orphaned, self.spare) = (true, None);
        self.let_go_of_idle();
    }

    /// Ends the pads that have no kept job.
    fn let_go_of_idle(&mut self) {
        let idle: Vec<PadId> =
            self.pads.keys().copied().filter(|pad| self.kept.on(*pad).next().is_none()).collect();
        self.forget_waiting();
        idle.into_iter().for_each(|pad| self.discard(pad));
    }

    /// Kills everything in a pad, and removes it.
    pub(super) fn discard(&mut self, pad: PadId) {
        let (everything, discarded) = (true, true);
        self.drain(pad, Draining { everything, discarded, ..Draining::default() });
    }

    /// Forgets PLs that wait for a launch. Such PLs end with the NM, which holds their sockets. A
    /// killed rank may not be reaped yet. Such a rank is not forgotten, because the next NM waits
    /// for its end.
    fn forget_waiting(&mut self) {
        let ranks = self.kept.running();
        for pad in self.pads.values_mut() {
            for pl in &mut pad.pls {
                if let Some(waiting) = pl.take_if(|pid| !ranks.contains(pid)) {
                    self.children.remove(&waiting.0);
                }
            }
        }
    }

    /// How long the keeper still waits for the next NM.
    pub(super) fn orphan_timeout(&self) -> Option<Duration> {
        let until = self.survivor.as_ref()?.until?;
        Some(until.0.saturating_sub(HostTime::now().0))
    }

    /// Ends an orphaned keeper when its time is over or no kept job is left.
    pub(super) fn look_at_bound(&mut self) {
        let over = self.orphan_timeout().is_some_and(|left| left.is_zero());
        let is_done = over || self.asked_to_end || self.keeps_nothing() || self.is_in_the_way();
        if self.is_orphan() && is_done {
            self.ended = true;
        }
    }

    /// Whether all ranks have ended, and a Node Manager waits that can take nothing over.
    fn is_in_the_way(&self) -> bool {
        let Some(survivor) = &self.survivor else { return false };
        let mut ranks = self.kept.0.values().flat_map(|job| job.ranks.values());
        self.pad_keepers.is_empty()
            && survivor.strangers.iter().any(is_open)
            && ranks.all(|rank| rank.ended.is_some())
    }

    /// Reserves a descriptor for the socket of the next NM, while there is room for it: ranks may
    /// take all others.
    fn reserve(&mut self) {
        if self.spare.is_none() {
            self.spare = self.control.as_fd().try_clone_to_owned().ok();
        }
    }

    /// Keeps a job, or further ranks of a kept job.
    pub(super) fn keep(
        &mut self,
        (job, pad): (KeptId, PadId),
        files: u8,
        ranks: Vec<(PlIndex, Keeps)>,
        descriptors: Vec<OwnedFd>,
    ) {
        let Some(of_pad) = self.pads.get(&pad) else { return };
        // A rank may end before this command is read. If the rank's process dies before its launch,
        // the launch fails.
        let known = |(pl, keeps): (PlIndex, Keeps)| Some((pl, keeps, of_pad.last_process(pl)?));
        let pls: Vec<PlIndex> = ranks.iter().map(|(pl, _)| *pl).collect();
        let ranks: Option<Vec<_>> = ranks.into_iter().map(known).collect();
        let Some(ranks) = ranks else { return drop(self.kept.0.remove(&job)) };
        let told = pls.into_iter().filter_map(|pl| of_pad.ends.get(&pl)).copied();
        let told: Vec<_> = told.filter_map(|(pid, end)| Some((pid, end?))).collect();
        self.reserve();
        if !self.kept.keep(job, pad, usize::from(files), ranks, descriptors) {
            self.report(&Report::NotKept { job }, &[]);
        }
        for (pid, (status, usage)) in told {
            self.kept.ended(pid, status, usage);
        }
    }

    /// Reads ahead for commands to keep a rank. The NM sends them before the launch, so they may
    /// wait unread when the rank ends. Any other command has its turn later.
    pub(super) fn hear_of_kept(&mut self) {
        let keeps = self.survivor.is_some() || self.kind == Kind::OnePad;
        while keeps && self.may_read_ahead() {
            match self.receive() {
                Some((Command::Keep { job, pad, files, ranks }, came)) => {
                    self.keep((job, pad), files, ranks, came);
                }
                Some((command, came)) => self.put_off(command, came),
                None => return,
            }
        }
    }

    /// Handles a connection at the door.
    pub(super) fn answer_door(&mut self) {
        let Some(survivor) = &mut self.survivor else { return };
        self.spare = None;
        let Some((socket, greeting)) = survivor.door.admit() else { return self.reserve() };
        if Greeting::own().send(&socket).is_err() {
            return;
        }
        if greeting.version != KEEPER_VERSION || survivor.until.is_none() {
            if survivor.strangers.len() < STRANGERS_MAX {
                survivor.strangers.push(socket);
            }
            return;
        }
        self.adopt_pad_keepers();
        match self.hand_over(&socket).and_then(|()| self.hand_over_pad_keepers(&socket)) {
            Ok(()) => {
                self.control = socket;
                if let Some(survivor) = &mut self.survivor {
                    survivor.until = None;
                }
                self.reserve();
            }
            Err(_) => self.orphan_pad_keepers(),
        }
    }

    /// Forgets a job that is over and whose end has been reported.
    pub(super) fn forget_kept(&mut self, job: KeptId) {
        self.kept.0.remove(&job);
        // If a pad was given back while there was no NM, its keeper has nothing left to do.
        let is_vacant = self.pads.is_empty() && self.kept.0.is_empty();
        self.ended |= self.kind == Kind::OnePad && is_vacant;
    }

    /// Describes all kept jobs to the next NM.
    fn hand_over(&self, to: &Seqpacket) -> io::Result<()> {
        tell(to, &self.inheritance(), &[], Wait::Block)?;
        for (job, of_job) in &self.kept.0 {
            tell(to, &of_job.report(*job), &borrowed(&of_job.files), Wait::Block)?;
            for (pl, rank) in &of_job.ranks {
                tell(to, &rank.report(*pl), &borrowed(&rank.ends), Wait::Block)?;
            }
        }
        Ok(())
    }

    fn inheritance(&self) -> Report {
        let cgroup = self.survivor.as_ref().map(|survivor| survivor.cgroup.clone());
        let cgroup = cgroup.unwrap_or(Err(CgroupUnusable::SwitchedOff));
        let of_jobs = self.kept.0.values().map(|job| job.pad);
        let pads = self.pads.keys().chain(self.pad_keepers.keys()).copied().chain(of_jobs);
        let next_pad = PadId(pads.map(|pad| pad.0.saturating_add(1)).max().unwrap_or(0));
        let (jobs, pad_keepers) = (count(self.kept.0.len()), count(self.pad_keepers.len()));
        Report::Inheritance { cgroup, capacity: self.sizes.capacity, next_pad, jobs, pad_keepers }
    }

    /// Describes to the next NM what this keeper of a pad keeps. The calls do not block: an NM that
    /// does not read must not delay the end of a lease.
    pub(super) fn adopt(&mut self, came: Vec<OwnedFd>) {
        let Some(socket) = came.into_iter().next() else {
            // Without a socket, no NM can reach this keeper.
            self.ended = true;
            return;
        };
        (self.control, self.orphaned) = (socket.into(), false);
        self.reserve();
        self.send(&Report::InheritedPad { jobs: count(self.kept.0.len()) }, &[]);
        for job in self.kept.0.keys().copied().collect::<Vec<_>>() {
            let Some(of_job) = self.kept.0.get_mut(&job) else { continue };
            let ranks: Vec<PlIndex> = of_job.ranks.keys().copied().collect();
            let (report, files) = (of_job.report(job), std::mem::take(&mut of_job.files));
            self.send(&report, &files.iter().collect::<Vec<_>>());
            if let Some(of_job) = self.kept.0.get_mut(&job) {
                of_job.files = files;
            }
            for pl in ranks {
                let Some(rank) = self.kept_rank(job, pl) else { continue };
                let (report, ends) = (rank.report(pl), std::mem::take(&mut rank.ends));
                self.send(&report, &ends.iter().collect::<Vec<_>>());
                if let Some(rank) = self.kept_rank(job, pl) {
                    rank.ends = ends;
                }
            }
        }
    }

    pub(super) fn kept_rank(&mut self, job: KeptId, pl: PlIndex) -> Option<&mut KeptRank> {
        self.kept.0.get_mut(&job)?.ranks.get_mut(&pl)
    }
}

impl KeptJob {
    fn report(&self, job: KeptId) -> Report {
        let Self { pad, given_back, lease_over, is_short, .. } = *self;
        let ranks = count(self.ranks.len());
        Report::InheritedJob { job, pad, given_back, lease_over, is_short, ranks }
    }
}

impl KeptRank {
    fn report(&self, pl: PlIndex) -> Report {
        let Self { pid, keeps, ended, .. } = *self;
        Report::InheritedRank { pl, pid, keeps, ended }
    }
}

/// Whether the other end is there.
fn is_open(socket: &Seqpacket) -> bool {
    matches!(socket.peek(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

fn count(things: usize) -> u32 {
    u32::try_from(things).unwrap_or(u32::MAX)
}

fn borrowed(descriptors: &[OwnedFd]) -> Vec<BorrowedFd<'_>> {
    descriptors.iter().map(AsFd::as_fd).collect()
}

/// Sends a message, and waits while too many descriptors of this user are on their way.
pub(super) fn tell<T: Serialize>(
    to: &Seqpacket,
    message: &T,
    descriptors: &[BorrowedFd<'_>],
    wait: Wait,
) -> io::Result<()> {
    let mut tries = 0;
    loop {
        match protocol::send(to, message, descriptors, wait) {
            // The receivers of those descriptors must take some first.
            Err(error)
                if error.raw_os_error() == Some(libc::ETOOMANYREFS)
                    && tries < HANDOVER_TRIES_MAX =>
            {
                let _ = poll(&mut [], PollTimeout::from(LOOK_AGAIN_MS));
                tries += 1;
            }
            told => return told,
        }
    }
}
