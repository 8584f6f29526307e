//! The configuration file of a cluster.
//!
//! The command has no library, so its modules are compiled in here.

#![no_main]
#![allow(dead_code, unused_imports, reason = "of the command's modules only the parser is called")]

use libfuzzer_sys::fuzz_target;

#[path = "../../storm/src/config/mod.rs"]
mod config;
#[path = "../../storm/src/duration.rs"]
mod duration;
#[path = "../../storm/src/key_file.rs"]
mod key_file;
#[path = "../../storm/src/memory.rs"]
mod memory;
#[path = "../../storm/src/size.rs"]
mod size;

mod target {
    pub(crate) const SYSTEM_SOCKET: &str = "/run/storm/storm.sock";
}

/// Every key at least once.
const WHOLE: &str = r#"
cluster = "lab"
listen = "10.0.0.1:7117"
socket = "/run/storm.sock"
state-dir = "/var/lib/storm"
spool-bytes = 1000000
history = 10
admins = [1000]
[security]
key-file = "/etc/storm/cluster.key"
previous-key-file = "/etc/storm/old.key"
[network]
fan-out = 4
chunk-bytes = 131072
chunk-slots = 8
channels = 2
job-slots = 64
heartbeat-bytes = 262144
[timeouts]
heartbeat = "250ms"
node-dead = "800ms"
node-hung = "3s"
kill-grace = "2s"
manager-lost = "10min"
recovery = "10s"
[[nodes]]
names = "n[1-4],m[01-08/2]"
pes = 16
[[nodes]]
names = "r[1-2]c[1-3]"
pes = 1
[[partitions]]
name = "main"
nodes = "n[1-4],r[1-2]c[1-3]"
sched = "gang"
quantum = "50ms"
default = true
[[partitions]]
name = "batch"
nodes = "m[01-08/2]"
sched = "fcfs"
params = { mpl-limit = 1 }
"#;

fuzz_target!(init: storm_fuzz::plant([WHOLE]), |text: &str| {
    let Ok(config) = config::MmConfig::parse(text) else { return };
    let plan = config.plan().expect("it was checked");
    assert!(!plan.nodes.is_empty() && !plan.partitions.is_empty());
    let placed: usize = plan.partitions.iter().map(|partition| partition.nodes.len()).sum();
    assert_eq!(placed, plan.nodes.len());
});
