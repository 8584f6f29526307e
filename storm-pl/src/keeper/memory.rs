//! Returns memory to the system that only the start needed. This code runs before the keeper forks,
//! because children would have the memory too.
//!
//! Each page in memory costs every PL twice: its entry is copied at the fork, and removed by
//! `execve`. A keeper that was forked from a daemon has the daemon's freed blocks and the deep end
//! of its stack.

use std::fs;

/// How the kernel names the stack of a process's first thread in the list of mappings.
const STACK: &str = "[stack]";
/// Bytes below the present frame that are not touched, for the functions called from here.
const MARGIN_BYTES: usize = 16 << 10;

/// Returns the free parts of the stack and of the heap to the system.
pub(super) fn give_back() {
    give_back_stack();
    give_back_heap();
}

/// Returns the free parts of the heap to the system (malloc_trim(3)). Does nothing with a C library
/// that does it by itself.
pub fn give_back_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call touches only memory that is not allocated.
    unsafe {
        libc::malloc_trim(0)
    };
}

/// A failure is harmless: the pages stay.
fn give_back_stack() {
    let here = 0_u8;
    let frame = (&raw const here).addr();
    let Some((start, end)) = stack().filter(|(start, end)| (*start..*end).contains(&frame)) else {
        return;
    };
    let Some(page) = page_bytes() else { return };
    // Whole pages only; the stack begins at a page boundary.
    let length = frame.saturating_sub(start + MARGIN_BYTES) & !(page - 1);
    debug_assert!(start + length < end);
    let start = std::ptr::without_provenance_mut(start);
    // SAFETY: the process has one thread, whose stack this is, and the stack grows down. Everything
    // more than the margin below the frame belongs to calls that have returned.
    unsafe { libc::madvise(start, length, libc::MADV_DONTNEED) };
}

/// The size of a page, which is a power of two.
fn page_bytes() -> Option<usize> {
    // SAFETY: the call only queries.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).ok().filter(|bytes| bytes.is_power_of_two())
}

/// The start and the end of the stack.
///
/// Not with `procfs`, which allocates for every mapping: this function runs to reduce memory.
fn stack() -> Option<(usize, usize)> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with(STACK))?;
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some((address(start)?, address(end)?))
}
