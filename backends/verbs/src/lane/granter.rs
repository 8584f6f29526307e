//! The child's end of a bulk lane. It grants blocks to the parent, and delivers the frames or the
//! chunks received by multicast.

use super::filler::MAX_HOLES;
use super::outbox::Outbox;
use super::pipe::Pipe;
use crate::adapter::PAYLOAD_AT;
use crate::error::LaneError;
use crate::fabric::Common;
use crate::message::{Announcement, Place, Up};
use crate::multicast::address::GroupAddress;
use crate::multicast::awaited::{Awaited, Step};
use crate::multicast::group::Group;
use crate::poller::Polled;
use crate::pool::{Block, Mark, Pool};
use bytes::Bytes;
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The time between the first and the second request for a probe. It doubles with each further
/// request.
const PROBE_PAUSE: Duration = Duration::from_millis(50);
/// Requests for a probe before this end gives up.
const MAX_PROBES: u32 = 7;

/// The child's end: grants blocks and delivers their contents.
#[derive(Debug)]
pub(super) struct Granter {
    pool: Pool,
    /// The blocks that are granted or filled, by their slots.
    blocks: Vec<Block>,
    /// The filled blocks and chunks that are not delivered yet.
    filled: VecDeque<Filled>,
    /// The data to be sent up.
    out: Outbox,
    /// The group of the parent's last invitation, not joined yet.
    invitation: Option<GroupAddress>,
    membership: Option<Membership>,
}

/// A filled block.
#[derive(Debug)]
enum Filled {
    /// The block contains a frame of this length.
    Frame { slot: usize, len: usize },
    /// The block contains the header of a chunk.
    Chunk(Chunk),
}

/// A chunk with a payload that arrives by multicast.
#[derive(Debug)]
struct Chunk {
    slot: usize,
    head: Bytes,
    /// The group to which it was sent.
    group: Rc<Group>,
    awaited: Awaited,
    payload: Payload,
}

/// The state of a chunk's payload.
#[derive(Debug)]
enum Payload {
    /// The payload is on its way.
    Awaited,
    /// The payload is in `block`, or in the block of the slot if `block` is `None`. It still has
    /// `holes` holes that the parent was asked to fill.
    Here { block: Option<Block>, holes: usize },
}

/// The agreement between the parent and this end about the group.
#[derive(Debug)]
struct Membership {
    group: Rc<Group>,
    /// The parent knows that this member receives the group's datagrams.
    reported: bool,
    /// The number of requests for a probe, and when the next is due.
    probes: u32,
    next_probe: Instant,
}

impl Granter {
    pub(super) fn new(pool: &Pool, blocks: Vec<Block>) -> Granter {
        let mut granter = Granter {
            pool: pool.clone(),
            blocks,
            filled: VecDeque::new(),
            out: Outbox::default(),
            invitation: None,
            membership: None,
        };
        (0..granter.blocks.len()).for_each(|slot| granter.grant(slot));
        granter
    }

    /// The parent has filled a block with a frame.
    pub(super) fn on_filled(&mut self, pipe: &Pipe, slot: u32, len: u32) -> Result<(), LaneError> {
        let (slot, len) = self.check_filled(pipe, slot, len)?;
        self.filled.push_back(Filled::Frame { slot, len });
        Ok(())
    }

    /// The parent has written an [`Announcement`] to a block.
    pub(super) fn on_told(&mut self, pipe: &Pipe, slot: u32, len: u32) -> Result<(), LaneError> {
        let (slot, len) = self.check_filled(pipe, slot, len)?;
        let bytes = self.blocks[slot].copy(0..len);
        let Some((announcement, head)) = Announcement::decode(&bytes) else {
            return Err(pipe.breach("it sent an unknown announcement"));
        };
        match announcement {
            Announcement::Group(address) if head.is_empty() => {
                if let Some(why) = address.fault() {
                    return Err(pipe.breach(why));
                }
                self.invitation = Some(address);
                self.grant(slot);
                self.send(pipe)
            }
            Announcement::Chunk { number, total } => {
                let max_bytes = self.blocks[slot].capacity() - PAYLOAD_AT;
                let can_be =
                    (1..=max_bytes).contains(&(total as usize)) && head.len() <= PAYLOAD_AT;
                let membership = self.membership.as_ref().filter(|it| it.reported && can_be);
                let Some(Membership { group, .. }) = membership else {
                    return Err(pipe.breach("it announced an impossible chunk of the group"));
                };
                let (head, group) = (bytes.slice_ref(head), group.clone());
                group.announced(number);
                let awaited = Awaited { number, total, since: Instant::now() };
                let chunk = Chunk { slot, head, group, awaited, payload: Payload::Awaited };
                self.filled.push_back(Filled::Chunk(chunk));
                Ok(())
            }
            Announcement::Group(_) => Err(pipe.breach("data follows the address of the group")),
        }
    }

    /// The parent has filled a hole of the chunk of this slot.
    pub(super) fn on_repaired(&mut self, pipe: &Pipe, slot: u32) -> Result<(), LaneError> {
        let of_slot = self.filled.iter_mut().find_map(|filled| match filled {
            Filled::Chunk(chunk) if chunk.slot == slot as usize => Some(&mut chunk.payload),
            _ => None,
        });
        match of_slot {
            Some(Payload::Here { holes: holes @ 1.., .. }) => {
                *holes -= 1;
                Ok(())
            }
            _ => Err(pipe.breach("it filled a hole that does not exist")),
        }
    }

    /// Checks that the slot is granted and not filled yet.
    fn check_filled(&self, pipe: &Pipe, slot: u32, len: u32) -> Result<(usize, usize), LaneError> {
        let (slot, len) = (slot as usize, len as usize);
        let is_granted = slot < self.blocks.len()
            && self.filled.iter().all(|filled| filled.slot() != slot)
            && (1..=self.blocks[slot].capacity()).contains(&len);
        match is_granted {
            true => Ok((slot, len)),
            false => Err(pipe.breach("it filled a block that was not granted")),
        }
    }

    /// The next frame. A full block is replaced by a free one; otherwise the frame is copied. Then
    /// the slot is granted again.
    pub(super) fn take(
        &mut self,
        pipe: &Pipe,
        common: &Rc<Common>,
    ) -> Result<Option<Bytes>, LaneError> {
        let now = Instant::now();
        self.attend(common, now);
        self.claim(now);
        let frame = match self.filled.pop_front() {
            Some(Filled::Frame { slot, len }) => Some(self.take_slot(slot, 0..len, None)),
            Some(Filled::Chunk(chunk)) => self.take_chunk(chunk),
            None => None,
        };
        self.send(pipe)?;
        Ok(frame)
    }

    /// The time until the lane has work even if nothing arrives.
    pub(super) fn pause(&self) -> Option<Duration> {
        let now = Instant::now();
        let membership = self.membership.as_ref();
        let steps = self.filled.iter().filter_map(|filled| match filled {
            Filled::Chunk(Chunk { group, awaited, payload: Payload::Awaited, .. }) => {
                match group.step(awaited, now) {
                    Step::Wait(pause) => Some(pause),
                    Step::Take | Step::Ask => Some(Duration::ZERO),
                }
            }
            _ => None,
        });
        let probe = membership.filter(|it| !it.reported && it.probes <= MAX_PROBES);
        let probe = probe.map(|it| it.next_probe.saturating_duration_since(now));
        steps.chain(probe).min()
    }

    /// Sends data up, as far as there is room.
    pub(super) fn send(&mut self, pipe: &Pipe) -> Result<(), LaneError> {
        if !self.out.is_empty() {
            pipe.replace_receives()?;
            pipe.put(self.out.waiting())?;
        }
        Ok(())
    }

    /// Whether data waits to be sent up for lack of room.
    pub(super) fn waits(&self) -> bool {
        !self.out.is_empty()
    }

    /// A child of this member asks for a probe.
    pub(super) fn ask_for_probe(&mut self) {
        self.out.ask_for_probe();
    }

    /// Joins the group of an invitation. Asks for probes until this member receives one, then
    /// reports it to the parent.
    fn attend(&mut self, common: &Rc<Common>, now: Instant) {
        if let Some(address) = self.invitation.take() {
            let join = |group| Membership { group, reported: false, probes: 0, next_probe: now };
            self.membership = common.join(address).map(join);
        }
        let Some(membership) = &mut self.membership else { return };
        if membership.reported {
            return;
        }
        if let Some(from) = membership.group.hears_from() {
            membership.reported = true;
            let tag = membership.group.address().tag;
            return self.out.push(Up::Hears { tag, from });
        }
        if membership.next_probe > now || membership.probes > MAX_PROBES {
            return;
        }
        membership.probes += 1;
        if membership.probes > MAX_PROBES {
            tracing::info!("no datagrams of the group arrive: large transfers use the tree");
            return;
        }
        membership.next_probe = now + PROBE_PAUSE * 2_u32.pow(membership.probes - 1);
        self.out.ask_for_probe();
    }

    /// Claims the chunks that are complete, and those whose missing parts will not come by
    /// multicast. Asks the parent for the missing parts.
    fn claim(&mut self, now: Instant) {
        let mut missing = Vec::new();
        for filled in &mut self.filled {
            let Filled::Chunk(chunk @ Chunk { payload: Payload::Awaited, .. }) = filled else {
                continue;
            };
            // A datagram that does not end a chunk may wake no task, so process datagrams now.
            chunk.group.progress();
            if matches!(chunk.group.step(&chunk.awaited, now), Step::Wait(_)) {
                continue;
            }
            let (block, holes) = match chunk.group.claim(&chunk.awaited, MAX_HOLES) {
                Some(claimed) => (Some(claimed.block), claimed.holes),
                #[allow(clippy::single_range_in_vec_init)]
                None => (None, vec![0..chunk.awaited.total]),
            };
            let into = block.as_ref().unwrap_or(&self.blocks[chunk.slot]);
            let slot = chunk.slot as u32;
            let missing_bytes = holes.iter().map(|hole| u64::from(hole.end - hole.start)).sum();
            let Awaited { number, total, .. } = chunk.awaited;
            tracing::debug!(
                number,
                total,
                missing_bytes,
                holes = holes.len(),
                "a chunk of the group"
            );
            chunk.group.missed(missing_bytes);
            missing.extend(holes.iter().map(|hole| repair(slot, into, hole)));
            chunk.payload = Payload::Here { block, holes: holes.len() };
        }
        missing.into_iter().for_each(|up| self.out.push(up));
    }

    /// The frame of the next chunk, if it is complete.
    fn take_chunk(&mut self, chunk: Chunk) -> Option<Bytes> {
        let Chunk { slot, head, group, awaited, payload } = chunk;
        let (start, end) = (PAYLOAD_AT - head.len(), PAYLOAD_AT + awaited.total as usize);
        let sent = Mark::Sent { tag: group.address().tag, number: awaited.number };
        match payload {
            Payload::Here { block: Some(mut block), holes: 0 } => {
                block.write(start, &head);
                self.grant(slot);
                Some(self.seal(block, start..end, Some(sent)))
            }
            Payload::Here { block: None, holes: 0 } => {
                self.blocks[slot].write(start, &head);
                Some(self.take_slot(slot, start..end, Some(sent)))
            }
            payload => {
                let chunk = Chunk { slot, head, group, awaited, payload };
                self.filled.push_front(Filled::Chunk(chunk));
                None
            }
        }
    }

    /// Takes the data in the block of a slot, and grants the slot again.
    fn take_slot(&mut self, slot: usize, range: Range<usize>, sent: Option<Mark>) -> Bytes {
        let is_worth = self.is_worth(&range, sent);
        let frame = match is_worth.then(|| self.pool.take()).flatten() {
            Some(other) => {
                let block = std::mem::replace(&mut self.blocks[slot], other);
                self.seal(block, range, sent)
            }
            None => self.blocks[slot].copy(range),
        };
        self.grant(slot);
        frame
    }

    /// The frame in `block`. `sent` is the payload's mark, if known.
    fn seal(&self, block: Block, range: Range<usize>, sent: Option<Mark>) -> Bytes {
        if !self.is_worth(&range, sent) {
            return block.copy(range);
        }
        let payload_at = PAYLOAD_AT - range.start.min(PAYLOAD_AT);
        let frame = block.freeze(range);
        if let Some(sent) = sent {
            self.pool.mark(&frame.slice(payload_at..), sent);
        }
        frame
    }

    /// Whether a frame should be kept in its block. A payload that came by multicast always should:
    /// a copy would lose its mark, which shows that the children have the payload too.
    fn is_worth(&self, range: &Range<usize>, sent: Option<Mark>) -> bool {
        sent.is_some() || range.len() >= self.pool.least_kept_bytes()
    }

    fn grant(&mut self, slot: usize) {
        let block = &self.blocks[slot];
        let to = Place { addr: block.addr(), rkey: block.rkey(), len: block.capacity() as u32 };
        self.out.push(Up::Grant { slot: slot as u32, to });
    }
}

impl Filled {
    fn slot(&self) -> usize {
        match self {
            Filled::Frame { slot, .. } | Filled::Chunk(Chunk { slot, .. }) => *slot,
        }
    }
}

/// Asks the parent for a hole of a chunk, to be written into this block.
fn repair(slot: u32, into: &Block, hole: &Range<u32>) -> Up {
    let addr = into.addr() + PAYLOAD_AT as u64 + u64::from(hole.start);
    let to = Place { addr, rkey: into.rkey(), len: hole.end - hole.start };
    Up::Repair { slot, offset: hole.start, to }
}
