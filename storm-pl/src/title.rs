//! The name of a process in process lists. A keeper and its PLs are forked from a daemon, and would
//! show the daemon's command line. A user who searches for the daemon by name would find, and kill,
//! them.

use procfs::FromRead;
use procfs::process::Stat;
use std::ffi::CString;
use std::sync::OnceLock;

/// The address of the arguments of this process, which processes forked from it share.
static ARGUMENTS: OnceLock<Option<(usize, usize)>> = OnceLock::new();
/// The most bytes of arguments; a larger area is not changed.
const ARGUMENTS_MAX: usize = 1 << 20;

/// Sets the title of this process. If the call fails, the process keeps its name.
///
/// Nothing may read the arguments of the process afterwards: a keeper has none of its own, and a
/// PL becomes another program.
pub(crate) fn set_title(title: &str) {
    if let Ok(name) = CString::new(title) {
        // SAFETY: the name ends with a NUL; the kernel copies 16 bytes at most.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    }
    let Some((start, end)) = *ARGUMENTS.get_or_init(arguments) else { return };
    let room = end - start;
    // The last byte stays NUL. Otherwise the kernel adds the bytes behind it to the title.
    let length = title.len().min(room - 1);
    let arguments = std::ptr::with_exposed_provenance_mut::<u8>(start);
    // SAFETY: the kernel put the arguments of this process there, on its stack, in pages that stay
    // writable until it ends; `length` is less than their bytes. No reference to them exists: this
    // process was forked or executed to be a keeper, which never reads its arguments.
    unsafe {
        std::ptr::copy_nonoverlapping(title.as_ptr(), arguments, length);
        std::ptr::write_bytes(arguments.add(length), 0, room - length);
    }
}

fn arguments() -> Option<(usize, usize)> {
    let stat = Stat::from_file("/proc/self/stat").ok()?;
    let (start, end) = (stat.arg_start? as usize, stat.arg_end? as usize);
    (start != 0 && end > start && end - start <= ARGUMENTS_MAX).then_some((start, end))
}
