//! Takes over the keeper of a former daemon of this node, with the jobs that it keeps.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::cgroup::{CgroupUnusable, MemoryControl};
use crate::descriptors::DescriptorLimit;
use crate::exit::{ExitStatus, Usage};
use crate::ids::{Errno, PadId, PlIndex, ProcessId};
use crate::keeper::door::{Greeting, knock};
use crate::keeper::{Keeps, KeptId};
use crate::launch_failure::LaunchFailure;
use crate::node::former::{Former, FormerPad, FormerPl, OwnKeeper};
use crate::node::keeper::cgroup_name;
use crate::node::{Keeper, KeeperConfig, PlEnds, StartError};
use crate::protocol::{self, KEEPER_VERSION, MESSAGE_MAX_BYTES, Report};
use crate::seqpacket::{Received, Seqpacket, Wait};
use crate::shortage::Shortage;
use crate::sys;

/// A keeper notices at once that its daemon is gone, and greets. On an overloaded host, it may wait
/// for a processor for seconds.
const GREETING_TIMEOUT_MS: u16 = 15_000;
/// The longest wait between two messages of a keeper that hands over.
const MESSAGE_TIMEOUT_MS: u16 = 5_000;
/// How often the wait for a keeper of another version is logged.
const STILL_WAITING: Duration = Duration::from_secs(60);
/// A launch failure is two small integers.
const FAILURE_MAX_BYTES: usize = 64;

/// A job that the former daemon left.
#[derive(Debug)]
pub struct InheritedJob {
    /// The former daemon's name of the job.
    pub job: KeptId,
    /// The pad of the job.
    pub pad: PadId,
    /// The job has given its pad back: its processes have been killed.
    pub given_back: bool,
    /// The job's lease has run out, and the job was ended.
    pub lease_over: bool,
    /// Its keeper lacked descriptors for its later ranks, of which nothing is left.
    pub is_short: bool,
    /// Files that the former daemon left for the next daemon.
    pub files: Vec<OwnedFd>,
    /// Its ranks.
    pub ranks: Vec<InheritedRank>,
}

impl InheritedJob {
    /// Whether the job may have processes in its pad. A job that has given its pad back has some
    /// until its killed ranks are reaped. Until then no other job gets the pad.
    #[must_use]
    pub fn has_processes(&self) -> bool {
        !self.given_back || self.ranks.iter().any(|rank| rank.ended.is_none())
    }
}

/// A rank of an inherited job.
#[derive(Debug)]
pub struct InheritedRank {
    /// Its PL in the pad.
    pub pl: PlIndex,
    /// Its process, which may have ended.
    pub pid: ProcessId,
    /// The outcome of its launch. While the outcome is unknown,
    /// [`Event::Launched`](crate::Event::Launched) or
    /// [`Event::LaunchFailed`](crate::Event::LaunchFailed) follows.
    pub launch: InheritedLaunch,
    /// Its kept streams: standard input while it is open, the others for good.
    pub ends: PlEnds,
    /// How it ended. If the rank has not ended, [`Event::Exited`](crate::Event::Exited) follows.
    pub ended: Option<(ExitStatus, Usage)>,
}

/// The outcome of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InheritedLaunch {
    /// The launch is under way, or was never reported.
    UnderWay,
    /// The application executes, or has executed.
    Executed,
    /// The application never executed.
    Failed(LaunchFailure),
}

impl Keeper {
    /// Takes over the keeper that a former daemon of this node has left, if there is one. A keeper
    /// of another version of this program cannot be taken over, so the call waits for its end.
    ///
    /// # Errors
    /// There is a keeper, but it does not hand over its jobs. The keeper ends the jobs when its
    /// time is over.
    pub fn take_over(
        config: &KeeperConfig,
    ) -> Result<Option<(Self, Vec<InheritedJob>)>, StartError> {
        let name = cgroup_name(config)?;
        let Some(survival) = &config.survival else { return Ok(None) };
        let Some(control) = knock(&survival.door).map_err(StartError::NotUp)? else {
            return Ok(None);
        };
        if let Err(errno) = DescriptorLimit::raise() {
            tracing::warn!(%errno, "the limit on open descriptors stays as it is");
        }
        let timeout = PollTimeout::from(GREETING_TIMEOUT_MS);
        let greeting = match Greeting::receive(&control, timeout) {
            Ok(greeting) => greeting,
            // The keeper had nothing to keep, and has just ended.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Ok(None),
            Err(error) => return Err(StartError::NotUp(error)),
        };
        if greeting.version != KEEPER_VERSION {
            await_end(&control, greeting, survival.bound);
            return Ok(None);
        }
        let taken = inherit(&control, config.capacity).map_err(|error| {
            let shortage = Shortage::of(Errno::of(&error));
            shortage.map_or(StartError::NotUp(error), StartError::TooMany)
        })?;
        let process = sys::open_process(greeting.pid);
        let process =
            process.map_err(|errno| StartError::NotUp(io::Error::from_raw_os_error(errno.0)))?;
        let (cgroup, next_pad, pads, jobs) = taken;
        let memory = MemoryControl::find(cgroup.as_deref().ok(), &name);
        let former = Some(Former { process, next_pad, pads });
        let (pid, capacity) = (greeting.pid, config.capacity);
        let keeper = Self { control, pid, capacity, cgroup, memory, survives: true, former };
        Ok(Some((keeper, jobs)))
    }
}

type Cgroup = Result<PathBuf, CgroupUnusable>;
type Taken = (Cgroup, PadId, Vec<FormerPad>, Vec<InheritedJob>);

fn inherit(control: &Seqpacket, offered: u16) -> io::Result<Taken> {
    let (report, _) = next(control)?;
    let Report::Inheritance { cgroup, capacity, next_pad, jobs, pad_keepers } = report else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    if capacity > offered {
        tracing::warn!(capacity, offered, "this node has fewer processing elements than before");
    }
    let (mut pads, mut inherited) = (Vec::new(), Vec::new());
    for _ in 0..jobs {
        let (job, pls) = inherit_job(control)?;
        if job.has_processes() {
            let is_vacant = job.given_back;
            pads.push(FormerPad { pad: job.pad, own: None, is_vacant, pls });
        }
        inherited.push(job);
    }
    for _ in 0..pad_keepers {
        let (report, received) = next(control)?;
        let Report::PadKeeper { pad, pid } = report else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let own = received.descriptors.into_iter().next().ok_or(io::ErrorKind::InvalidData)?;
        let own = Seqpacket::from(own);
        match inherit_pad(&own) {
            Ok((jobs, pls)) => {
                let is_vacant = jobs.iter().all(|job| job.given_back);
                let ids = jobs.iter().map(|job| job.job).collect();
                let own = Some(OwnKeeper { control: own, pid, jobs: ids });
                pads.push(FormerPad { pad, own, is_vacant, pls });
                inherited.extend(jobs);
            }
            // The other pads continue. A keeper that had nothing to keep has just ended.
            Err(error) => {
                tracing::info!(%pad, %error, "the keeper of this place hands nothing over");
                let _ = own.finish();
            }
        }
    }
    Ok((cgroup, next_pad, pads, inherited))
}

/// The PLs of a pad that a former node manager launched.
type FormerPls = Vec<(PlIndex, FormerPl)>;

/// Takes over the jobs that the keeper of one pad keeps, and the PLs of the job in the pad.
fn inherit_pad(control: &Seqpacket) -> io::Result<(Vec<InheritedJob>, FormerPls)> {
    let (report, _) = next_within(control, GREETING_TIMEOUT_MS)?;
    let Report::InheritedPad { jobs } = report else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let (mut inherited, mut in_pad) = (Vec::new(), Vec::new());
    for _ in 0..jobs {
        let (job, pls) = inherit_job(control)?;
        if job.has_processes() {
            in_pad = pls;
        }
        inherited.push(job);
    }
    Ok((inherited, in_pad))
}

fn inherit_job(control: &Seqpacket) -> io::Result<(InheritedJob, FormerPls)> {
    let (report, received) = next(control)?;
    let Report::InheritedJob { job, pad, given_back, lease_over, is_short, ranks: count } = report
    else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let (mut pls, mut ranks) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let (rank, pl) = inherit_rank(control)?;
        pls.push((rank.pl, pl));
        ranks.push(rank);
    }
    let files = received.descriptors;
    Ok((InheritedJob { job, pad, given_back, lease_over, is_short, files, ranks }, pls))
}

fn inherit_rank(control: &Seqpacket) -> io::Result<(InheritedRank, FormerPl)> {
    let (report, received) = next(control)?;
    let Report::InheritedRank { pl, pid, keeps, ended } = report else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let (command, ends) = ends(keeps, received.descriptors)?;
    let mut buffer = [0; FAILURE_MAX_BYTES];
    let launch = match command.peek(&mut buffer) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => InheritedLaunch::UnderWay,
        Ok(len) if len > 0 => InheritedLaunch::Failed(LaunchFailure::decode(&buffer[..len])),
        Ok(_) | Err(_) => InheritedLaunch::Executed,
    };
    let state = match (ended, launch) {
        (Some(_), _) => FormerPl::Ended,
        (None, InheritedLaunch::UnderWay) => FormerPl::Launching(command),
        (None, InheritedLaunch::Executed) => FormerPl::Running,
        (None, InheritedLaunch::Failed(_)) => FormerPl::Failed,
    };
    Ok((InheritedRank { pl, pid, launch, ends, ended }, state))
}

fn ends(keeps: Keeps, descriptors: Vec<OwnedFd>) -> io::Result<(Seqpacket, PlEnds)> {
    let mut descriptors = descriptors.into_iter();
    let mut next = |kept: bool| match kept {
        true => descriptors.next().map(Some).ok_or(io::Error::from(io::ErrorKind::InvalidData)),
        false => Ok(None),
    };
    let command = next(true)?.ok_or(io::ErrorKind::InvalidData)?.into();
    let (stdin, stdout, stderr) = (next(keeps.stdin)?, next(keeps.stdout)?, next(keeps.stderr)?);
    Ok((command, PlEnds { stdin, stdout, stderr, pmi: next(keeps.pmi)? }))
}

fn next(control: &Seqpacket) -> io::Result<(Report, Received)> {
    next_within(control, MESSAGE_TIMEOUT_MS)
}

fn next_within(control: &Seqpacket, timeout_ms: u16) -> io::Result<(Report, Received)> {
    let mut source = [PollFd::new(control.as_fd(), PollFlags::POLLIN)];
    loop {
        match poll(&mut source, PollTimeout::from(timeout_ms)) {
            Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => break,
        }
    }
    let mut buffer = vec![0; MESSAGE_MAX_BYTES];
    let received = control.receive(&mut buffer, Wait::No)?;
    if received.len == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if received.cut {
        return Err(io::Error::from_raw_os_error(libc::EMFILE));
    }
    Ok((protocol::decode(&buffer[..received.len])?, received))
}

/// Waits for the end of a keeper of another version.
fn await_end(control: &Seqpacket, greeting: Greeting, bound: Duration) {
    let Greeting { version, pid } = greeting;
    let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    tracing::warn!(
        %pid, version, own = KEEPER_VERSION, program = %program.display(), ?bound,
        "jobs of another version of this program go on here, which this one cannot take over: \
         waiting until they have ended, or their keeper ends them"
    );
    let mut source = [PollFd::new(control.as_fd(), PollFlags::POLLIN)];
    let timeout = PollTimeout::try_from(STILL_WAITING).unwrap_or(PollTimeout::MAX);
    loop {
        match poll(&mut source, timeout) {
            Ok(0) => tracing::info!(%pid, "still waiting for the keeper of another version"),
            Err(nix::errno::Errno::EINTR) => {}
            Ok(_) | Err(_) => return,
        }
    }
}
