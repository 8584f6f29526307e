//! Why verbs cannot be used, or not any more: each says what to look at.

use std::io;
use storm_primitives::NodeId;
use thiserror::Error;

/// Why verbs cannot be used.
#[derive(Debug, Error)]
pub enum VerbsError {
    /// The library is not installed.
    #[error("libibverbs.so.1 cannot be loaded; Debian has it in libibverbs1 and ibverbs-providers")]
    NoLibrary(#[source] libloading::Error),
    /// What is installed is not what it should be.
    #[error("libibverbs.so.1 has no {symbol}")]
    NoSymbol {
        /// What was looked for.
        symbol: &'static str,
        /// What the linker said.
        #[source]
        source: libloading::Error,
    },
    /// Neither an adapter nor a soft-RoCE device is here.
    #[error("there is no RDMA device; `rdma link` shows those that the kernel knows")]
    NoDevice,
    /// The device that the configuration names is not here.
    #[error("there is no RDMA device {wanted:?}; there are: {}", .present.join(", "))]
    NoSuchDevice {
        /// What was asked for.
        wanted: String,
        /// What is here.
        present: Vec<String>,
    },
    /// The port carries no data.
    #[error("port {port} of {device} is {state}, and not active: look at its cable or its link")]
    PortNotActive {
        /// The device.
        device: String,
        /// The port, from 1.
        port: u8,
        /// What it is instead.
        state: &'static str,
    },
    /// The port has no such address.
    #[error("port {port} of {device} has no address (GID) {wanted}")]
    NoGid {
        /// The device.
        device: String,
        /// The port, from 1.
        port: u8,
        /// What was looked for.
        wanted: String,
    },
    /// The system does not let this process lock so much memory.
    #[error(
        "{bytes} bytes cannot be registered: this process may lock {limit} (RLIMIT_MEMLOCK); \
         raise it with LimitMEMLOCK= or `ulimit -l`"
    )]
    LockedMemory {
        /// How many were to be registered.
        bytes: usize,
        /// What is allowed.
        limit: u64,
    },
    /// There can be no multicast.
    #[error("{device} cannot send to all members at once: {why}")]
    NoMulticast {
        /// The device.
        device: String,
        /// What stands in the way.
        why: &'static str,
    },
    /// A call of the library failed.
    #[error("{call} on {device} failed")]
    Call {
        /// The function.
        call: &'static str,
        /// On which device.
        device: String,
        /// What it said.
        #[source]
        source: io::Error,
    },
}

/// Why a lane cannot be opened, or has ended.
#[derive(Debug, Error)]
pub enum LaneError {
    /// Something on this side.
    #[error(transparent)]
    Verbs(#[from] VerbsError),
    /// What the other side says of itself makes no sense.
    #[error("what {peer} says of its end of the lane makes no sense: {why}")]
    Offer {
        /// The other side.
        peer: NodeId,
        /// What is wrong.
        why: &'static str,
    },
    /// One side is on InfiniBand and the other on Ethernet.
    #[error("{peer} has its port on {theirs}, this node on {ours}")]
    LinkLayer {
        /// The other side.
        peer: NodeId,
        /// What its port is on.
        theirs: &'static str,
        /// What this one is on.
        ours: &'static str,
    },
    /// A request failed, and with it the queue pair.
    #[error("the queue pair to {peer} is in its error state: {status} (status {code})")]
    Failed {
        /// The other side.
        peer: NodeId,
        /// The status as the library names it.
        status: String,
        /// Its number.
        code: u32,
    },
    /// The same, and this side's port carries nothing: that is why.
    #[error(
        "the queue pair to {peer} is in its error state: {status} (status {code}), as port {port} \
         of {device} is {state}"
    )]
    PortLost {
        /// The other side.
        peer: NodeId,
        /// The status as the library names it.
        status: String,
        /// Its number.
        code: u32,
        /// The device.
        device: String,
        /// The port, from 1.
        port: u8,
        /// What it is instead of active.
        state: &'static str,
    },
    /// The adapter has failed or was taken out.
    #[error(
        "the device {device} of the lane to {peer} has failed or is gone: the queue pair is in its error state"
    )]
    DeviceGone {
        /// The other side.
        peer: NodeId,
        /// The device.
        device: String,
    },
    /// This side has ended it.
    #[error("the lane to {peer} was closed")]
    Closed {
        /// The other side.
        peer: NodeId,
    },
    /// A frame is longer than a block of the other side.
    #[error("a frame of {len} bytes does not fit in the blocks of {peer}, which have {block}")]
    TooLong {
        /// The other side.
        peer: NodeId,
        /// Length of the frame.
        len: usize,
        /// Length of a block there.
        block: usize,
    },
    /// The other side does what no correct one does.
    #[error("{peer} breaks the protocol of the lane: {why}")]
    Protocol {
        /// The other side.
        peer: NodeId,
        /// What it did.
        why: &'static str,
    },
}

impl From<LaneError> for io::Error {
    fn from(error: LaneError) -> io::Error {
        io::Error::other(error)
    }
}
