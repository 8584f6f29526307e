//! Facts about this node, as the kernel reports them.

use std::fs;
use storm_rm::message::NodeStatus;

/// The host's name.
pub(super) fn hostname() -> String {
    nix::unistd::gethostname()
        .map_or_else(|_| "localhost".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Memory of the host in MiB; 0 if the kernel does not say.
pub fn memory_mib() -> u64 {
    meminfo_mib("MemTotal:")
}

/// Load and free memory.
pub(super) fn status() -> NodeStatus {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0.0);
    // A load average is far below what a u32 holds, and the cast saturates.
    NodeStatus {
        load_percent: (load * 100.0) as u32,
        memory_available_mib: meminfo_mib("MemAvailable:"),
    }
}

fn meminfo_mib(field: &str) -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}
