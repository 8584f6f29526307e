//! Every parameter of the simulation's part of a profile.

use storm_model::{Absent, KeyRange, MAX_FAN_OUT, ProfileKey, Sourced};

/// Of bandwidths, in MiB/s.
const RATE: KeyRange = KeyRange::between(0.01, 1e7);
/// Of times in ms: up to 1,000 s.
const MS: KeyRange = KeyRange::between(0.0, 1e6);
/// Of times in us: up to 1 s.
const US: KeyRange = KeyRange::between(0.0, 1e6);
/// Why a profile without buffers in the NIC lacks them all.
const NO_BUFFERS: Absent = Absent::Means("no buffers in the NIC; all four or none");

const fn key(
    key: &'static str,
    unit: &'static str,
    meaning: &'static str,
    range: KeyRange,
    absent: Absent,
) -> ProfileKey {
    ProfileKey { key, unit, meaning, range, absent }
}

/// All of them, table by table.
pub const SIMULATION_KEYS: [ProfileKey; 22] = [
    key(
        "simulation.wire.put-start-us",
        "us",
        "from the issue of an XFER-AND-SIGNAL until its first byte leaves",
        US,
        Absent::Value(0.0),
    ),
    key(
        "simulation.wire.detection-ms",
        "ms",
        "silence after which a node is known dead",
        KeyRange::between(0.001, 1e6),
        Absent::Value(100.0),
    ),
    key(
        "simulation.wire.fan-out",
        "children",
        "of each node of a tree",
        KeyRange::whole(1.0, MAX_FAN_OUT as f64),
        Absent::Means("those with which the analytic model launches fastest"),
    ),
    key(
        "simulation.host.nfs-read-mib-s",
        "MiB/s",
        "reading a file over the network into main memory",
        RATE,
        Absent::Means("no such file system"),
    ),
    key(
        "simulation.host.disk-read-mib-s",
        "MiB/s",
        "reading a local disk into main memory",
        RATE,
        Absent::Means("no such disk"),
    ),
    key(
        "simulation.host.write-mib-s",
        "MiB/s",
        "writing a chunk at a receiver, where host.write-mib-s is left out",
        RATE,
        Absent::Means("host.write-mib-s; without that too, writing is free"),
    ),
    key(
        "simulation.host.processors",
        "processors",
        "of a node: what ranks leave of them is the daemons'",
        KeyRange::whole(1.0, 4096.0),
        Absent::Value(8.0),
    ),
    key(
        "simulation.host.wake-us",
        "us",
        "from a signal until the daemon that waits for it runs",
        US,
        Absent::Value(5.0),
    ),
    key(
        "simulation.host.noise-period-ms",
        "ms",
        "mean time between two interruptions by the operating system; 0 for none",
        MS,
        Absent::Value(0.0),
    ),
    key(
        "simulation.host.noise-us",
        "us",
        "length of an interruption, less than the period",
        US,
        Absent::Value(0.0),
    ),
    key(
        "simulation.host.fork-exec-ms",
        "ms",
        "from the order to start a process to its first instruction",
        MS,
        Absent::Means("host.exec-ms and host.spawn-us together"),
    ),
    key(
        "simulation.host.exec-skew-ms",
        "ms",
        "up to so much more, drawn evenly for each node",
        MS,
        Absent::Value(0.0),
    ),
    key(
        "simulation.host.exit-ms",
        "ms",
        "from the end of a process until its node's daemon knows",
        MS,
        Absent::Value(0.0),
    ),
    key(
        "simulation.host.nic-buffers.read-mib-s",
        "MiB/s",
        "buffers in the NIC: reading a RAM disk",
        RATE,
        NO_BUFFERS,
    ),
    key(
        "simulation.host.nic-buffers.disk-read-mib-s",
        "MiB/s",
        "buffers in the NIC: reading a local disk",
        RATE,
        NO_BUFFERS,
    ),
    key(
        "simulation.host.nic-buffers.nfs-read-mib-s",
        "MiB/s",
        "buffers in the NIC: reading over the network",
        RATE,
        NO_BUFFERS,
    ),
    key(
        "simulation.host.nic-buffers.bus-mib-s",
        "MiB/s",
        "buffers in the NIC: the I/O bus while it broadcasts",
        RATE,
        NO_BUFFERS,
    ),
    key(
        "simulation.load.cpu-slice-ms",
        "ms",
        "longest that a process that computes keeps a processor while others want it",
        MS,
        Absent::Value(3.0),
    ),
    key(
        "simulation.load.network-message-mib",
        "MiB",
        "a message of the program that loads a network with multicast",
        KeyRange::between(0.0, 1024.0),
        Absent::Value(1.0),
    ),
    key(
        "simulation.load.network-bandwidth-share",
        "parts of 1",
        "under network load a tree of messages gets this share of its bandwidth",
        KeyRange::between(0.001, 1.0),
        Absent::Value(0.5),
    ),
    key(
        "simulation.load.network-message-wait-ms",
        "ms",
        "under network load the mean wait of a message of a tree (exponential)",
        MS,
        Absent::Value(0.0),
    ),
    key(
        "simulation.load.network-conditional-wait-us",
        "us",
        "under network load the mean wait of a COMPARE-AND-WRITE (exponential)",
        US,
        Absent::Value(0.0),
    ),
];

/// What a profile is taken to say under a key that it leaves out.
pub(super) fn left_out(key: &str) -> Sourced {
    let value = SIMULATION_KEYS.iter().find(|one| one.key == key).map(|one| one.absent);
    match value {
        Some(Absent::Value(value)) => Sourced::new(value, "left out: the default"),
        Some(Absent::Refused | Absent::Means(_)) | None => Sourced::new(0.0, "left out"),
    }
}
