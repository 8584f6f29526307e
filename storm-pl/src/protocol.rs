//! The messages between the NM and its keeper, and their encoding.
//!
//! A keeper may outlive the binary that it was started from: a Node Manager that finds one compares
//! [`KEEPER_VERSION`] before anything else is said. Every message is decoded as untrusted bytes.

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

/// No message is larger: the longest are a placement with two paths of 4 KiB each and the list of
/// PLs of a pad.
pub(crate) const MESSAGE_MAX_BYTES: usize = 32 * 1024;

/// Version of these messages and of what Node Managers leave with a keeper. It rises with every
/// change of either.
pub(crate) const KEEPER_VERSION: u32 = 2;

/// What the keeper has to know before it does anything.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// Name of the node's cgroup directory.
    pub(crate) name: String,
    /// PLs per pad.
    pub(crate) capacity: u16,
    /// Directory to make the node's cgroup in; the keeper's own if `None`.
    pub(crate) cgroup_parent: Option<PathBuf>,
    /// Use signals even where cgroups would do.
    pub(crate) signals_only: bool,
    /// To be removed at the end.
    pub(crate) leftovers: Option<Leftovers>,
    /// How it goes on when its NM is gone; not at all if `None`.
    pub(crate) survival: Option<Survival>,
    /// Name of the node in the titles of processes.
    pub(crate) node: String,
}

/// NM to keeper.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Command {
    /// The first message.
    Setup(Setup),
    /// Make a pad and fill it with so many PLs.
    MakePad { pad: PadId, fill: u16 },
    /// The job is over: clean the pad, and fill it until it has `fill` PLs again. Of its PLs,
    /// `running` have not ended as far as the NM knows, and `failed` are about to end by themselves
    /// after a failed launch.
    Release { pad: PadId, ticket: u32, running: Vec<PlIndex>, failed: Vec<PlIndex>, fill: u16 },
    /// Kill everything in the pad, then as `Release`.
    Destroy { pad: PadId, ticket: u32, fill: u16 },
    /// Kill everything in the pad and remove it. Nothing more is said of it.
    Discard { pad: PadId },
    /// Send a signal to the process groups of these PLs.
    Kill { pad: PadId, pls: Vec<PlIndex>, signal: i32 },
    /// Copy a file as a user.
    Place { id: PlaceId, spec: PlaceSpec },
    /// Write the files that ranks of a job share. The process's end of the socket by which it gets the
    /// streams of the ranks comes along.
    WriteFiles { spec: SharedFilesSpec },
    /// Show that you live.
    Ping,
    /// Kill everything in these pads at that time, unless another is said before or the job is over.
    Lease { pads: Vec<PadId>, until: HostTime },
    /// Keep this job for the next NM. Descriptors come along: `files` of the NM's own, then those of
    /// each rank, in the order of [`Keeps`]. Said again of the same job, it adds ranks.
    Keep { job: KeptId, pad: PadId, files: u8, ranks: Vec<(PlIndex, Keeps)> },
    /// The input of this rank has ended: close what is kept of it.
    CloseInput { job: KeptId, pl: PlIndex },
    /// The job is over, and everybody knows how it ended.
    Forget { job: KeptId },
    /// End, with all that is kept.
    End,
    /// From the node's keeper to a pad's: the NM is gone. Go on with what was left with you, or end.
    Orphan,
    /// From the node's keeper to a pad's: hand what you keep to the next NM, whose socket comes along.
    Adopt,
}

/// Keeper to NM.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// Answer to `Setup`: the node's cgroup directory, or why there is none; and whether jobs can be
    /// kept without an NM.
    Started { cgroup: Result<PathBuf, CgroupUnusable>, survives: bool },
    /// Setup failed for good.
    Refused { what: Refusal },
    /// Signals only: this pad has its own keeper; its control socket comes along.
    PadKeeper { pad: PadId, pid: ProcessId },
    /// A PL waits. The NM's end of its command socket comes along.
    PlReady { pad: PadId, pl: PlIndex, pid: ProcessId },
    /// A pad or one of its PLs could not be made; ask again with `Release`.
    PadFailed { pad: PadId, step: PadStep, errno: Errno },
    /// A PL, or the application that it became, ended. `strays` is what processes of the pad used that
    /// belong to no PL, until now.
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
    /// The lease of a pad has run out: everything in it is being killed. Said before the ends of what
    /// was killed.
    LeaseOver { pad: PadId },
    /// To an NM that takes over: the node's cgroup directory, or why there is none; and how many jobs
    /// follow, and how many `PadKeeper`. Pads from number `next_pad` on are free.
    Inheritance {
        cgroup: Result<PathBuf, CgroupUnusable>,
        capacity: u16,
        next_pad: PadId,
        jobs: u32,
        pad_keepers: u32,
    },
    /// To an NM that takes over, from the keeper of a pad: how many jobs follow.
    InheritedPad { jobs: u32 },
    /// A job that is kept; its files come along, and so many ranks follow.
    InheritedJob { job: KeptId, pad: PadId, given_back: bool, lease_over: bool, ranks: u32 },
    /// A rank of it; what is kept of it comes along.
    InheritedRank { pl: PlIndex, pid: ProcessId, keeps: Keeps, ended: Option<(ExitStatus, Usage)> },
}

/// Why a keeper gave up at its start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// Another keeper of the same cluster and node lives.
    #[error("another daemon of this cluster and node is running (it holds {0})")]
    NodeInUse(PathBuf),
    /// Something of a former keeper could not be removed.
    #[error("processes left by a former daemon in {path} cannot be killed: {errno}")]
    StaleCgroup {
        /// The directory.
        path: PathBuf,
        /// The reason.
        errno: Errno,
    },
    /// A call that never fails in practice did.
    #[error("the keeper cannot set itself up: {0}")]
    System(Errno),
}

/// What failed when a pad was made or filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum PadStep {
    /// Making its cgroup directory.
    #[error("cannot make the control group of the pad")]
    Cgroup,
    /// Making the socket by which a PL or the keeper of a pad is told what to do.
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

/// Sends one message to a keeper that may have much to read.
pub(crate) fn send_soon<T: Serialize>(
    socket: &Seqpacket,
    message: &T,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    socket.send_soon(&[IoSlice::new(&encode(message)?)], descriptors)
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
