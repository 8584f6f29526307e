//! A queue pair with a ring of bytes and with slots in each direction. Messages arrive in the order
//! in which they were sent. A message is a run: one write with an immediate value. While both sides
//! poll their memory, it may also be a short message in its slot.

mod notes;

use super::attention::Attention;
use super::inbox::Inbox;
use super::outward::Outward;
use crate::error::LaneError;
use crate::guard::{
    Completion, CompletionQueue, Completions, MemoryRegion, Notice, Outcome, QueuePair, RemoteAddr,
    Source, Sources,
};
use crate::message::{MAX_NUMBER, Note};
use crate::offer::Offer;
use crate::ring::{MAX_MESSAGES, Overrun, RING_BYTES};
use crate::slot;
use bytes::{Buf, Bytes};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use storm_primitives::NodeId;

/// The start of the ring for outgoing data. The other side writes to the ring below it, and to the
/// slots behind it.
pub(super) const OUT_AT: usize = RING_BYTES as usize;
/// Requests that may be under way in addition to messages: credits (few, each for half of a ring or
/// of the messages), blocks, one `Sleeps` and one `Heard`.
const SPARE_MESSAGES: u32 = 16;
/// The number of send requests of a queue pair, and of receive requests that are always posted. It
/// covers the messages that the other side may send without credit, its credits and its blocks.
pub(super) const REQUESTS: u32 = MAX_MESSAGES as u32 + SPARE_MESSAGES;
/// Messages found in slots until the queue is polled anyway.
const FOUND_PER_LOOK: u32 = 16;

/// The queue pair and its rings.
#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) peer: NodeId,
    /// The number of the own port.
    port: u8,
    theirs: Offer,
    /// Declared before the memory: once the pair is dropped, no adapter writes to it.
    pair: QueuePair,
    queue: Arc<CompletionQueue>,
    region: Arc<MemoryRegion>,
    inbox: RefCell<Inbox>,
    outward: RefCell<Outward>,
    attention: Cell<Attention>,
    /// Whether this member polls.
    looking: Rc<Cell<bool>>,
    /// A message up to this length fits both a slot and a request.
    max_short_bytes: usize,
    /// Messages found in slots since the queue was last polled.
    found: Cell<u32>,
    /// Used receive requests that were not replaced yet. The other side's credit is reduced by this
    /// number.
    owed: Cell<u32>,
}

/// An event found by [`Pipe::poll`] that the pipe does not handle itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The other side has filled this block with `len` bytes.
    Filled { slot: u32, len: u32 },
    /// The other side has written an `Announcement` of `len` bytes to this block.
    Announced { slot: u32, len: u32 },
    /// The other side has filled a hole of the chunk that was announced in this block.
    Repaired { slot: u32 },
    /// The frame of this name is in the other side's block.
    Delivered(usize),
}

/// The kinds of completions found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    /// Whether the other side wrote, or a failure occurred.
    pub(super) arrived: bool,
    /// Completions of own requests.
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
        looking: Rc<Cell<bool>>,
    ) -> Pipe {
        let inbox = RefCell::new(Inbox::new(region.clone()));
        let (outward, attention, found, owed) = Default::default();
        let inline_bytes = pair.max_inline_bytes().saturating_sub(slot::HEAD_BYTES);
        let max_short_bytes = inline_bytes.min(slot::MAX_SHORT_BYTES);
        Pipe {
            peer,
            port,
            theirs,
            pair,
            queue,
            region,
            inbox,
            outward,
            attention,
            looking,
            max_short_bytes,
            found,
            owed,
        }
    }

    /// Stops sending and receiving.
    pub(super) fn stop(&self) {
        self.pair.stop();
    }

    /// Whether there is room for a message now.
    pub(super) fn has_room(&self) -> bool {
        self.pair.has_room() && !self.outward.borrow().ring.room().is_empty()
    }

    /// The first request that is not known to be complete, and whether any signalled request is
    /// under way.
    pub(super) fn first_request(&self) -> Option<(u64, bool)> {
        Some((self.pair.first_under_way()?, self.outward.borrow().has_signalled()))
    }

    /// Whether another block can be written to.
    pub(super) fn has_request(&self) -> bool {
        self.pair.has_room()
    }

    /// Sends as much from the front of `out` as there is room for. Returns true if everything was
    /// sent.
    pub(super) fn put(&self, out: &mut VecDeque<Bytes>) -> Result<bool, LaneError> {
        loop {
            if out.len() == 1 && (self.put_short(out)? || self.put_inline(out)?) {
                return Ok(true);
            }
            out.retain(|bytes| !bytes.is_empty());
            if out.is_empty() {
                return Ok(true);
            }
            let room = self.outward.borrow().ring.room();
            if room.is_empty() || !self.pair.has_room() {
                return Ok(false);
            }
            let mut end = room.start;
            while end < room.end
                && let Some(front) = out.front_mut()
            {
                let len = front.len().min(room.end - end);
                // SAFETY: no code takes slices of the memory of a lane.
                unsafe { self.region.write(OUT_AT + end, &front[..len]) };
                front.advance(len);
                end += len;
                if front.is_empty() {
                    out.pop_front();
                }
            }
            let len = end - room.start;
            let source = Source::Part(self.region.clone(), OUT_AT + room.start..OUT_AT + end);
            self.outward.borrow_mut().ring.sent_run(len);
            let (to, note) = (self.theirs.ring(room.start), self.run(len));
            self.post(None, [Some(source), None], to, note)?;
        }
    }

    /// Writes a frame, or a part of one, to a block of the other side. `name` identifies it until
    /// it is delivered. There must be a [request](Self::has_request).
    pub(super) fn put_frame(
        &self,
        name: usize,
        sources: Sources,
        to: RemoteAddr,
        note: Note,
    ) -> Result<(), LaneError> {
        self.post(Some(name), sources, to, note)
    }

    /// Copies a header to its place in the ring, from which it is sent. A lane without runs uses
    /// the ring only for headers.
    pub(super) fn lay_down(&self, at: usize, head: &[u8]) -> Source {
        // SAFETY: no code takes slices of the memory of a lane.
        unsafe { self.region.write(OUT_AT + at, head) };
        Source::Part(self.region.clone(), OUT_AT + at..OUT_AT + at + head.len())
    }

    /// Takes the next message, if one has come.
    #[inline]
    pub(super) fn take(&self) -> Result<Option<Bytes>, LaneError> {
        if self.inbox.borrow().is_empty() && !self.find() {
            return Ok(None);
        }
        let mut inbox = self.inbox.borrow_mut();
        let bytes = inbox.take();
        let is_due = inbox.credit_due().is_some();
        drop(inbox);
        if is_due {
            self.give_credit()?;
        }
        Ok(bytes)
    }

    /// Checks for a short message in its slot. Returns whether there is one. The caller then takes
    /// it.
    #[inline]
    pub(super) fn find(&self) -> bool {
        let has_come = self.inbox.borrow_mut().find();
        if has_come {
            self.found.set(self.found.get() + 1);
            self.change_attention(Attention::they_look);
        }
        has_come
    }

    /// Whether both ends poll their memory, so that short messages are sent silently.
    #[inline]
    pub(super) fn is_mutual(&self) -> bool {
        self.attention.get().is_mutual(self.looking.get())
    }

    /// Whether so many messages were found in slots that the queue must be polled for completions
    /// and failures.
    #[inline]
    pub(super) fn owes_look(&self) -> bool {
        self.found.get() >= FOUND_PER_LOOK
    }

    /// Polls for completions. Returns whether there are any. The caller then processes them with
    /// [`work_off`](Self::work_off).
    #[inline]
    pub(super) fn look(&self, into: &mut Completions) -> Result<bool, LaneError> {
        self.found.set(0);
        if self.queue.take(into)? {
            return Ok(true);
        }
        // Done here, so that arrived messages reach their reader first.
        if self.owed.get() > 0 {
            self.replace_receives()?;
        }
        Ok(false)
    }

    /// Takes the completions found and those after them, and passes their events to `each`.
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
            // A credit or `Sleeps` may have waited for a free request.
            self.give_credit()?;
            self.say_farewell()?;
            self.answer()?;
        }
        Ok(found)
    }

    /// Replaces the used receive requests. It must run before the other side gets more credit.
    /// Otherwise it runs when there is nothing else to do.
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
            Outcome::Received { .. } => {
                Err(self.breach("a completion arrived that is not of a write"))
            }
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
            let completed = self.outward.borrow_mut().completed(id);
            match completed {
                Some(Some(name)) => each(Event::Delivered(name))?,
                Some(None) => {}
                None => return Ok(()),
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
        let overrun = |Overrun| self.breach("it sent more than its credit");
        match Note::decode(immediate) {
            Some(Note::Run { len, looks }) if len == written => {
                let found = self.inbox.borrow_mut().run(len).map_err(overrun)?;
                if found || looks {
                    self.change_attention(Attention::they_look);
                }
                Ok(())
            }
            Some(Note::Credit(credit)) => {
                self.outward.borrow_mut().ring.credit(credit).map_err(overrun)
            }
            Some(Note::Sleeps(found)) => {
                // Messages sent before `Sleeps` are in their slots. They prove that the other end
                // polled.
                self.inbox.borrow_mut().find_all();
                let sent = (self.outward.borrow().ring.messages() & u64::from(MAX_NUMBER)) as u32;
                self.change_attention(|attention| attention.they_sleep(found == sent));
                self.answer()
            }
            Some(Note::Heard) => {
                // `Heard` wakes this end because of earlier messages, which are in their slots.
                if self.inbox.borrow_mut().find_all() {
                    self.change_attention(Attention::they_look);
                }
                self.change_attention(Attention::they_heard);
                Ok(())
            }
            Some(Note::Block(slot)) => each(Event::Filled { slot, len: written }),
            Some(Note::Announced(slot)) => each(Event::Announced { slot, len: written }),
            Some(Note::Repaired(slot)) => each(Event::Repaired { slot }),
            Some(Note::Run { .. }) | None => Err(self.breach("it sent an unknown immediate value")),
        }
    }

    /// The note for a run of `len` bytes.
    fn run(&self, len: usize) -> Note {
        let mut attention = self.attention.get();
        let looks = attention.announce(self.looking.get());
        self.attention.set(attention);
        Note::Run { len: len as u32, looks }
    }

    #[inline]
    fn change_attention(&self, change: impl FnOnce(&mut Attention)) {
        let mut attention = self.attention.get();
        change(&mut attention);
        self.attention.set(attention);
    }

    fn post(
        &self,
        frame: Option<usize>,
        sources: Sources,
        to: RemoteAddr,
        note: Note,
    ) -> Result<(), LaneError> {
        let id = self.pair.post_write(sources, to, note.encode())?;
        self.outward.borrow_mut().posted(id, frame);
        Ok(())
    }

    /// A short message was posted; `signalled` is its id if it is signalled.
    #[inline]
    fn posted(&self, signalled: Option<u64>) {
        if let Some(id) = signalled {
            self.outward.borrow_mut().posted(id, None);
        }
    }

    /// Writes the front of `out` to the next slot of the other side, if both ends poll, the message
    /// is short enough, and there is room. Returns whether the message was written.
    #[inline]
    fn put_short(&self, out: &mut VecDeque<Bytes>) -> Result<bool, LaneError> {
        let Some(bytes) = out.front() else { return Ok(false) };
        let is_short = (1..=self.max_short_bytes).contains(&bytes.len());
        if !self.is_mutual() || !is_short || !self.pair.has_room() {
            return Ok(false);
        }
        let Some(number) = self.outward.borrow().ring.next() else { return Ok(false) };
        let (head, to) = (slot::head(number, bytes).to_le_bytes(), self.theirs.slot(number));
        let signalled = self.pair.post_inline([&head, bytes], to, Notice::Nothing)?;
        self.outward.borrow_mut().ring.sent_short();
        self.change_attention(Attention::wrote_silently);
        self.posted(signalled);
        out.pop_front();
        Ok(true)
    }

    /// Sends the front of `out` inside its request, if it is short enough and there is room.
    /// Returns whether it was sent. The data is not copied to the ring of this side, but it
    /// occupies its place in the ring on both sides.
    #[inline]
    fn put_inline(&self, out: &mut VecDeque<Bytes>) -> Result<bool, LaneError> {
        let Some(bytes) = out.front() else { return Ok(false) };
        let len = bytes.len();
        let room = self.outward.borrow().ring.room();
        let is_short = (1..=self.pair.max_inline_bytes()).contains(&len);
        if !is_short || len > room.len() || !self.pair.has_room() {
            return Ok(false);
        }
        let (to, notice) = (self.theirs.ring(room.start), Notice::Wakes(self.run(len).encode()));
        let signalled = self.pair.post_inline([bytes, &[]], to, notice)?;
        self.outward.borrow_mut().ring.sent_run(len);
        self.posted(signalled);
        out.pop_front();
        Ok(true)
    }

    pub(super) fn breach(&self, why: &'static str) -> LaneError {
        LaneError::Protocol { peer: self.peer, why }
    }

    /// The error that ended the queue pair, as far as this side can determine.
    fn failed(&self, code: u32) -> LaneError {
        let (peer, port, status) = (self.peer, self.port, self.queue.status_name(code));
        let device = self.queue.device();
        match device.port(port) {
            Ok(now) if now.is_active() => LaneError::Failed { peer, status, code },
            Ok(now) => {
                let (device, state) = (device.name().to_owned(), now.state());
                LaneError::PortLost { peer, status, code, device, port, state }
            }
            // The device existed when the lane was opened.
            Err(_) => LaneError::DeviceGone { peer, device: device.name().to_owned() },
        }
    }
}
