//! Another network under the tree, which carries the frames of its lanes instead of TCP.
//!
//! A lane is always opened over TCP, where both sides prove their identity. In this session, each
//! side sends the other the offer of its end ([`Opening`]). From then on, the [`Carrier`] carries
//! the frames. The TCP connection only reports, by its end, that the other side is gone. Control
//! links stay on TCP, because they show which nodes are alive. Every fabric has the same order of
//! operations, deaths and repairs.

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

/// The default network.
pub const TCP: &str = "tcp";

/// One member's access to another network.
pub trait Fabric: fmt::Debug {
    /// Its name, the same on all members of a cluster.
    fn name(&self) -> &'static str;

    /// The longest payload of a chunk that it carries, in bytes.
    fn max_chunk_bytes(&self) -> u32;

    /// Places `data`, which is about to be sent to several children, in the memory from which
    /// sending costs least. Returns `data` itself or a copy. If `for_many` is true, most members
    /// get the data, and a network that can send to all at once does so.
    fn place(&self, data: Bytes, for_many: bool) -> Bytes;

    /// Makes this side's end of a lane.
    ///
    /// # Errors
    /// If the network has no room for another lane, or no longer works.
    fn open(&self, peer: NodeId, lane: Lane, end: End) -> io::Result<Box<dyn Opening>>;
}

/// The two ends of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Operations and chunks leave here.
    Parent,
    /// The frames arrive here.
    Child,
}

/// A lane's end on this side, before it is connected.
pub trait Opening {
    /// The data that the other end needs to connect. At most [`MAX_OFFER_BYTES`].
    fn offer(&self) -> Vec<u8>;

    /// Connects to the other end. `theirs` is its [`offer`](Self::offer). The parent connects
    /// first. The child connects second, and sends first.
    ///
    /// # Errors
    /// If the two offers do not fit together.
    fn connect(self: Box<Self>, theirs: &[u8]) -> io::Result<Rc<dyn Carrier>>;
}

/// The longest offer. It travels in the first frame of a connection.
pub const MAX_OFFER_BYTES: usize = 1024;

/// A connected lane: ordered bytes in both directions. Dropping it ends it.
pub trait Carrier: fmt::Debug {
    /// Sends as much from the front of `out` as possible now. Returns true if all was sent. On a
    /// bulk lane, `out` is the header and the payload of one frame, which are sent together or not
    /// at all.
    ///
    /// # Errors
    /// If the lane has ended.
    fn write_some(&self, out: &mut VecDeque<Bytes>) -> io::Result<bool>;

    /// Waits until more can be sent.
    ///
    /// # Errors
    /// If the lane has ended.
    fn writable(&self) -> LocalBoxFuture<'_, io::Result<()>>;

    /// The poll function of [`read`](#method.read). Only one task may poll at a time.
    ///
    /// # Errors
    /// If the lane has ended.
    fn poll_read(&self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>>;

    /// The task that waits in [`poll_read`](Self::poll_read) no longer waits.
    fn stop_reading(&self);

    /// Ends the lane at once: data that the other side sends later has no effect here.
    fn shutdown(&self);
}

impl<'a> dyn Carrier + 'a {
    /// Reads at least one byte; on a bulk lane, a whole frame. The future may be dropped and the
    /// method called again without loss. Only one task may read at a time.
    ///
    /// # Errors
    /// If the lane has ended.
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
