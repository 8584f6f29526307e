//! The limits and the umask that processes inherit from the submitting shell.

use crate::failure::Failure;
use nix::sys::resource::{Resource, getrlimit};
use std::fs::File;
use std::io::Read;
use storm_rm::ResourceLimit;

/// The limits that a job inherits. Limits on the node's resources (pending signals, message queues,
/// real-time priority) stay those of the node.
const INHERITED: &[Resource] = &[
    Resource::RLIMIT_AS,
    Resource::RLIMIT_CORE,
    Resource::RLIMIT_CPU,
    Resource::RLIMIT_DATA,
    Resource::RLIMIT_FSIZE,
    Resource::RLIMIT_MEMLOCK,
    Resource::RLIMIT_NOFILE,
    Resource::RLIMIT_NPROC,
    Resource::RLIMIT_RSS,
    Resource::RLIMIT_STACK,
];

/// The umask is on the second line of the status (proc_pid_status(5)). The first line has a name of
/// at most 15 bytes, each of which may be escaped to four.
const STATUS_HEAD_BYTES: usize = 256;

/// The soft limits of this process.
pub(super) fn limits() -> Vec<ResourceLimit> {
    INHERITED
        .iter()
        .filter_map(|&resource| {
            let (soft, _) = getrlimit(resource).ok()?;
            Some(ResourceLimit { resource: resource as u32, soft })
        })
        .collect()
}

/// The file mode creation mask: `umask(2)` cannot read it without setting it.
pub(super) fn umask() -> Result<u32, Failure> {
    let mut head = [0; STATUS_HEAD_BYTES];
    // A single read, as the kernel generates the whole text for each read.
    let read = File::open("/proc/self/status").and_then(|mut status| status.read(&mut head));
    let length = read.map_err(|error| Failure::of("proc", &error).or_hint("is /proc mounted?"))?;
    let status = String::from_utf8_lossy(&head[..length]);
    let written = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    written
        .and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok())
        .ok_or_else(|| Failure::new("proc", "/proc/self/status does not tell the umask"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_both() {
        assert!(umask().expect("it does") <= 0o777);
        let limits = limits();
        assert_eq!(limits.len(), INHERITED.len());
        let files = limits.iter().find(|limit| limit.resource == Resource::RLIMIT_NOFILE as u32);
        assert!(files.is_some_and(|limit| limit.soft > 0));
    }
}
