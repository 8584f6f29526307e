//! Errors of opening a lane, or of its end. Each message tells the operator where to look.

use std::io;
use storm_primitives::NodeId;
use storm_verbs::VerbsError;
use thiserror::Error;

/// The reason why a lane cannot be opened, or has ended.
#[derive(Debug, Error)]
pub enum LaneError {
    /// A call failed on this side.
    #[error(transparent)]
    Verbs(#[from] VerbsError),
    /// The other side's offer is invalid.
    #[error("the offer of {peer} for a lane is invalid: {why}")]
    Offer {
        /// The other side.
        peer: NodeId,
        /// The fault in it.
        why: &'static str,
    },
    /// One side is on InfiniBand and the other on Ethernet.
    #[error("the port of {peer} is on {theirs}, the port of this node on {ours}")]
    LinkLayer {
        /// The other side.
        peer: NodeId,
        /// The link layer of its port.
        theirs: &'static str,
        /// The link layer of this port.
        ours: &'static str,
    },
    /// A request failed, and the queue pair with it.
    #[error("the queue pair to {peer} is in its error state: {status} (status {code})")]
    Failed {
        /// The other side.
        peer: NodeId,
        /// The status as the library names it.
        status: String,
        /// The number.
        code: u32,
    },
    /// A request failed because the link of this side's port is down.
    #[error(
        "the queue pair to {peer} is in its error state: {status} (status {code}), as port {port} \
         of {device} is {state}"
    )]
    PortLost {
        /// The other side.
        peer: NodeId,
        /// The status as the library names it.
        status: String,
        /// The number.
        code: u32,
        /// The device.
        device: String,
        /// The port, from 1.
        port: u8,
        /// The port's state.
        state: &'static str,
    },
    /// The adapter has failed or was removed.
    #[error(
        "the device {device} of the lane to {peer} has failed or is gone: the queue pair is in its error state"
    )]
    DeviceGone {
        /// The other side.
        peer: NodeId,
        /// The device.
        device: String,
    },
    /// This side has closed the lane.
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
    /// The other side broke the protocol of the lane.
    #[error("{peer} breaks the protocol of the lane: {why}")]
    Protocol {
        /// The other side.
        peer: NodeId,
        /// The breach.
        why: &'static str,
    },
}

impl From<LaneError> for io::Error {
    fn from(error: LaneError) -> io::Error {
        io::Error::other(error)
    }
}
