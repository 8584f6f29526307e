//! Copying between a program's memory and that of a ring, some hundred bytes to a few KiB.
//!
//! The lines of a ring come from another processor, or go there, one after the other; how many of them are under way
//! at once decides how long that takes. `memcpy` leaves from 2 KiB on, where the processor says that it is good at it
//! (FSRM), all to one instruction, `rep movsb`, which takes longer for such lines than loads and stores of as many bytes as
//! a register has (figures in `docs/decisions/0105`). What is shorter, and what is longer, is left to `memcpy`.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    _mm256_loadu_si256, _mm256_storeu_si256, _mm512_loadu_si512, _mm512_storeu_si512,
};
#[cfg(target_arch = "x86_64")]
use std::ops::RangeInclusive;

/// What is copied by vectors: at least four of the longest, and as long as the longest record.
#[cfg(target_arch = "x86_64")]
const BY_VECTORS: RangeInclusive<usize> = 256..=8 << 10;

/// As [`std::ptr::copy_nonoverlapping`].
///
/// # Safety
/// As that.
#[inline]
pub(super) unsafe fn copy(from: *const u8, into: *mut u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    if BY_VECTORS.contains(&bytes) {
        if std::is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has these; the caller vouches for the memory; four vectors or more.
            return unsafe { by_64(from, into, bytes) };
        }
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { by_32(from, into, bytes) };
        }
    }
    // SAFETY: the caller vouches for it.
    unsafe { std::ptr::copy_nonoverlapping(from, into, bytes) };
}

/// A function that copies at least a vector of so many bytes.
#[cfg(target_arch = "x86_64")]
macro_rules! by_vectors {
    ($name:ident, $feature:literal, $width:literal, $load:ident, $store:ident) => {
        /// # Safety
        /// The memory as for [`std::ptr::copy_nonoverlapping`], and no less than one vector of it.
        #[target_feature(enable = $feature)]
        unsafe fn $name(from: *const u8, into: *mut u8, bytes: usize) {
            debug_assert!(bytes >= $width);
            let mut at = 0;
            // SAFETY: each load and store is of bytes before `bytes`, which both have.
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
                    // Some bytes of it a second time: the last ones are less than a vector.
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

    /// Every length from so many on, between all places in a line that differ.
    fn copies_every_length(copy: Copy, least: usize) {
        const LONGEST: usize = 8500;
        let from: Vec<u8> = (0..LONGEST + 64).map(|i| (i % 251) as u8).collect();
        let mut into = vec![0; LONGEST + 128];
        for bytes in least..=LONGEST {
            let (here, there) = (bytes * 7 % 64, bytes * 13 % 64);
            into.fill(255);
            // SAFETY: both have as many bytes beyond these places, and do not overlap.
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
        // A processor without them cannot be asked.
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has these; `copies_every_length` vouches for the memory.
            copies_every_length(|from, into, bytes| unsafe { by_32(from, into, bytes) }, 32);
        }
        if std::is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has these; `copies_every_length` vouches for the memory.
            copies_every_length(|from, into, bytes| unsafe { by_64(from, into, bytes) }, 64);
        }
    }
}
