//! Registered blocks of one size: pieces of large transfers arrive in them, stay in them
//! while they wait for their place in the order, are passed on to the children from
//! them, and may end as a part of global memory without having been copied.
//!
//! A block has one owner at a time: a [`Block`] can be written, and given to another
//! node to write to; [`Block::freeze`] makes [`Bytes`] of it, after which nobody does.
//! When these are gone it is used again. Memory is registered when it is first needed and
//! stays so: to register costs more than a copy.

use crate::VerbsError;
use crate::guard::{Access, MemoryRegion, ProtectionDomain, Source};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Blocks that are registered together: what one lane begins with.
const BLOCKS_PER_REGION: usize = 4;
/// For what is shorter than this part of a block the block is not worth keeping.
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
    /// By their first address.
    regions: BTreeMap<u64, Arc<MemoryRegion>>,
    free: Vec<Place>,
    /// By the first address of the block: what a payload in it is to the group.
    marks: BTreeMap<u64, (Range<u64>, Mark)>,
    /// The system has refused more; it was said once.
    refused: bool,
}

#[derive(Clone, Debug)]
struct Place {
    region: Arc<MemoryRegion>,
    offset: usize,
}

/// A block that is nobody else's.
#[derive(Debug)]
pub struct Block {
    pool: Pool,
    /// `None` only while it is dropped.
    place: Option<Place>,
}

/// A block that nobody writes to any more.
struct Frozen {
    block: Block,
    range: Range<usize>,
}

/// What a payload is to the group of all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Most of them need it.
    ForMany,
    /// They have it, or are about to, as a chunk of the group.
    Sent {
        /// Which group.
        tag: u64,
        /// The number of the chunk.
        number: u64,
    },
}

impl Pool {
    /// A pool with its first blocks, so that what stands in the way is known at once.
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

    /// What is shorter is copied out of its block, which is used again at once.
    pub fn least_kept_bytes(&self) -> usize {
        self.shared.block_bytes.div_ceil(WORTH_KEEPING)
    }

    /// A block that is free; `None` when all are in use and there may be no more.
    pub fn take(&self) -> Option<Block> {
        let mut inner = self.inner();
        if inner.free.is_empty() && !inner.refused {
            let count = inner.regions.len() * BLOCKS_PER_REGION;
            let grown = match count < self.shared.max_blocks {
                true => self.grow(&mut inner),
                false => return None,
            };
            if let Err(error) = grown {
                tracing::warn!(%error, "large transfers go on with {count} blocks, by copies");
                inner.refused = true;
            }
        }
        let place = inner.free.pop()?;
        Some(Block { pool: self.clone(), place: Some(place) })
    }

    /// A block for what cannot do without, beyond the number that there may be if need be.
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
        // It has just grown, and is still locked.
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

    /// `data` in a block, where there is one and it fits.
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

    /// Remembers what `payload` is, which is all of a payload in a block, as long as the
    /// block is in use.
    pub fn mark(&self, payload: &Bytes, mark: Mark) {
        let start = payload.as_ptr() as u64;
        let mut inner = self.inner();
        if let Some(block) = self.block_of(&inner, start) {
            inner.marks.insert(block, (start..start + payload.len() as u64, mark));
        }
    }

    /// What `payload` is, if it is all of one that was marked.
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

    /// How many blocks are registered, and how many of them are free.
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
        // The lists are whole whenever they are not locked.
        self.shared.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Block {
    /// Its address, for another node to write to.
    pub fn addr(&self) -> u64 {
        self.place.as_ref().map_or(0, |place| place.region.addr() + place.offset as u64)
    }

    /// The key that goes with it.
    pub fn rkey(&self) -> u32 {
        self.place.as_ref().map_or(0, |place| place.region.rkey())
    }

    /// Length in bytes.
    pub fn capacity(&self) -> usize {
        self.pool.block_bytes()
    }

    /// Its first `len` bytes as what a request reads. The block must be kept, and not
    /// written, until the request is complete.
    ///
    /// # Panics
    /// When it has fewer.
    pub(crate) fn source(&self, len: usize) -> Option<Source> {
        assert!(len <= self.capacity(), "in the block");
        let place = self.place.as_ref()?;
        Some(Source::Part(place.region.clone(), place.offset..place.offset + len))
    }

    /// Copies `data` to `at`.
    ///
    /// # Panics
    /// When it does not fit.
    pub fn write(&mut self, at: usize, data: &[u8]) {
        assert!(at + data.len() <= self.capacity(), "in the block");
        if let Some(place) = &self.place {
            // SAFETY: a slice of this place borrows the block, which is borrowed here for writing.
            unsafe { place.region.write(place.offset + at, data) };
        }
    }

    /// The bytes of `range`, which nobody writes to any more: a node that it was given to
    /// has said so.
    ///
    /// # Panics
    /// When it has fewer.
    pub fn freeze(self, range: Range<usize>) -> Bytes {
        assert!(range.start <= range.end && range.end <= self.capacity(), "in the block");
        Bytes::from_owner(Frozen { block: self, range })
    }

    /// A copy of the bytes of `range`.
    ///
    /// # Panics
    /// When it has fewer.
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
        // SAFETY: the block is this value's alone, and it does not write. A node that was
        // given the block has announced that it is full, and is told of it anew only when
        // it is a `Block` again. A member that writes all the same breaks the protocol and
        // its promise to the cluster whose key it holds; no adapter can be told to forget
        // a key for one write (that is what memory windows cost two more requests for).
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
