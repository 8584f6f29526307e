//! The bytes of a ring: memory that two processes share, and positions in it that never wrap.

use super::copying::copy;
use std::marker::PhantomData;

/// One end's view of the bytes of a ring.
#[derive(Clone, Copy)]
pub(super) struct Area<'a> {
    data: *mut u8,
    capacity: usize,
    _data: PhantomData<&'a [u8]>,
}

impl Area<'_> {
    /// A view of the bytes at `data`.
    ///
    /// # Safety
    /// `data` must be valid for reads and writes of `capacity` bytes while the view lasts, and
    /// `capacity` must be a power of two. The filler and the drainer must have agreed on the owner
    /// of each byte. If a process at the other end breaks the agreement, it corrupts these bytes
    /// and no other memory.
    pub(super) unsafe fn new(data: *mut u8, capacity: usize) -> Self {
        debug_assert!(capacity.is_power_of_two());
        Area { data, capacity, _data: PhantomData }
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Address of the byte at `position`.
    #[inline]
    pub(super) fn at(&self, position: u64) -> *mut u8 {
        // SAFETY: less than the capacity, for which `data` is valid.
        unsafe { self.data.add((position & (self.capacity as u64 - 1)) as usize) }
    }

    /// Puts bytes at a position. The caller must have found enough space there.
    #[inline]
    pub(super) fn fill(&self, position: u64, from: &[u8]) {
        self.fill_by(position, from, std::ptr::copy_nonoverlapping);
    }

    /// Like [`Area::fill`], for a whole message whose receiver does nothing but wait for it.
    #[inline]
    pub(super) fn fill_soon(&self, position: u64, from: &[u8]) {
        self.fill_by(position, from, copy);
    }

    #[inline]
    fn fill_by(&self, position: u64, from: &[u8], copy: unsafe fn(*const u8, *mut u8, usize)) {
        assert!(from.len() <= self.capacity, "more than the ring holds");
        let (place, first) = self.split(position, from.len());
        // SAFETY: `first` bytes at `place` end with the area by `split`, and the rest is no more
        // than the capacity. These bytes belong to the filler: the other end does not read them
        // before their position is published. `from` is private memory, so the areas do not
        // overlap.
        unsafe {
            if first == from.len() {
                // For a length that the caller knows at compile time, the copy is an instruction or
                // two.
                copy(from.as_ptr(), place, from.len());
            } else {
                std::ptr::copy_nonoverlapping(from.as_ptr(), place, first);
                let (rest, bytes) = (from.as_ptr().add(first), from.len() - first);
                std::ptr::copy_nonoverlapping(rest, self.data, bytes);
            }
        }
    }

    /// Copies bytes from a position. The caller must have found enough bytes there.
    #[inline]
    pub(super) fn drain(&self, position: u64, into: &mut [u8]) {
        assert!(into.len() <= self.capacity, "more than the ring holds");
        let (place, first) = self.split(position, into.len());
        // SAFETY: as in `fill`. These bytes belong to the drainer: the other end does not write
        // them before the position after them is published.
        unsafe {
            if first == into.len() {
                copy(place, into.as_mut_ptr(), into.len());
            } else {
                std::ptr::copy_nonoverlapping(place, into.as_mut_ptr(), first);
                let (rest, bytes) = (into.as_mut_ptr().add(first), into.len() - first);
                std::ptr::copy_nonoverlapping(self.data, rest, bytes);
            }
        }
    }

    /// Splits `len` bytes at `position` where the ring wraps: (place, length until the wrap).
    #[inline]
    fn split(&self, position: u64, len: usize) -> (*mut u8, usize) {
        let offset = (position & (self.capacity as u64 - 1)) as usize;
        (self.at(position), len.min(self.capacity - offset))
    }
}
