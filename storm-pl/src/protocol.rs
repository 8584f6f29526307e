//! The messages between the NM and its keeper, and their encoding.
//!
//! A keeper may outlive the binary that it was started from. A Node Manager that finds such a
//! keeper therefore compares [`KEEPER_VERSION`] before any other message. Every message is decoded
//! as untrusted bytes.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::cgroup::CgroupUnusable;
use crate::exit::{ExitStatus, Usage};
use crate::host_time::HostTime;
use crate::ids::{Errno, PadId, PlIndex, PlaceId, ProcessId};
use crate::keeper::{Keeps, KeptId, Leftovers, PlaceFailure, PlaceSpec, Survival};
use crate::seqpacket::{Seqpacket, Wait};
use crate::shared_files::SharedFilesSpec;

/// No message is larger. The longest are a placement with two paths of 4 KiB each and the list of
/// PLs of a pad.
pub(crate) const MESSAGE_MAX_BYTES: usize = 32 * 1024;

/// The version of these messages and of the files that Node Managers leave with a keeper. Every
/// change of either raises it.
pub(crate) const KEEPER_VERSION: u32 = 6;

/// Everything that a keeper needs to know at its start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// Name of the node's cgroup directory.
    pub(crate) name: String,
    /// PLs per pad.
    pub(crate) capacity: u16,
    /// Directory for the node's cgroup; the keeper's own if `None`.
    pub(crate) cgroup_parent: Option<PathBuf>,
    /// Use signals even if cgroups could be used.
    pub(crate) signals_only: bool,
    /// Files to remove at the end.
    pub(crate) leftovers: Option<Leftovers>,
    /// How the keeper continues without its NM. If `None`, it ends with the NM.
    pub(crate) survival: Option<Survival>,
    /// Name of the node in the titles of processes.
    pub(crate) node: String,
}

/// NM to keeper.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Command {
    /// The first message.
    Setup(Setup),
    /// Make a pad and fill it with `fill` PLs.
    MakePad { pad: PadId, fill: u16 },
    /// The job is over: clean the pad, and fill it until it has `fill` PLs again. The NM has not
    /// received the ends of the PLs `running`. The PLs `failed` end by themselves after a failed
    /// launch.
    Release { pad: PadId, ticket: u32, running: Vec<PlIndex>, failed: Vec<PlIndex>, fill: u16 },
    /// Kill everything in the pad, then continue as after `Release`.
    Destroy { pad: PadId, ticket: u32, fill: u16 },
    /// Kill everything in the pad and remove it. No report follows.
    Discard { pad: PadId },
    /// Send a signal to the process groups of these PLs, or to their leaders alone.
    Kill { pad: PadId, pls: Vec<PlIndex>, signal: i32, groups: bool },
    /// Copy a file as a user.
    Place { id: PlaceId, spec: PlaceSpec },
    /// Write the files that ranks of a job share. The writer's end of a socket is sent along. The
    /// writer receives the streams of the ranks on it.
    WriteFiles { spec: SharedFilesSpec },
    /// Request for a `Pong`.
    Ping,
    /// Kill everything in these pads at `until`. A later `Lease` replaces the time, and the end of
    /// the job cancels it.
    Lease { pads: Vec<PadId>, until: HostTime },
    /// Keep this job for the next NM. Descriptors are sent along: `files` of the NM's own, then
    /// those of each rank, in the order of [`Keeps`]. A repetition for the same job adds ranks.
    Keep { job: KeptId, pad: PadId, files: u8, ranks: Vec<(PlIndex, Keeps)> },
    /// The input of this rank has ended: close the kept copy.
    CloseInput { job: KeptId, pl: PlIndex },
    /// The job is over and its end has been reported: keep nothing of it.
    Forget { job: KeptId },
    /// End, with all kept jobs.
    End,
    /// From the node's keeper to a pad's: the NM is gone. Continue with the kept jobs, or end.
    Orphan,
    /// From the node's keeper to a pad's: hand the kept jobs to the next NM. The next NM's socket
    /// is sent along.
    Adopt,
}

/// Keeper to NM.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// Answer to `Setup`: the node's cgroup directory, or why there is none, and whether jobs can
    /// be kept without an NM.
    Started { cgroup: Result<PathBuf, CgroupUnusable>, survives: bool },
    /// The set-up failed for good.
    Refused { what: Refusal },
    /// Signals only: this pad has its own keeper, whose control socket is sent along.
    PadKeeper { pad: PadId, pid: ProcessId },
    /// A PL waits. The NM's end of its command socket is sent along.
    PlReady { pad: PadId, pl: PlIndex, pid: ProcessId },
    /// A pad or one of its PLs could not be made; `Release` requests it again.
    PadFailed { pad: PadId, step: PadStep, errno: Errno },
    /// A PL, or the application that it became, ended. `strays` is the usage so far of processes of
    /// the pad that belong to no PL.
    Exited {
        pad: PadId,
        pl: PlIndex,
        pid: ProcessId,
        status: ExitStatus,
        usage: Usage,
        strays: Usage,
    },
    /// No process of the former job is left in the pad.
    PadClean { pad: PadId, ticket: u32 },
    /// Processes of the former job do not die.
    PadStuck { pad: PadId, processes: Vec<ProcessId> },
    /// A placement ended.
    Placed { id: PlaceId, result: Result<(), PlaceFailure> },
    /// Answer to `Ping`.
    Pong,
    /// The lease of a pad has run out, and every process in it is being killed. Sent before the
    /// ends of the killed processes.
    LeaseOver { pad: PadId },
    /// To an NM that takes over: the node's cgroup directory, or why there is none, and how many
    /// jobs and `PadKeeper` follow. Pads from number `next_pad` on are free.
    Inheritance {
        cgroup: Result<PathBuf, CgroupUnusable>,
        capacity: u16,
        next_pad: PadId,
        jobs: u32,
        pad_keepers: u32,
    },
    /// To an NM that takes over, from the keeper of a pad: how many jobs follow.
    InheritedPad { jobs: u32 },
    /// A kept job. The job's files are sent along, and `ranks` ranks follow. `is_short` means that
    /// other ranks are missing.
    InheritedJob {
        job: KeptId,
        pad: PadId,
        given_back: bool,
        lease_over: bool,
        is_short: bool,
        ranks: u32,
    },
    /// A rank of the last job. The rank's kept descriptors are sent along.
    InheritedRank { pl: PlIndex, pid: ProcessId, keeps: Keeps, ended: Option<(ExitStatus, Usage)> },
    /// The keeper has no room for the descriptors of a part of this job, which does not outlive the
    /// NM.
    NotKept { job: KeptId },
}

/// The reason why a keeper gave up at its start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// Another keeper of the same cluster and node is running.
    #[error("another daemon of this cluster and node is running (it holds {0})")]
    NodeInUse(PathBuf),
    /// A remainder of a former keeper could not be removed.
    #[error("processes left by a former daemon in {path} cannot be killed: {errno}")]
    StaleCgroup {
        /// The directory.
        path: PathBuf,
        /// The reason.
        errno: Errno,
    },
    /// A call failed that never fails in practice.
    #[error("the keeper cannot set itself up: {0}")]
    System(Errno),
}

/// The step that failed while a pad was made or filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum PadStep {
    /// Making its cgroup directory.
    #[error("cannot make the control group of the pad")]
    Cgroup,
    /// Making the command socket of a PL or of a pad's keeper.
    #[error("cannot make the socket of a PL")]
    Socket,
    /// Forking.
    #[error("cannot fork a PL")]
    Fork,
    /// Handing that socket to the NM.
    #[error("cannot hand the socket of a PL to the node manager")]
    Handover,
    /// Opening the freezer of the pad, at the NM.
    #[error("cannot open the freezer of the pad")]
    Freezer,
    /// Undoing a freeze.
    #[error("cannot thaw the pad")]
    Thaw,
}

/// Sends one message.
pub(crate) fn send<T: Serialize>(
    socket: &Seqpacket,
    message: &T,
    descriptors: &[BorrowedFd<'_>],
    wait: Wait,
) -> io::Result<()> {
    socket.send(&[IoSlice::new(&encode(message)?)], descriptors, wait)
}

fn encode<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let bytes = postcard::to_stdvec(message).map_err(io::Error::other)?;
    if bytes.len() > MESSAGE_MAX_BYTES {
        return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
    }
    Ok(bytes)
}

/// Decodes one message.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    postcard::from_bytes(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
