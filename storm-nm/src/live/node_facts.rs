//! Facts about this node, as the kernel reports them.

use procfs::{Current, LoadAverage, Meminfo};
use storm_rm::message::NodeStatus;

/// The host's name.
pub(super) fn hostname() -> String {
    nix::unistd::gethostname()
        .map_or_else(|_| "localhost".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Memory of the host in MiB; 0 if the kernel does not report it.
pub fn memory_mib() -> u64 {
    Meminfo::current().map_or(0, |memory| memory.mem_total >> 20)
}

/// Load and free memory.
pub(super) fn status() -> NodeStatus {
    let load = LoadAverage::current().map_or(0.0, |load| load.one);
    let available = Meminfo::current().ok().and_then(|memory| memory.mem_available);
    // A load average is far below what a u32 holds, and the cast saturates.
    NodeStatus {
        load_percent: (load * 100.0) as u32,
        memory_available_mib: available.unwrap_or(0) >> 20,
    }
}
