//! Registered blocks of one size. Pieces of large transfers arrive in blocks and stay there while
//! they wait for their place in the order. They are passed on to the children from there, and may
//! become part of global memory without a copy.
//!
//! A block has one owner at a time. A [`Block`] can be written, or given to another node to write
//! to. [`Block::freeze`] turns it into [`Bytes`], which are never written. When the bytes are
//! dropped, the block is used again. Memory is registered when first needed and stays registered,
//! because registering costs more than a copy.

use crate::VerbsError;
use crate::guard::{Access, MemoryRegion, ProtectionDomain, Source};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Blocks that are registered together: the first blocks of a lane.
const BLOCKS_PER_REGION: usize = 4;
/// Data shorter than this fraction of a block is copied, and does not keep the block.
const WORTH_KEEPING: usize = 4;

/// Blocks of one member. Clones share them.
#[derive(Clone, Debug)]
pub struct Pool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    domain: Arc<ProtectionDomain>,
    block_bytes: usize,
    max_blocks: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The regions by their first address.
    regions: BTreeMap<u64, Arc<MemoryRegion>>,
    free: Vec<Place>,
    /// The mark of the payload in a block, by the first address of the block.
    marks: BTreeMap<u64, (Range<u64>, Mark)>,
    /// The system has refused more memory, which was logged once.
    refused: bool,
}

#[derive(Clone, Debug)]
struct Place {
    region: Arc<MemoryRegion>,
    offset: usize,
}

/// A block with one owner.
#[derive(Debug)]
pub struct Block {
    pool: Pool,
    /// `None` only while it is being dropped.
    place: Option<Place>,
}

/// A block that is not written any more.
struct Frozen {
    block: Block,
    range: Range<usize>,
}

/// The state of a payload in the multicast group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Most members need it.
    ForMany,
    /// The members have received the data as a chunk of the group, or soon will.
    Sent {
        /// The group's tag.
        tag: u64,
        /// The number of the chunk.
        number: u64,
    },
}

impl Pool {
    /// A pool with its first blocks, so that errors appear at once.
    ///
    /// # Errors
    /// [`VerbsError::LockedMemory`].
    pub fn new(
        domain: &Arc<ProtectionDomain>,
        block_bytes: usize,
        max_blocks: usize,
    ) -> Result<Pool, VerbsError> {
        let (domain, inner) = (domain.clone(), Mutex::default());
        let shared = Arc::new(Shared { domain, block_bytes, max_blocks, inner });
        let pool = Pool { shared };
        pool.grow(&mut pool.inner())?;
        Ok(pool)
    }

    /// The protection domain of the blocks.
    pub fn domain(&self) -> &Arc<ProtectionDomain> {
        &self.shared.domain
    }

    /// Length of a block.
    pub fn block_bytes(&self) -> usize {
        self.shared.block_bytes
    }

    /// Data shorter than this is copied out of its block, and the block is reused at once.
    pub fn least_kept_bytes(&self) -> usize {
        self.shared.block_bytes.div_ceil(WORTH_KEEPING)
    }

    /// A free block; `None` if all are in use and the limit is reached.
    pub fn take(&self) -> Option<Block> {
        let mut inner = self.inner();
        if inner.free.is_empty() && !inner.refused {
            let count = inner.regions.len() * BLOCKS_PER_REGION;
            let grown = match count < self.shared.max_blocks {
                true => self.grow(&mut inner),
                false => return None,
            };
            if let Err(error) = grown {
                tracing::warn!(%error, "large transfers use only {count} blocks and copy their \
                                        data");
                inner.refused = true;
            }
        }
        let place = inner.free.pop()?;
        Some(Block { pool: self.clone(), place: Some(place) })
    }

    /// A block for a caller that must have one, if necessary beyond the limit.
    ///
    /// # Errors
    /// [`VerbsError::LockedMemory`].
    pub fn reserve(&self) -> Result<Block, VerbsError> {
        if let Some(block) = self.take() {
            return Ok(block);
        }
        let mut inner = self.inner();
        if inner.free.is_empty() {
            self.grow(&mut inner)?;
        }
        // The pool has just grown and is still locked, so a block is free.
        Ok(Block { pool: self.clone(), place: inner.free.pop() })
    }

    /// The local key to `bytes` if they lie in a block.
    pub fn key_of(&self, bytes: &Bytes) -> Option<u32> {
        let start = bytes.as_ptr() as u64;
        let inner = self.inner();
        let (first, region) = inner.regions.range(..=start).next_back()?;
        let end = start.checked_add(bytes.len() as u64)?;
        (end <= first + region.len() as u64).then(|| region.lkey())
    }

    /// Copies `data` to a block, if there is one and the data fits.
    pub fn place(&self, data: Bytes) -> Bytes {
        if data.len() > self.block_bytes() || self.key_of(&data).is_some() {
            return data;
        }
        match self.take() {
            Some(mut block) => {
                block.write(0, &data);
                block.freeze(0..data.len())
            }
            None => data,
        }
    }

    /// Marks `payload`, the whole payload of a block, until the block is free again.
    pub fn mark(&self, payload: &Bytes, mark: Mark) {
        let start = payload.as_ptr() as u64;
        let mut inner = self.inner();
        if let Some(block) = self.block_of(&inner, start) {
            inner.marks.insert(block, (start..start + payload.len() as u64, mark));
        }
    }

    /// The mark of `payload`, if it is the whole of a marked payload.
    pub fn mark_of(&self, payload: &Bytes) -> Option<Mark> {
        let start = payload.as_ptr() as u64;
        let inner = self.inner();
        let (range, mark) = inner.marks.get(&self.block_of(&inner, start)?)?;
        (*range == (start..start + payload.len() as u64)).then_some(*mark)
    }

    /// The first address of the block in which `addr` lies.
    fn block_of(&self, inner: &Inner, addr: u64) -> Option<u64> {
        let (first, region) = inner.regions.range(..=addr).next_back()?;
        let at = addr - first;
        let in_block = at % self.shared.block_bytes as u64;
        (at < region.len() as u64).then_some(addr - in_block)
    }

    /// The number of registered blocks, and of the free ones among them.
    pub fn blocks(&self) -> (usize, usize) {
        let inner = self.inner();
        (inner.regions.len() * BLOCKS_PER_REGION, inner.free.len())
    }

    fn grow(&self, inner: &mut Inner) -> Result<(), VerbsError> {
        let len = self.shared.block_bytes * BLOCKS_PER_REGION;
        let region = MemoryRegion::new(&self.shared.domain, len, Access::RemoteWrite)?;
        let region = Arc::new(region);
        let offsets = (0..BLOCKS_PER_REGION).map(|at| at * self.shared.block_bytes);
        inner.free.extend(offsets.map(|offset| Place { region: region.clone(), offset }));
        inner.regions.insert(region.addr(), region);
        Ok(())
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // The lists are consistent whenever they are unlocked, so poisoning does no harm.
        self.shared.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Block {
    /// The address, for another node to write to.
    pub fn addr(&self) -> u64 {
        self.place.as_ref().map_or(0, |place| place.region.addr() + place.offset as u64)
    }

    /// The key to the block.
    pub fn rkey(&self) -> u32 {
        self.place.as_ref().map_or(0, |place| place.region.rkey())
    }

    /// Length in bytes.
    pub fn capacity(&self) -> usize {
        self.pool.block_bytes()
    }

    /// Its first `len` bytes as the source of a request. The caller must keep the block, and not
    /// write to it, until the request is complete.
    ///
    /// # Panics
    /// If the block is shorter.
    pub(crate) fn source(&self, len: usize) -> Option<Source> {
        assert!(len <= self.capacity(), "in the block");
        let place = self.place.as_ref()?;
        Some(Source::Part(place.region.clone(), place.offset..place.offset + len))
    }

    /// Copies `data` to `at`.
    ///
    /// # Panics
    /// If it does not fit.
    pub fn write(&mut self, at: usize, data: &[u8]) {
        assert!(at + data.len() <= self.capacity(), "in the block");
        if let Some(place) = &self.place {
            // SAFETY: a slice of this place borrows the block, and `&mut self` excludes such a
            // borrow.
            unsafe { place.region.write(place.offset + at, data) };
        }
    }

    /// The bytes of `range`, which are not written any more. A node that was given the block has
    /// reported that it is done.
    ///
    /// # Panics
    /// If the block is shorter.
    pub fn freeze(self, range: Range<usize>) -> Bytes {
        assert!(range.start <= range.end && range.end <= self.capacity(), "in the block");
        Bytes::from_owner(Frozen { block: self, range })
    }

    /// A copy of the bytes of `range`.
    ///
    /// # Panics
    /// If the block is shorter.
    pub fn copy(&self, range: Range<usize>) -> Bytes {
        assert!(range.start <= range.end && range.end <= self.capacity(), "in the block");
        match &self.place {
            Some(place) => {
                let range = place.offset + range.start..place.offset + range.end;
                Bytes::from(place.region.read(range))
            }
            None => Bytes::new(),
        }
    }
}

impl AsRef<[u8]> for Frozen {
    fn as_ref(&self) -> &[u8] {
        let Some(place) = &self.block.place else { return &[] };
        let range = place.offset + self.range.start..place.offset + self.range.end;
        // SAFETY: the block belongs to this value alone, which does not write. A node that was
        // given the block has reported that it is full, and may write again only after the next
        // grant. A member that writes nevertheless breaks the protocol, although it holds the
        // cluster's key. No adapter can revoke a key for one write (memory windows can, for two
        // more requests).
        unsafe { place.region.slice(range) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            let mut inner = self.pool.inner();
            inner.marks.remove(&(place.region.addr() + place.offset as u64));
            inner.free.push(place);
        }
    }
}
