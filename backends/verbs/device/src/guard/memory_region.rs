//! Memory that adapters can read and write. It is mapped, locked and registered in one piece, and
//! released in the reverse order.
//!
//! Adapters write to it, and the compiler does not know. The only way to a slice is therefore
//! [`MemoryRegion::slice`]. It is unsafe: the caller must show that neither the process nor an
//! adapter writes.

use super::device::limit_that_stops;
use super::protection_domain::ProtectionDomain;
use crate::VerbsError;
use crate::abi::{self, ACCESS_LOCAL_WRITE, ACCESS_REMOTE_WRITE};
use bytes::{BufMut, BytesMut};
use nix::errno::Errno;
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::io;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that are read atomically.
const WORD: usize = 8;

/// The access of adapters to a region. Choose the least that the use needs. Every local adapter may
/// read a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The local adapter reads the data it sends.
    Read,
    /// The local adapter writes data that arrives at a receive request.
    Receive,
    /// Remote adapters that know the key write to it.
    RemoteWrite,
}

impl Access {
    /// `enum ibv_access_flags`; remote write needs local write (ibv_reg_mr(3)).
    fn flags(self) -> u32 {
        match self {
            Access::Read => 0,
            Access::Receive => ACCESS_LOCAL_WRITE,
            Access::RemoteWrite => ACCESS_LOCAL_WRITE | ACCESS_REMOTE_WRITE,
        }
    }
}

/// Zeroed memory for the local adapter. `Access` decides what remote adapters with its key may do.
pub struct MemoryRegion {
    domain: Arc<ProtectionDomain>,
    region: NonNull<abi::MemoryRegion>,
    start: NonNull<c_void>,
    len: usize,
    lkey: u32,
    rkey: u32,
}

// SAFETY: the memory belongs to the process. Writes to it go through raw pointers, or need `&mut`
// access to the part's only owner (`pool::Block`).
unsafe impl Send for MemoryRegion {}
// SAFETY: as above.
unsafe impl Sync for MemoryRegion {}

impl MemoryRegion {
    /// A region of `len` bytes, not 0, for this use.
    ///
    /// # Errors
    /// [`VerbsError::LockedMemory`] if this process may not lock that much.
    pub fn new(
        domain: &Arc<ProtectionDomain>,
        len: usize,
        access: Access,
    ) -> Result<MemoryRegion, VerbsError> {
        let device = domain.device();
        let size = NonZeroUsize::new(len).unwrap_or(NonZeroUsize::MIN);
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let unmapped = |call, errno: Errno| {
            let (device, source) = (device.name().to_owned(), io::Error::from(errno));
            VerbsError::Call { call, device, source }
        };
        // SAFETY: a new anonymous mapping, at an address of the system's choice.
        let start = unsafe { mmap_anonymous(None, size, protection, MapFlags::MAP_PRIVATE) }
            .map_err(|errno| unmapped("mmap", errno))?;
        // After a fork, this process could be left with copies of the pages, which no adapter knows
        // (ibv_fork_init(3)). SAFETY: the mapping was just made, and the advice changes nothing for
        // this process.
        let advised = unsafe { madvise(start, size.get(), MmapAdvise::MADV_DONTFORK) };
        let access = access.flags() as i32;
        let region = match advised {
            // SAFETY: the domain is alive, and the mapping has the given length.
            Ok(()) => unsafe {
                (device.functions().reg_mr)(domain.as_ptr(), start.as_ptr(), size.get(), access)
            },
            Err(_) => std::ptr::null_mut(),
        };
        let Some(region) = NonNull::new(region) else {
            let error = why_not(domain, size.get());
            // SAFETY: the mapping was just made, and no reference to it exists.
            let _ = unsafe { munmap(start, size.get()) };
            return Err(error);
        };
        // SAFETY: the library has just made the region, and never changes its keys.
        let (lkey, rkey) = unsafe { ((*region.as_ptr()).lkey, (*region.as_ptr()).rkey) };
        Ok(MemoryRegion { domain: domain.clone(), region, start, len: size.get(), lkey, rkey })
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Always false: a region has at least one byte.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The region's address in this process. Other nodes use the same address.
    pub fn addr(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    /// The key by which the local adapter uses the region.
    pub fn lkey(&self) -> u32 {
        self.lkey
    }

    /// The key by which a remote adapter may write to the region, if its `Access` allows it.
    pub fn rkey(&self) -> u32 {
        self.rkey
    }

    pub(super) fn domain(&self) -> &Arc<ProtectionDomain> {
        &self.domain
    }

    /// Copies `data` to `at`, in a region that no other node knows yet.
    ///
    /// # Panics
    /// If the data does not fit.
    pub fn fill(&mut self, at: usize, data: &[u8]) {
        // SAFETY: a slice would borrow this region, and `&mut self` excludes such a borrow.
        unsafe { self.write(at, data) };
    }

    /// Copies `data` to `at`. An adapter that reads these bytes at the same time gets a mixture of
    /// old and new bytes. The caller must prevent such a read to send correct data; memory safety
    /// does not depend on it.
    ///
    /// # Safety
    /// No [`slice`](Self::slice) of these bytes is alive.
    ///
    /// # Panics
    /// If the data does not fit.
    pub unsafe fn write(&self, at: usize, data: &[u8]) {
        self.check(at..at + data.len());
        // SAFETY: the range lies in the mapping. The caller guarantees that there is no reference
        // into it.
        unsafe {
            let to = self.start.as_ptr().cast::<u8>().add(at);
            std::ptr::copy_nonoverlapping(data.as_ptr(), to, data.len());
        }
    }

    /// Copies the bytes of `range` out.
    ///
    /// # Panics
    /// `range` is not in the region.
    pub fn read(&self, range: Range<usize>) -> Vec<u8> {
        let mut out = Vec::with_capacity(range.len());
        self.read_into(range, &mut out);
        out
    }

    /// Appends the bytes of `range` to `out`.
    ///
    /// # Panics
    /// `range` is not in the region, or `out` has no room for it.
    #[inline]
    pub fn read_into(&self, range: Range<usize>, out: &mut impl BufMut) {
        self.check(range.clone());
        let room = out.chunk_mut();
        assert!(range.len() <= room.len(), "there is room");
        // SAFETY: the range lies in the mapping, and `room` is as long. If an adapter writes
        // meanwhile, the bytes have unspecified values. The bytes counted by `set_len` are then
        // initialised.
        unsafe {
            let from = self.start.as_ptr().cast::<u8>().add(range.start);
            std::ptr::copy_nonoverlapping(from, room.as_mut_ptr(), range.len());
            out.advance_mut(range.len());
        }
    }

    /// Reads the eight bytes at `at`, a multiple of eight, atomically with acquire ordering. Later
    /// reads see the memory as it was at this read or later.
    ///
    /// # Panics
    /// The bytes are not in the region, or `at` is not a multiple of eight.
    #[inline]
    pub fn word(&self, at: usize) -> u64 {
        self.word_at(at, Ordering::Acquire)
    }

    /// Appends the `len` bytes at `at`, a multiple of eight, to `out`, word by word. Passes each
    /// copied word to `each`, the last padded with zeros. If an adapter writes to the bytes
    /// meanwhile, `each` still gets exactly the words that were copied.
    ///
    /// # Panics
    /// The words are not in the region, `out` has no room for them, or `at` is not a multiple of
    /// eight.
    #[inline]
    pub fn read_words(&self, at: usize, len: usize, out: &mut BytesMut, mut each: impl FnMut(u64)) {
        let room = out.spare_capacity_mut();
        assert!(len.div_ceil(WORD) * WORD <= room.len(), "there is room");
        let to = room.as_mut_ptr().cast::<u8>();
        for word_at in (0..len).step_by(WORD) {
            let mut word = self.word_at(at + word_at, Ordering::Relaxed);
            let missing = (WORD + word_at).saturating_sub(len);
            if missing > 0 {
                word &= u64::MAX >> (8 * missing);
            }
            each(word);
            // SAFETY: the room holds this many whole words, as asserted above.
            unsafe { to.add(word_at).cast::<u64>().write_unaligned(word.to_le()) };
        }
        // SAFETY: `len` bytes were just written, and there was room for them.
        unsafe { out.set_len(out.len() + len) };
    }

    #[inline]
    fn word_at(&self, at: usize, order: Ordering) -> u64 {
        assert!(at.is_multiple_of(WORD) && at < self.len && WORD <= self.len - at, "in the region");
        // SAFETY: the word is in the mapping, which exists as long as `self` and begins at a page,
        // so the word is aligned. This process never writes to it non-atomically: only adapters
        // write to words that are read this way.
        let word = unsafe { AtomicU64::from_ptr(self.start.as_ptr().cast::<u8>().add(at).cast()) };
        u64::from_le(word.load(order))
    }

    /// The bytes of `range` in place.
    ///
    /// # Safety
    /// Until the slice is dropped, neither this process nor an adapter with the key writes to the
    /// bytes.
    ///
    /// # Panics
    /// `range` is not in the region.
    pub unsafe fn slice(&self, range: Range<usize>) -> &[u8] {
        self.check(range.clone());
        // SAFETY: the range is in the mapping, which exists as long as `self`. The caller
        // guarantees that no code or adapter writes.
        unsafe {
            let from = self.start.as_ptr().cast::<u8>().add(range.start);
            std::slice::from_raw_parts(from, range.len())
        }
    }

    fn check(&self, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.len, "in the region: {range:?}");
    }
}

/// The reason why `bytes` could not be registered.
fn why_not(domain: &ProtectionDomain, bytes: usize) -> VerbsError {
    let error = domain.device().failed("ibv_reg_mr");
    let VerbsError::Call { source, .. } = &error else { return error };
    match limit_that_stops(source) {
        Some(limit) => VerbsError::LockedMemory { bytes, limit },
        None => error,
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        // SAFETY: queue pairs with requests that use the region hold it, so they are destroyed, and
        // so are its blocks. After this call, no adapter reads or writes the region.
        let code = unsafe { (self.domain.device().functions().dereg_mr)(self.region.as_ptr()) };
        if code == 0 {
            // SAFETY: the mapping belongs to this value alone, and no adapter knows it any more.
            // The arguments are those of the mapping.
            let _ = unsafe { munmap(self.start, self.len) };
        } else {
            // Leaked on purpose. Otherwise an adapter might write to memory that has another use.
            tracing::error!(code, len = self.len, "memory could not be deregistered");
        }
    }
}

impl std::fmt::Debug for MemoryRegion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MemoryRegion({} bytes)", self.len)
    }
}
