//! A keeper whose NM is gone: it keeps what jobs there are for a bounded time, in which the next NM
//! may take them over (`docs/decisions/0130-a-node-managers-jobs-outlive-it.md`).

use super::{KeeperProcess, LOOK_AGAIN_MS};
use crate::host_time::HostTime;
use crate::ids::{PadId, PlIndex, ProcessId};
use crate::keeper::door::{Door, Greeting};
use crate::keeper::kept::{Keeps, KeptId, KeptJobs};
use crate::keeper::pad::Draining;
use crate::protocol::{self, KEEPER_VERSION, Report};
use crate::seqpacket::{Seqpacket, Wait};
use nix::poll::{PollTimeout, poll};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Node Managers of another version that wait for the end of this keeper.
const STRANGERS_MAX: usize = 8;
/// Tries (some 2 s) to hand over descriptors.
const HANDOVER_TRIES_MAX: u32 = 1_000;

/// How a keeper survives its NM.
pub(super) struct Survivor {
    pub(super) door: Door,
    bound: Duration,
    /// Until when it does; `None` while there is an NM.
    until: Option<HostTime>,
    /// They hear of the end by that of their connections.
    strangers: Vec<Seqpacket>,
}

impl Survivor {
    pub(super) fn new(door: Door, bound: Duration) -> Self {
        Self { door, bound, until: None, strangers: Vec::new() }
    }
}

impl KeeperProcess {
    /// Whether there is no NM, and one may come.
    pub(super) fn is_orphan(&self) -> bool {
        self.survivor.as_ref().is_some_and(|survivor| survivor.until.is_some())
    }

    /// The NM is gone. Where it left jobs they are kept; else this is the end.
    pub(super) fn lose_nm(&mut self) {
        let Some(survivor) = self.survivor.as_ref().filter(|_| !self.asked_to_end) else {
            self.ended = true;
            return;
        };
        if survivor.until.is_some() || self.hears_last {
            return;
        }
        // What the NM said before its end counts: a rank that it left here, an input that it closed.
        // A reset shows before what was sent ahead of it.
        self.hears_last = true;
        while !self.ended && self.take_command() {}
        self.hears_last = false;
        if self.kept.0.is_empty() {
            self.ended = true;
            return;
        }
        if let Some(survivor) = &mut self.survivor {
            let bound = survivor.bound;
            survivor.until = Some(HostTime(HostTime::now().0.saturating_add(bound)));
        }
        let idle: Vec<PadId> =
            self.pads.keys().copied().filter(|pad| self.kept.on(*pad).next().is_none()).collect();
        self.forget_waiting();
        for pad in idle {
            let (everything, discarded) = (true, true);
            self.drain(pad, Draining { everything, discarded, ..Draining::default() });
        }
    }

    /// PLs that wait for a launch end with the NM, whose sockets they have.
    fn forget_waiting(&mut self) {
        for pad in self.pads.values_mut() {
            let kept: Vec<ProcessId> = self
                .kept
                .on(pad.id)
                .flat_map(|job| job.ranks.values())
                .map(|rank| rank.pid)
                .collect();
            for pl in &mut pad.pls {
                if let Some(waiting) = pl.take_if(|pid| !kept.contains(pid)) {
                    self.children.remove(&waiting.0);
                }
            }
        }
    }

    /// How long there is nothing to do but to wait for the next NM.
    pub(super) fn orphan_timeout(&self) -> Option<Duration> {
        let until = self.survivor.as_ref()?.until?;
        Some(until.0.saturating_sub(HostTime::now().0))
    }

    /// The bound may be over, or nothing be left to be kept.
    pub(super) fn look_at_bound(&mut self) {
        let over = self.orphan_timeout().is_some_and(|left| left.is_zero());
        if self.is_orphan() && (over || self.asked_to_end || self.kept.0.is_empty()) {
            self.ended = true;
        }
    }

    /// Keeps a job, or more ranks of one.
    pub(super) fn keep(
        &mut self,
        (job, pad): (KeptId, PadId),
        files: u8,
        ranks: Vec<(PlIndex, Keeps)>,
        descriptors: Vec<OwnedFd>,
    ) {
        let Some(of_pad) = self.pads.get(&pad) else { return };
        let known = |(pl, keeps): (PlIndex, Keeps)| Some((pl, keeps, of_pad.process(pl)?));
        // One that has died before its launch makes the job's launch fail.
        let ranks: Option<Vec<_>> = ranks.into_iter().map(known).collect();
        match ranks {
            Some(ranks) => self.kept.keep(job, pad, usize::from(files), ranks, descriptors),
            None => drop(self.kept.0.remove(&job)),
        }
    }

    /// Somebody is at the door.
    pub(super) fn answer_door(&mut self) {
        let Some(survivor) = &mut self.survivor else { return };
        let Some((socket, greeting)) = survivor.door.admit() else { return };
        if Greeting::own().send(&socket).is_err() {
            return;
        }
        if greeting.version != KEEPER_VERSION || survivor.until.is_none() {
            if survivor.strangers.len() < STRANGERS_MAX {
                survivor.strangers.push(socket);
            }
            return;
        }
        if hand_over(&self.kept, self.inheritance(), &socket).is_ok() {
            self.control = socket;
            if let Some(survivor) = &mut self.survivor {
                survivor.until = None;
            }
        }
    }

    fn inheritance(&self) -> Report {
        let cgroup = self.node.as_ref().map(|node| node.path().to_owned()).unwrap_or_default();
        let last = self.pads.keys().next_back().map_or(0, |pad| pad.0.saturating_add(1));
        let of_jobs = self.kept.0.values().map(|job| job.pad.0.saturating_add(1)).max();
        let next_pad = PadId(last.max(of_jobs.unwrap_or(0)));
        let jobs = u32::try_from(self.kept.0.len()).unwrap_or(u32::MAX);
        Report::Inheritance { cgroup, capacity: self.sizes.capacity, next_pad, jobs }
    }
}

/// Tells the next NM what there is.
fn hand_over(kept: &KeptJobs, inheritance: Report, to: &Seqpacket) -> io::Result<()> {
    tell(to, &inheritance, &[])?;
    for (job, of_job) in &kept.0 {
        let ranks = u32::try_from(of_job.ranks.len()).unwrap_or(u32::MAX);
        let (pad, given_back, lease_over) = (of_job.pad, of_job.given_back, of_job.lease_over);
        let report = Report::InheritedJob { job: *job, pad, given_back, lease_over, ranks };
        tell(to, &report, &of_job.files)?;
        for (pl, rank) in &of_job.ranks {
            let (pl, pid, keeps, ended) = (*pl, rank.pid, rank.keeps, rank.ended);
            tell(to, &Report::InheritedRank { pl, pid, keeps, ended }, &rank.ends)?;
        }
    }
    Ok(())
}

fn tell(to: &Seqpacket, report: &Report, descriptors: &[OwnedFd]) -> io::Result<()> {
    let borrowed: Vec<_> = descriptors.iter().map(|fd| fd.as_fd()).collect();
    let mut tries = 0;
    loop {
        match protocol::send(to, report, &borrowed, Wait::Block) {
            // Too many descriptors of this user are on their way: the NM has to take some.
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
