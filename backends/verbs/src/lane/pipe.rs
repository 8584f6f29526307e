//! A queue pair with a ring of bytes each way: what is put in on one side comes out on
//! the other in the same order, each message one write with an immediate value.

use crate::error::LaneError;
use crate::guard::{
    Completion, CompletionQueue, Completions, MemoryRegion, Outcome, QueuePair, RemoteAddr, Source,
    Sources,
};
use crate::message::Note;
use crate::offer::Offer;
use crate::ring::{MAX_MESSAGES, Overrun, RING_BYTES, ReceiveRing, SendRing};
use bytes::{Buf, Bytes, BytesMut};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;
use storm_primitives::NodeId;

/// Where the ring begins into which this side puts what it sends; the other side writes
/// below.
pub(super) const OUT_AT: usize = RING_BYTES as usize;
/// Length of the memory of a lane: both rings.
pub(super) const REGION_BYTES: usize = 2 * RING_BYTES as usize;
/// What is no longer than this is taken into memory that many share: what is kept of it keeps
/// at most [`TAKEN_BYTES`].
const SHORT_BYTES: usize = 256;
/// Length of that memory.
const TAKEN_BYTES: usize = 4096;
/// Credits that are under way at most, as each is for half of a ring or of the messages;
/// and blocks.
const SPARE_MESSAGES: u32 = 16;
/// Send requests that a queue pair has room for, and receive requests that it always has:
/// as many messages as the other side may send without credit, its credits and blocks.
pub(super) const REQUESTS: u32 = MAX_MESSAGES as u32 + SPARE_MESSAGES;

/// The queue pair and its rings.
#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) peer: NodeId,
    /// The number of the own port.
    port: u8,
    theirs: Offer,
    /// Before the memory: when it is gone nobody writes any more.
    pair: QueuePair,
    queue: Arc<CompletionQueue>,
    region: Arc<MemoryRegion>,
    rings: RefCell<Rings>,
    /// Receive requests that were used up and not replaced yet. There are always as many
    /// messages fewer that the other side may send.
    owed: Cell<u32>,
}

#[derive(Debug, Default)]
struct Rings {
    sender: SendRing,
    receiver: ReceiveRing,
    /// What completions will tell of, by the ids of the requests.
    under_way: VecDeque<(u64, Posted)>,
    /// Where runs are copied to that are taken: one piece of memory for many.
    taken: BytesMut,
}

/// A send request of whose completion somebody has to know.
#[derive(Clone, Copy, Debug)]
struct Posted {
    /// Where in the ring the bytes end of all that was posted until then.
    end: u64,
    /// It is a frame for a block, which its poster calls so.
    frame: Option<usize>,
}

/// What [`Pipe::poll`] has found that is not the pipe's own business.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The other side has filled this block with so many bytes.
    Filled { slot: u32, len: u32 },
    /// The other side tells something of so many bytes in this block.
    Told { slot: u32, len: u32 },
    /// The other side has filled a hole of the chunk that was told of in this block.
    Repaired { slot: u32 },
    /// The frame that was called so is in the other side's block.
    Delivered(usize),
}

/// Which completions there were.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    /// Of what the other side has written, or of a failure.
    pub(super) arrived: bool,
    /// Of own requests.
    pub(super) sent: bool,
}

impl Pipe {
    pub(super) fn new(
        peer: NodeId,
        port: u8,
        theirs: Offer,
        pair: QueuePair,
        queue: Arc<CompletionQueue>,
        region: Arc<MemoryRegion>,
    ) -> Pipe {
        let (rings, owed) = (RefCell::default(), Cell::new(0));
        Pipe { peer, port, theirs, pair, queue, region, rings, owed }
    }

    /// Nothing is sent or received from here on.
    pub(super) fn stop(&self) {
        self.pair.stop();
    }

    /// Whether something can be put in now.
    pub(super) fn has_room(&self) -> bool {
        self.pair.has_room() && !self.rings.borrow().sender.room().is_empty()
    }

    /// The first request that is not known to be over, and whether a completion will tell of
    /// any.
    pub(super) fn first_request(&self) -> Option<(u64, bool)> {
        Some((self.pair.first_under_way()?, !self.rings.borrow().under_way.is_empty()))
    }

    /// Whether another block can be written to.
    pub(super) fn has_request(&self) -> bool {
        self.pair.has_room()
    }

    /// Sends from the front of `out` as much as there is room for; whether that was all.
    pub(super) fn put(&self, out: &mut VecDeque<Bytes>) -> Result<bool, LaneError> {
        loop {
            if out.len() == 1 && self.put_inline(out)? {
                return Ok(true);
            }
            out.retain(|bytes| !bytes.is_empty());
            if out.is_empty() {
                return Ok(true);
            }
            let room = self.rings.borrow().sender.room();
            if room.is_empty() || !self.pair.has_room() {
                return Ok(false);
            }
            let mut end = room.start;
            while end < room.end
                && let Some(front) = out.front_mut()
            {
                let len = front.len().min(room.end - end);
                self.region.write(OUT_AT + end, &front[..len]);
                front.advance(len);
                end += len;
                if front.is_empty() {
                    out.pop_front();
                }
            }
            let len = end - room.start;
            let source = Source::Part(self.region.clone(), OUT_AT + room.start..OUT_AT + end);
            self.rings.borrow_mut().sender.sent(len);
            let to = self.theirs.ring(room.start);
            self.post(None, [Some(source), None], to, Note::Run(len as u32))?;
        }
    }

    /// Writes a frame, or a part of one, to a block of the other side; here it is called
    /// `name` until it is delivered. There must be a [request](Self::has_request).
    pub(super) fn put_frame(
        &self,
        name: usize,
        sources: Sources,
        to: RemoteAddr,
        note: Note,
    ) -> Result<(), LaneError> {
        self.post(Some(name), sources, to, note)
    }

    /// Copies a head to its place among those that wait for being sent; on a lane that
    /// sends no runs this is what the ring is used for.
    pub(super) fn lay_down(&self, at: usize, head: &[u8]) -> Source {
        self.region.write(OUT_AT + at, head);
        Source::Part(self.region.clone(), OUT_AT + at..OUT_AT + at + head.len())
    }

    /// What has come and was not taken.
    pub(super) fn take(&self) -> Result<Option<Bytes>, LaneError> {
        let mut borrowed = self.rings.borrow_mut();
        let rings = &mut *borrowed;
        let here = rings.receiver.here();
        if here.is_empty() {
            return Ok(None);
        }
        let len = here.len();
        let run = match len <= SHORT_BYTES {
            true => {
                if rings.taken.capacity() < len {
                    // The rest of the last is given up; what is not held any more is used again.
                    rings.taken.reserve(TAKEN_BYTES);
                }
                self.region.read_into(here, &mut rings.taken);
                rings.taken.split().freeze()
            }
            false => Bytes::from(self.region.read(here)),
        };
        rings.receiver.take(len);
        let is_due = rings.receiver.credit_due().is_some();
        drop(borrowed);
        if is_due {
            self.give_credit()?;
        }
        Ok(Some(run))
    }

    /// Looks for completions; whether there are any, which are then to be
    /// [worked off](Self::work_off).
    #[inline]
    pub(super) fn look(&self, into: &mut Completions) -> Result<bool, LaneError> {
        if self.queue.take(into)? {
            return Ok(true);
        }
        // Not before what has come is in the hands of who waits for it.
        if self.owed.get() > 0 {
            self.replace_receives()?;
        }
        Ok(false)
    }

    /// Takes the completions that were found and those after them, and gives what they say to
    /// `each`.
    #[inline]
    pub(super) fn work_off(
        &self,
        taken: &mut Completions,
        mut each: impl FnMut(Event) -> Result<(), LaneError>,
    ) -> Result<Found, LaneError> {
        let mut found = Found::default();
        loop {
            for completion in taken.iter() {
                match completion.outcome {
                    Outcome::Sent => found.sent = true,
                    _ => found.arrived = true,
                }
                self.on_completion(completion, &mut each)?;
            }
            if taken.are_all() || !self.queue.take(taken)? {
                break;
            }
        }
        if found.sent {
            // It may have waited for a request.
            self.give_credit()?;
        }
        Ok(found)
    }

    /// Makes as many receive requests ready as were used up. Before the other side is told
    /// that it may send more this has to be done, and else when there is nothing to do.
    pub(super) fn replace_receives(&self) -> Result<(), LaneError> {
        match self.owed.take() {
            0 => Ok(()),
            owed => Ok(self.pair.post_receives(owed)?),
        }
    }

    #[inline]
    fn on_completion(
        &self,
        Completion { id, outcome }: Completion,
        each: &mut impl FnMut(Event) -> Result<(), LaneError>,
    ) -> Result<(), LaneError> {
        match outcome {
            Outcome::Sent => self.on_sent(id, each),
            Outcome::Written { immediate, len } => {
                self.owed.set(self.owed.get() + 1);
                self.on_written(immediate, len, each)
            }
            Outcome::Received { .. } => Err(self.breach("something came that is no write")),
            Outcome::Flushed => Err(self.failed(crate::abi::WC_WR_FLUSH_ERR)),
            Outcome::Failed { status } => Err(self.failed(status)),
        }
    }

    fn on_sent(
        &self,
        id: u64,
        each: &mut impl FnMut(Event) -> Result<(), LaneError>,
    ) -> Result<(), LaneError> {
        self.pair.completed(id);
        loop {
            let posted = {
                let mut rings = self.rings.borrow_mut();
                match rings.under_way.front() {
                    Some((first, _)) if *first <= id => {}
                    _ => return Ok(()),
                }
                let posted = rings.under_way.pop_front().map(|(_, posted)| posted);
                if let Some(Posted { end, .. }) = posted {
                    rings.sender.completed(end);
                }
                posted
            };
            if let Some(Posted { frame: Some(name), .. }) = posted {
                each(Event::Delivered(name))?;
            }
        }
    }

    #[inline]
    fn on_written(
        &self,
        immediate: u32,
        written: u32,
        each: &mut impl FnMut(Event) -> Result<(), LaneError>,
    ) -> Result<(), LaneError> {
        let overrun = |Overrun| self.breach("more came than there is room for");
        match Note::decode(immediate) {
            Some(Note::Run(len)) if len == written => {
                self.rings.borrow_mut().receiver.arrived(len.into()).map_err(overrun)
            }
            Some(Note::Credit(len)) => {
                self.rings.borrow_mut().sender.credit(len.into()).map_err(overrun)
            }
            Some(Note::Block(slot)) => each(Event::Filled { slot, len: written }),
            Some(Note::Told(slot)) => each(Event::Told { slot, len: written }),
            Some(Note::Repaired(slot)) => each(Event::Repaired { slot }),
            Some(Note::Run(_)) | None => Err(self.breach("an immediate value that means nothing")),
        }
    }

    /// Tells the other side what was taken, when it is time and there is a request for it.
    fn give_credit(&self) -> Result<(), LaneError> {
        let due = self.rings.borrow().receiver.credit_due();
        let Some(due) = due.filter(|_| self.pair.has_room()) else { return Ok(()) };
        self.replace_receives()?;
        self.rings.borrow_mut().receiver.credited(due);
        self.post(None, [None, None], self.theirs.ring(0), Note::Credit(due as u32))
    }

    fn post(
        &self,
        frame: Option<usize>,
        sources: Sources,
        to: RemoteAddr,
        note: Note,
    ) -> Result<(), LaneError> {
        let id = self.pair.post_write(sources, to, note.encode())?;
        self.posted(id, frame);
        Ok(())
    }

    /// A completion will tell of the request with this id, and of all before it.
    fn posted(&self, id: u64, frame: Option<usize>) {
        let mut rings = self.rings.borrow_mut();
        let end = rings.sender.end();
        rings.under_way.push_back((id, Posted { end, frame }));
    }

    /// Sends the front of `out` if it is so short that it travels inside of its request, and
    /// there is room; whether it was. It is not laid down in the ring here, and has its place
    /// there all the same, as on the other side.
    #[inline]
    fn put_inline(&self, out: &mut VecDeque<Bytes>) -> Result<bool, LaneError> {
        let Some(bytes) = out.front() else { return Ok(false) };
        let len = bytes.len();
        let mut rings = self.rings.borrow_mut();
        let room = rings.sender.room();
        let is_short = (1..=self.pair.max_inline_bytes()).contains(&len);
        if !is_short || len > room.len() || !self.pair.has_room() {
            return Ok(false);
        }
        let (to, note) = (self.theirs.ring(room.start), Note::Run(len as u32).encode());
        let told = self.pair.post_inline(bytes, to, note)?;
        let end = rings.sender.sent(len);
        if let Some(id) = told {
            rings.under_way.push_back((id, Posted { end, frame: None }));
        }
        drop(rings);
        out.pop_front();
        Ok(true)
    }

    pub(super) fn breach(&self, why: &'static str) -> LaneError {
        LaneError::Protocol { peer: self.peer, why }
    }

    /// What has ended the queue pair, as far as this side can see.
    fn failed(&self, code: u32) -> LaneError {
        let (peer, port, status) = (self.peer, self.port, self.queue.status_name(code));
        let device = self.queue.device();
        match device.port(port) {
            Ok(now) if now.is_active() => LaneError::Failed { peer, status, code },
            Ok(now) => {
                let (device, state) = (device.name().to_owned(), now.state());
                LaneError::PortLost { peer, status, code, device, port, state }
            }
            // It was there when the lane was opened.
            Err(_) => LaneError::DeviceGone { peer, device: device.name().to_owned() },
        }
    }
}
