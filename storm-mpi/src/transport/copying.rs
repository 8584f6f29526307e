//! Copies of some hundred bytes to a few KiB between the memory of a program and of a ring.
//!
//! The lines of a ring go from processor to processor one after the other. The duration depends on
//! how many of them are under way at once. If the processor claims fast short `rep movsb` (FSRM),
//! `memcpy` uses only this instruction from 2 KiB on. For such lines it takes longer than loads and
//! stores of vector registers (figures in `docs/decisions/0105`). Shorter and longer copies are
//! left to `memcpy`.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    _mm256_loadu_si256, _mm256_storeu_si256, _mm512_loadu_si512, _mm512_storeu_si512,
};
#[cfg(target_arch = "x86_64")]
use std::ops::RangeInclusive;

/// Lengths that are copied by vectors: at least four of the longest vectors, at most the longest
/// record.
#[cfg(target_arch = "x86_64")]
const BY_VECTORS: RangeInclusive<usize> = 256..=8 << 10;

/// Like [`std::ptr::copy_nonoverlapping`].
///
/// # Safety
/// As for [`std::ptr::copy_nonoverlapping`].
#[inline]
pub(super) unsafe fn copy(from: *const u8, into: *mut u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    if BY_VECTORS.contains(&bytes) {
        if std::is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has these instructions; the caller vouches for the memory; the
            // length is four vectors or more.
            return unsafe { by_64(from, into, bytes) };
        }
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { by_32(from, into, bytes) };
        }
    }
    // SAFETY: the caller vouches for the memory.
    unsafe { std::ptr::copy_nonoverlapping(from, into, bytes) };
}

/// A function that copies at least one vector of the given width.
#[cfg(target_arch = "x86_64")]
macro_rules! by_vectors {
    ($name:ident, $feature:literal, $width:literal, $load:ident, $store:ident) => {
        /// # Safety
        /// The memory must be as for [`std::ptr::copy_nonoverlapping`], and at least one vector
        /// long.
        #[target_feature(enable = $feature)]
        unsafe fn $name(from: *const u8, into: *mut u8, bytes: usize) {
            debug_assert!(bytes >= $width);
            let mut at = 0;
            // SAFETY: each load and store touches bytes before `bytes`, which both areas have.
            unsafe {
                while at + 4 * $width <= bytes {
                    let (from, into) = (from.add(at), into.add(at));
                    let first = $load(from.cast());
                    let second = $load(from.add($width).cast());
                    let third = $load(from.add(2 * $width).cast());
                    let fourth = $load(from.add(3 * $width).cast());
                    $store(into.cast(), first);
                    $store(into.add($width).cast(), second);
                    $store(into.add(2 * $width).cast(), third);
                    $store(into.add(3 * $width).cast(), fourth);
                    at += 4 * $width;
                }
                while at + $width <= bytes {
                    $store(into.add(at).cast(), $load(from.add(at).cast()));
                    at += $width;
                }
                if at < bytes {
                    // Copies some bytes a second time, because fewer than a vector are left.
                    let last = bytes - $width;
                    $store(into.add(last).cast(), $load(from.add(last).cast()));
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
by_vectors!(by_64, "avx512f", 64, _mm512_loadu_si512, _mm512_storeu_si512);
#[cfg(target_arch = "x86_64")]
by_vectors!(by_32, "avx2", 32, _mm256_loadu_si256, _mm256_storeu_si256);

#[cfg(test)]
mod tests {
    use super::*;

    type Copy = unsafe fn(*const u8, *mut u8, usize);

    /// Copies every length from `least` on, between all places in a line that differ.
    fn copies_every_length(copy: Copy, least: usize) {
        const LONGEST: usize = 8500;
        let from: Vec<u8> = (0..LONGEST + 64).map(|i| (i % 251) as u8).collect();
        let mut into = vec![0; LONGEST + 128];
        for bytes in least..=LONGEST {
            let (here, there) = (bytes * 7 % 64, bytes * 13 % 64);
            into.fill(255);
            // SAFETY: both have that many bytes beyond these places, and do not overlap.
            unsafe { copy(from.as_ptr().add(here), into.as_mut_ptr().add(there), bytes) };
            assert_eq!(into[there..there + bytes], from[here..here + bytes], "{bytes}");
            let outside = into[..there].iter().chain(&into[there + bytes..]);
            assert!(outside.into_iter().all(|&byte| byte == 255), "{bytes}");
        }
    }

    #[test]
    fn every_length_is_copied_and_nothing_else() {
        // SAFETY: `copies_every_length` vouches for the memory.
        copies_every_length(|from, into, bytes| unsafe { copy(from, into, bytes) }, 0);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn every_kind_of_vector_copies_every_length() {
        // A processor without these instructions cannot be tested.
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has these instructions; `copies_every_length` vouches for the
            // memory.
            copies_every_length(|from, into, bytes| unsafe { by_32(from, into, bytes) }, 32);
        }
        if std::is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has these instructions; `copies_every_length` vouches for the
            // memory.
            copies_every_length(|from, into, bytes| unsafe { by_64(from, into, bytes) }, 64);
        }
    }
}
