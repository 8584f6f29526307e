//! The limit on the sizes of files (RLIMIT_FSIZE, `ulimit -f`), which a daemon has from who starts it.
//!
//! A job has its own, from who submits it. A daemon whose file would be larger gets an error that
//! names it, and is not killed by SIGXFSZ.

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigHandler, Signal, signal};

/// A daemon's own files are smaller: the journal, the shared memory and the cache of small jobs.
const ENOUGH_BYTES: u64 = 256 << 20;

/// Lets files of this daemon be as large as it is permitted.
pub(super) fn allow_large_files() {
    // SAFETY: ignoring a signal runs no handler.
    let _ = unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) };
    if setrlimit(Resource::RLIMIT_FSIZE, RLIM_INFINITY, RLIM_INFINITY).is_ok() {
        return;
    }
    let Some(most) = most_bytes() else { return };
    let raised = setrlimit(Resource::RLIMIT_FSIZE, most, most);
    if raised.is_err() || most < ENOUGH_BYTES {
        let kib = most >> 10;
        tracing::warn!(kib, "files of this daemon may not be larger (RLIMIT_FSIZE, ulimit -f)");
    }
}

/// The size that files of this process may have, if that is too little for a cluster's.
pub(crate) fn too_small_bytes() -> Option<u64> {
    most_bytes().filter(|most| *most < ENOUGH_BYTES)
}

fn most_bytes() -> Option<u64> {
    let (_, hard) = getrlimit(Resource::RLIMIT_FSIZE).ok()?;
    (hard != RLIM_INFINITY).then_some(hard)
}
