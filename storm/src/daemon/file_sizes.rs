//! The limit on file sizes (RLIMIT_FSIZE, `ulimit -f`) that a daemon inherits from its starter.
//!
//! Jobs have the limit of their submitter instead. A daemon that exceeds its limit gets an error
//! that names the file; SIGXFSZ does not kill it.

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigHandler, Signal, signal};

/// More than a daemon's own files take: journal, shared memory and the cache of small jobs.
const ENOUGH_BYTES: u64 = 256 << 20;

/// Raises the limit on this daemon's files to the permitted maximum.
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

/// The size limit for files of this process, if it is too small for a cluster.
pub(crate) fn too_small_bytes() -> Option<u64> {
    most_bytes().filter(|most| *most < ENOUGH_BYTES)
}

fn most_bytes() -> Option<u64> {
    let (_, hard) = getrlimit(Resource::RLIMIT_FSIZE).ok()?;
    (hard != RLIM_INFINITY).then_some(hard)
}
