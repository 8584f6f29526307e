//! Another network under the tree: what carries the frames of its lanes instead of
//! their TCP connections.
//!
//! A lane is always opened over TCP, where both sides prove who they are; then each
//! tells the other, in that session, what it needs to know of its end ([`Opening`]).
//! From there on frames go by the [`Carrier`], and the connection says only, by its end,
//! that the other side is gone. Control links stay on TCP: they are what says who lives.
//! The order of operations, deaths and repairs are the same on every fabric.

use crate::wire::Lane;
use bytes::Bytes;
use futures_util::future::LocalBoxFuture;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use storm_primitives::NodeId;

/// The name of the network when there is no other.
pub const TCP: &str = "tcp";

/// One member's access to another network.
pub trait Fabric: fmt::Debug {
    /// Its name, the same on all members of a cluster.
    fn name(&self) -> &'static str;

    /// The longest payload of a chunk that it carries, in bytes.
    fn max_chunk_bytes(&self) -> u32;

    /// `data`, which is about to be sent to several children, where that costs least:
    /// itself or a copy. Whether it is `for_many`, most of all members, is of use where all
    /// can be sent to at once.
    fn place(&self, data: Bytes, for_many: bool) -> Bytes;

    /// Makes this side's end of a lane.
    ///
    /// # Errors
    /// When the network has no room for another, or does not work any more.
    fn open(&self, peer: NodeId, lane: Lane, end: End) -> io::Result<Box<dyn Opening>>;
}

/// Which end of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Operations and chunks leave here.
    Parent,
    /// They arrive here.
    Child,
}

/// One end of a lane that is not connected yet.
pub trait Opening {
    /// What the other side has to know of it. At most [`MAX_OFFER_BYTES`].
    fn offer(&self) -> Vec<u8>;

    /// Connects it to the other end, whose [`offer`](Self::offer) is `theirs`. The child
    /// does so after the parent, and is the first to send.
    ///
    /// # Errors
    /// When the two do not fit together.
    fn connect(self: Box<Self>, theirs: &[u8]) -> io::Result<Rc<dyn Carrier>>;
}

/// No offer is longer: it travels in the first frame of a connection.
pub const MAX_OFFER_BYTES: usize = 1024;

/// A connected lane: bytes in their order, each way. Dropping it ends it.
pub trait Carrier: fmt::Debug {
    /// Sends from the front of `out` what can be sent now; whether that was all. On a bulk
    /// lane `out` is a frame's head and payload, which go together or not at all.
    ///
    /// # Errors
    /// When the lane has ended.
    fn write_some(&self, out: &mut VecDeque<Bytes>) -> io::Result<bool>;

    /// Waits until more can be sent.
    ///
    /// # Errors
    /// When the lane has ended.
    fn writable(&self) -> LocalBoxFuture<'_, io::Result<()>>;

    /// What [`read`](#method.read) waits for. One task at a time.
    ///
    /// # Errors
    /// When the lane has ended.
    fn poll_read(&self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>>;

    /// Who was told to wait by [`poll_read`](Self::poll_read) does so no longer.
    fn stop_reading(&self);

    /// Ends the lane at once: from here on nothing that the other side sends has any
    /// effect here.
    fn shutdown(&self);
}

impl<'a> dyn Carrier + 'a {
    /// What has come, at least one byte; on a bulk lane a whole frame. May be dropped
    /// and called again without loss. One task at a time.
    ///
    /// # Errors
    /// When the lane has ended.
    pub fn read(&self) -> Read<'_> {
        Read { carrier: self, waits: false }
    }
}

/// The next bytes of a lane.
#[derive(Debug)]
#[must_use = "nothing is read unless it is awaited"]
pub struct Read<'a> {
    carrier: &'a dyn Carrier,
    waits: bool,
}

impl Future for Read<'_> {
    type Output = io::Result<Bytes>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let polled = self.carrier.poll_read(context);
        self.waits = polled.is_pending();
        polled
    }
}

impl Drop for Read<'_> {
    fn drop(&mut self) {
        if self.waits {
            self.carrier.stop_reading();
        }
    }
}
