//! Gives back the pages of program text that only the start needed.
//!
//! Most of the resident memory of a daemon that has just started is text that ran once. This text
//! parsed options and configuration and made the handshake; the kernel also mapped the text around
//! it. The mappings stay. The kernel reloads a page that is used again from the page cache
//! (`MADV_DONTNEED` of a private mapping of a file, madvise(2)).

use nix::sys::mman::{MmapAdvise, madvise};
use procfs::process::{MMPermissions, MMapPath, MemoryMap, Process};
use std::ptr::NonNull;

/// Gives back text and constants. Returns how many bytes of them were resident, or 0 if the system
/// does not report what is mapped.
pub(super) fn let_go() -> u64 {
    let Ok(maps) = Process::myself().and_then(|process| process.smaps()) else { return 0 };
    maps.iter().filter(|map| is_unchanged_file(map)).map(release).sum()
}

/// Whether every page of a mapping equals its file: nobody can write it, and nobody has written it,
/// not even the loader or a debugger.
fn is_unchanged_file(map: &MemoryMap) -> bool {
    let fixed = map.perms.contains(MMPermissions::PRIVATE)
        && !map.perms.contains(MMPermissions::WRITE)
        && matches!(map.pathname, MMapPath::Path(_));
    fixed && map.extension.map.get("Anonymous") == Some(&0)
}

fn release(map: &MemoryMap) -> u64 {
    let (start, end) = map.address;
    let (Ok(start), Ok(length)) = (usize::try_from(start), usize::try_from(end - start)) else {
        return 0;
    };
    let Some(address) = NonNull::new(std::ptr::without_provenance_mut(start)) else { return 0 };
    // SAFETY: the pages are private to this process, cannot be written, and were not written
    // (`is_unchanged_file`). A later read therefore finds the same bytes as before, from the same
    // pages of the same file. The addresses still belong to this mapping, because this process
    // unmaps no mapping of a file.
    let released = unsafe { madvise(address, length, MmapAdvise::MADV_DONTNEED) };
    if released.is_err() {
        return 0;
    }
    map.extension.map.get("Rss").copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_goes_on_after_its_text_was_released() {
        let text: Vec<u32> = (0..1000).collect();
        let before = format!("{text:?}");
        assert!(let_go() > 0, "a program has text");
        assert_eq!(format!("{text:?}"), before);
    }

    #[test]
    fn written_pages_are_kept() {
        let maps = Process::myself().and_then(|process| process.smaps()).expect("Linux says it");
        let kept = maps.iter().filter(|map| !is_unchanged_file(map));
        // Relocated constants were written, though they cannot be written any more.
        assert!(kept.clone().any(|map| matches!(map.pathname, MMapPath::Heap)));
        assert!(kept.clone().any(|map| map.perms.contains(MMPermissions::WRITE)));
    }
}
