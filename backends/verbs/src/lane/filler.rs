//! The parent's end of a bulk lane. It fills the blocks that the child grants. It writes whole
//! frames, or only the headers of chunks that the child gets by multicast. It also sends the parts
//! of those payloads that the child misses.

use super::pipe::Pipe;
use crate::error::LaneError;
use crate::fabric::Common;
use crate::guard::{RemoteAddr, Source};
use crate::message::{Announcement, Note, Place, Up};
use crate::multicast::group::{Group, Hears};
use crate::pool::{Block, Mark, Pool};
use crate::ring::RING_BYTES;
use bytes::{Buf, Bytes, BytesMut};
use std::collections::VecDeque;

/// More blocks per lane gain nothing, and the headers of chunks under way need room.
pub(crate) const MAX_BLOCKS_PER_LANE: u32 = 8;
/// Holes in one chunk that a child asks for at a time.
pub(super) const MAX_HOLES: usize = 4;
/// Room for the head of a chunk under way.
const HEAD_BYTES: usize = RING_BYTES as usize / MAX_BLOCKS_PER_LANE as usize;
/// The name of the frame in `copy`. Its payload is in no registered memory.
const COPIED: usize = usize::MAX;
/// The name of a repair: a missing part of a payload.
const REPAIRED: usize = usize::MAX - 1;
/// Room for an [`Announcement`] in front of a header.
const TOLD_BYTES: usize = 64;
/// The lane leaves the group if less than half of this much multicast data has arrived.
const TRIAL_BYTES: u64 = 4 << 20;

/// The parent's end: writes frames.
#[derive(Debug)]
pub(super) struct Filler {
    pool: Pool,
    /// Blocks of the child that may be written to.
    grants: VecDeque<(u32, Place)>,
    /// An incomplete message of the child.
    rest: BytesMut,
    /// Places for headers that no frame under way uses.
    heads: Vec<usize>,
    /// Frames with a payload outside any block are copied here, so that they can always be sent.
    copy: Block,
    copying: bool,
    shared: Shared,
}

/// The data that the child gets by multicast.
#[derive(Debug, Default)]
struct Shared {
    /// The tag of the group that the child was invited to.
    invited: Option<u64>,
    hears: Option<Hears>,
    /// By slot: announced payloads that the child has not confirmed, with their keys.
    kept: [Option<(Bytes, u32)>; MAX_BLOCKS_PER_LANE as usize],
    /// Missing parts that are not written yet: slot, payload, key, and destination.
    repairs: VecDeque<(u32, Bytes, u32, RemoteAddr)>,
    told_bytes: u64,
    repaired_bytes: u64,
}

impl Filler {
    pub(super) fn new(pool: &Pool, copy: Block) -> Filler {
        let heads = (0..MAX_BLOCKS_PER_LANE as usize).collect();
        let (grants, rest, shared) = (VecDeque::new(), BytesMut::new(), Shared::default());
        Filler { pool: pool.clone(), grants, rest, heads, copy, copying: false, shared }
    }

    /// Answers the child's requests, and sends it announcements about the group.
    pub(super) fn serve(&mut self, pipe: &Pipe, common: &Common) -> Result<(), LaneError> {
        while let Some(run) = pipe.take()? {
            self.rest.extend_from_slice(&run);
        }
        while let Some(bytes) = self.rest.first_chunk::<{ Up::BYTES }>() {
            let up = Up::decode(bytes);
            self.rest.advance(Up::BYTES);
            match up {
                Some(up) => self.on_up(pipe, common, up)?,
                None => return Err(pipe.breach("it sent an unknown message up a bulk lane")),
            }
        }
        self.repair(pipe)?;
        match common.group() {
            Some(group) if self.shared.invited != Some(group.address().tag) => {
                self.invite(pipe, &group)
            }
            _ => Ok(()),
        }
    }

    fn on_up(&mut self, pipe: &Pipe, common: &Common, up: Up) -> Result<(), LaneError> {
        match up {
            Up::Grant { slot, to } => {
                let is_known = self.grants.iter().any(|(other, _)| *other == slot);
                if slot >= MAX_BLOCKS_PER_LANE || is_known {
                    return Err(pipe.breach("it granted a block twice"));
                }
                self.shared.kept[slot as usize] = None;
                self.grants.push_back((slot, to));
            }
            Up::Repair { slot, offset, to } => {
                if !self.shared.on_repair(slot, offset, to) {
                    return Err(pipe.breach("it misses a chunk that was not announced to it"));
                }
                common.group().iter().for_each(|group| group.missed(to.len.into()));
            }
            Up::Probe => common.group().iter().for_each(|group| group.child_asks()),
            Up::Hears { tag, from } => {
                let group = common.group().filter(|group| group.address().tag == tag);
                if let Some(group) = group.filter(|_| self.shared.invited == Some(tag)) {
                    self.shared.hears = Some(group.child_hears(from));
                }
            }
        }
        Ok(())
    }

    /// Writes the parts that the child misses, as long as send requests are free.
    fn repair(&mut self, pipe: &Pipe) -> Result<(), LaneError> {
        while pipe.has_request() {
            let Some((slot, payload, key, to)) = self.shared.repairs.pop_front() else { break };
            let sources = [Some(Source::Bytes(payload, key)), None];
            pipe.put_frame(REPAIRED, sources, to, Note::Repaired(slot))?;
        }
        Ok(())
    }

    fn invite(&mut self, pipe: &Pipe, group: &Group) -> Result<(), LaneError> {
        if !self.is_ready(pipe) {
            return Ok(());
        }
        let address = group.address();
        if self.write_announcement(pipe, &Announcement::Group(address).encode())?.is_some() {
            self.shared = Shared {
                invited: Some(address.tag),
                kept: std::mem::take(&mut self.shared.kept),
                repairs: std::mem::take(&mut self.shared.repairs),
                ..Shared::default()
            };
        }
        Ok(())
    }

    /// Writes an [`Announcement`] to the next block. Returns its slot, if it could be written.
    fn write_announcement(
        &mut self,
        pipe: &Pipe,
        announcement: &[u8],
    ) -> Result<Option<u32>, LaneError> {
        let (Some((slot, to)), Some(name)) = (self.grants.pop_front(), self.heads.pop()) else {
            return Ok(None);
        };
        if announcement.len() > to.len as usize {
            let (peer, len, block) = (pipe.peer, announcement.len(), to.len as usize);
            return Err(LaneError::TooLong { peer, len, block });
        }
        let announcement = pipe.lay_down(name * HEAD_BYTES, announcement);
        let to = RemoteAddr { addr: to.addr, rkey: to.rkey };
        pipe.put_frame(name, [Some(announcement), None], to, Note::Announced(slot))?;
        Ok(Some(slot))
    }

    /// The frame of this name has been delivered.
    pub(super) fn delivered(&mut self, name: usize) {
        match name {
            COPIED => self.copying = false,
            REPAIRED => {}
            name => self.heads.push(name),
        }
    }

    /// Whether a frame could be written now.
    pub(super) fn is_ready(&self, pipe: &Pipe) -> bool {
        pipe.has_request() && !self.grants.is_empty() && !self.heads.is_empty() && !self.copying
    }

    /// Whether a missing part waits for a free send request.
    pub(super) fn waits(&self) -> bool {
        !self.shared.repairs.is_empty()
    }

    /// Writes the frame whose header and payload are in `out`. Returns whether it could be written
    /// now.
    pub(super) fn put(
        &mut self,
        pipe: &Pipe,
        common: &Common,
        out: &mut VecDeque<Bytes>,
    ) -> Result<bool, LaneError> {
        if out.is_empty() {
            return Ok(true);
        }
        if !self.is_ready(pipe) {
            return Ok(false);
        }
        let len = out.iter().map(Bytes::len).sum::<usize>();
        if let Some((_, grant)) = self.grants.front()
            && (len > grant.len as usize || len > self.copy.capacity())
        {
            let block = grant.len as usize;
            return Err(LaneError::TooLong { peer: pipe.peer, len, block });
        }
        let (head, payload) = (out.pop_front().unwrap_or_default(), out.pop_front());
        let payload = payload.unwrap_or_default();
        let key = self.pool.key_of(&payload).filter(|_| out.is_empty());
        if let Some(key) = key.filter(|_| head.len() + TOLD_BYTES <= HEAD_BYTES)
            && let Some(number) = self.number(common, pipe, &payload, key)
        {
            self.share(pipe, number, &head, payload, key)?;
            return Ok(true);
        }
        let Some((slot, to)) = self.grants.pop_front() else { return Ok(false) };
        let to = RemoteAddr { addr: to.addr, rkey: to.rkey };
        match (key, self.heads.last()) {
            (Some(key), Some(&name)) if head.len() <= HEAD_BYTES => {
                self.heads.pop();
                let head = pipe.lay_down(name * HEAD_BYTES, &head);
                let sources = [Some(head), Some(Source::Bytes(payload, key))];
                pipe.put_frame(name, sources, to, Note::Block(slot))?;
            }
            _ => {
                let mut end = 0;
                for part in [head, payload].into_iter().chain(out.drain(..)) {
                    self.copy.write(end, &part);
                    end += part.len();
                }
                self.copying = true;
                pipe.put_frame(COPIED, [self.copy.source(len), None], to, Note::Block(slot))?;
            }
        }
        Ok(true)
    }

    /// The number under which the child has received `payload` from the group, or soon will. The
    /// first lane that sends a payload for many members sends it to the group.
    fn number(&mut self, common: &Common, pipe: &Pipe, payload: &Bytes, key: u32) -> Option<u64> {
        let from = self.shared.hears.as_ref()?.from;
        let group = common.group().filter(|it| self.shared.invited == Some(it.address().tag))?;
        if self.shared.is_in_vain() {
            tracing::warn!(
                peer = %pipe.peer,
                "most multicast frames do not arrive at this peer: it gets large transfers by the \
                 tree"
            );
            self.shared.hears = None;
            return None;
        }
        match self.pool.mark_of(payload)? {
            Mark::Sent { tag, number } => {
                let has_come = tag == group.address().tag && number >= from;
                Some(number).filter(|_| has_come && group.is_recent(number))
            }
            Mark::ForMany => {
                let (tag, number) = (group.address().tag, group.send(payload, key)?);
                self.pool.mark(payload, Mark::Sent { tag, number });
                Some(number)
            }
        }
    }

    /// Sends the header of a chunk while the payload is sent to the group. Keeps the payload until
    /// the child has it. The child shows it by granting the block again.
    fn share(
        &mut self,
        pipe: &Pipe,
        number: u64,
        head: &[u8],
        payload: Bytes,
        key: u32,
    ) -> Result<(), LaneError> {
        // The payload fits in a block, and a block is far shorter than 4 GiB.
        let total = payload.len() as u32;
        let announcement = [&Announcement::Chunk { number, total }.encode(), head].concat();
        if let Some(slot) = self.write_announcement(pipe, &announcement)? {
            self.shared.told_bytes += u64::from(total);
            self.shared.kept[slot as usize] = Some((payload, key));
        }
        Ok(())
    }
}

impl Shared {
    /// The child misses a part of a payload. Returns false if the request is invalid.
    fn on_repair(&mut self, slot: u32, offset: u32, to: Place) -> bool {
        let kept = self.kept.get(slot as usize).and_then(Option::as_ref);
        let Some((payload, key)) = kept else { return false };
        let (start, len) = (offset as usize, to.len as usize);
        let holes = MAX_HOLES * MAX_BLOCKS_PER_LANE as usize;
        let fits = start.checked_add(len).is_some_and(|end| end <= payload.len());
        if len == 0 || !fits || self.repairs.len() >= holes {
            return false;
        }
        self.repaired_bytes += len as u64;
        let to = RemoteAddr { addr: to.addr, rkey: to.rkey };
        self.repairs.push_back((slot, payload.slice(start..start + len), *key, to));
        true
    }

    /// Whether less than half of the multicast data arrives.
    fn is_in_vain(&mut self) -> bool {
        if self.told_bytes < TRIAL_BYTES {
            return false;
        }
        let is_in_vain = self.repaired_bytes > self.told_bytes / 2;
        (self.told_bytes, self.repaired_bytes) = (self.told_bytes / 2, self.repaired_bytes / 2);
        is_in_vain
    }
}
