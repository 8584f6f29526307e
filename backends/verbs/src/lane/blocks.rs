//! What bulk lanes do besides: the child grants blocks, the parent fills them.

use super::pipe::Pipe;
use crate::error::LaneError;
use crate::guard::RemoteAddr;
use crate::message::Grant;
use crate::pool::{Block, Pool};
use crate::ring::RING_BYTES;
use bytes::{Buf, Bytes, BytesMut};
use std::collections::VecDeque;

/// More blocks per lane gain nothing, and the heads of chunks under way need room.
pub(crate) const MAX_BLOCKS_PER_LANE: u32 = 8;
/// Room for the head of a chunk under way.
const HEAD_BYTES: usize = RING_BYTES as usize / MAX_BLOCKS_PER_LANE as usize;
/// What the frame is called that is copied, as its payload lies in no registered memory.
const COPIED: usize = usize::MAX;
/// Of a frame that is shorter than this part of its block, the block is not worth keeping.
const WORTH_KEEPING: usize = 4;

/// The parent's end: writes frames.
#[derive(Debug)]
pub(super) struct Filler {
    pool: Pool,
    /// Blocks of the child that may be written to.
    grants: VecDeque<Grant>,
    /// A part of a grant.
    rest: BytesMut,
    /// Places for heads that no frame under way uses.
    heads: Vec<usize>,
    /// Where frames are copied to whose payload lies in no block; so there is always a way.
    copy: Block,
    copying: bool,
}

impl Filler {
    pub(super) fn new(pool: &Pool, copy: Block) -> Filler {
        let heads = (0..MAX_BLOCKS_PER_LANE as usize).collect();
        let (grants, rest) = (VecDeque::new(), BytesMut::new());
        Filler { pool: pool.clone(), grants, rest, heads, copy, copying: false }
    }

    /// Takes the grants that have come.
    pub(super) fn take_grants(&mut self, pipe: &Pipe) -> Result<(), LaneError> {
        while let Some(run) = pipe.take()? {
            self.rest.extend_from_slice(&run);
        }
        while let Some(bytes) = self.rest.first_chunk::<{ Grant::BYTES }>() {
            let grant = Grant::decode(bytes);
            self.rest.advance(Grant::BYTES);
            let is_known = self.grants.iter().any(|other| other.slot == grant.slot);
            if grant.slot >= MAX_BLOCKS_PER_LANE || is_known {
                return Err(pipe.breach("a block was granted twice"));
            }
            self.grants.push_back(grant);
        }
        Ok(())
    }

    /// This frame is delivered.
    pub(super) fn delivered(&mut self, name: usize) {
        if name == COPIED {
            self.copying = false;
        } else {
            self.heads.push(name);
        }
    }

    /// Whether any frame could be written now.
    pub(super) fn is_ready(&self, pipe: &Pipe) -> bool {
        pipe.has_request() && !self.grants.is_empty() && !self.heads.is_empty() && !self.copying
    }

    /// Writes the frame whose head and payload `out` has; whether it could be done now.
    pub(super) fn put(
        &mut self,
        pipe: &Pipe,
        out: &mut VecDeque<Bytes>,
    ) -> Result<bool, LaneError> {
        if out.is_empty() {
            return Ok(true);
        }
        if !self.is_ready(pipe) {
            return Ok(false);
        }
        let Some(grant) = self.grants.pop_front() else { return Ok(false) };
        let len = out.iter().map(Bytes::len).sum::<usize>();
        if len > grant.len as usize || len > self.copy.capacity() {
            let block = grant.len as usize;
            return Err(LaneError::TooLong { peer: pipe.peer, len, block });
        }
        let to = RemoteAddr { addr: grant.addr, rkey: grant.rkey };
        let (head, payload) = (out.pop_front().unwrap_or_default(), out.pop_front());
        let payload = payload.unwrap_or_default();
        let key = self.pool.key_of(&payload).filter(|_| out.is_empty());
        match (key, self.heads.last()) {
            (Some(key), Some(&name)) if head.len() <= HEAD_BYTES => {
                self.heads.pop();
                let head = pipe.lay_down(name * HEAD_BYTES, &head);
                let payload = crate::guard::Source::Bytes(payload, key);
                pipe.put_frame(name, [Some(head), Some(payload)], to, grant.slot)?;
            }
            _ => {
                let mut end = 0;
                for part in [head, payload].into_iter().chain(out.drain(..)) {
                    self.copy.write(end, &part);
                    end += part.len();
                }
                self.copying = true;
                pipe.put_frame(COPIED, [self.copy.source(len), None], to, grant.slot)?;
            }
        }
        Ok(true)
    }
}

/// The child's end: grants blocks and hands on what they were filled with.
#[derive(Debug)]
pub(super) struct Granter {
    pool: Pool,
    /// The blocks that are granted or filled, by their slots.
    blocks: Vec<Block>,
    /// Slots and lengths of those that are filled.
    filled: VecDeque<(usize, usize)>,
    /// Grants that are to be sent.
    out: VecDeque<Bytes>,
}

impl Granter {
    pub(super) fn new(pool: &Pool, blocks: Vec<Block>) -> Granter {
        let (filled, out) = (VecDeque::new(), VecDeque::new());
        let mut granter = Granter { pool: pool.clone(), blocks, filled, out };
        (0..granter.blocks.len()).for_each(|slot| granter.grant(slot));
        granter
    }

    /// The parent has filled a block.
    pub(super) fn on_filled(&mut self, pipe: &Pipe, slot: u32, len: u32) -> Result<(), LaneError> {
        let (slot, len) = (slot as usize, len as usize);
        let is_granted = slot < self.blocks.len()
            && self.filled.iter().all(|(other, _)| *other != slot)
            && (1..=self.blocks[slot].capacity()).contains(&len);
        if !is_granted {
            return Err(pipe.breach("a block was filled that was not granted"));
        }
        self.filled.push_back((slot, len));
        Ok(())
    }

    /// The next frame. Its block is replaced, or else copied from, and granted again.
    pub(super) fn take(&mut self, pipe: &Pipe) -> Result<Option<Bytes>, LaneError> {
        let Some((slot, len)) = self.filled.pop_front() else { return Ok(None) };
        let is_worth = len >= self.blocks[slot].capacity() / WORTH_KEEPING;
        let frame = match is_worth.then(|| self.pool.take()).flatten() {
            Some(other) => std::mem::replace(&mut self.blocks[slot], other).freeze(len),
            None => self.blocks[slot].copy(len),
        };
        self.grant(slot);
        self.send_grants(pipe)?;
        Ok(Some(frame))
    }

    /// Sends the grants that there is room for.
    pub(super) fn send_grants(&mut self, pipe: &Pipe) -> Result<(), LaneError> {
        pipe.put(&mut self.out).map(drop)
    }

    /// Whether there are grants that there was no room for.
    pub(super) fn waits(&self) -> bool {
        !self.out.is_empty()
    }

    fn grant(&mut self, slot: usize) {
        let block = &self.blocks[slot];
        let (addr, rkey, len) = (block.addr(), block.rkey(), block.capacity() as u32);
        let grant = Grant { slot: slot as u32, addr, rkey, len };
        self.out.push_back(Bytes::copy_from_slice(&grant.encode()));
    }
}
