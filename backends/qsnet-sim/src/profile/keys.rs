//! Every parameter of the simulation's part of a profile.

use storm_model::{Absent, KeyRange, MAX_FAN_OUT, ProfileKey, Sourced};

/// The reason why a profile without buffers in the NIC lacks these parameters.
const NO_BUFFERS: Absent = Absent::Means("no buffers in the NIC; all four or none");

/// All parameters, table by table.
pub const SIMULATION_KEYS: [ProfileKey; 22] = [
    ProfileKey::new(
        "simulation.wire.put-start-us",
        "us",
        "from the issue of an XFER-AND-SIGNAL until its first byte leaves",
        KeyRange::US,
        Absent::Value(0.0),
    ),
    ProfileKey::new(
        "simulation.wire.detection-ms",
        "ms",
        "silence after which a node is known dead",
        KeyRange::between(0.001, 1e6),
        Absent::Value(100.0),
    ),
    ProfileKey::new(
        "simulation.wire.fan-out",
        "children",
        "children of each node of a tree",
        KeyRange::whole(1.0, MAX_FAN_OUT as f64),
        Absent::Means("the number with which the analytic model launches fastest"),
    ),
    ProfileKey::new(
        "simulation.host.nfs-read-mib-s",
        "MiB/s",
        "reading a file over the network into main memory",
        KeyRange::RATE,
        Absent::Means("no such file system"),
    ),
    ProfileKey::new(
        "simulation.host.disk-read-mib-s",
        "MiB/s",
        "reading a local disk into main memory",
        KeyRange::RATE,
        Absent::Means("no such disk"),
    ),
    ProfileKey::new(
        "simulation.host.write-mib-s",
        "MiB/s",
        "writing a chunk at a receiver, where host.write-mib-s is left out",
        KeyRange::RATE,
        Absent::Means("host.write-mib-s; without that too, writing is free"),
    ),
    ProfileKey::new(
        "simulation.host.processors",
        "processors",
        "processors of a node; the daemons get those that ranks leave",
        KeyRange::whole(1.0, 4096.0),
        Absent::Value(8.0),
    ),
    ProfileKey::new(
        "simulation.host.wake-us",
        "us",
        "from a signal until the daemon that waits for it runs",
        KeyRange::US,
        Absent::Value(5.0),
    ),
    ProfileKey::new(
        "simulation.host.noise-period-ms",
        "ms",
        "mean time between two interruptions by the operating system; 0 for none",
        KeyRange::MS,
        Absent::Value(0.0),
    ),
    ProfileKey::new(
        "simulation.host.noise-us",
        "us",
        "length of an interruption, less than the period",
        KeyRange::US,
        Absent::Value(0.0),
    ),
    ProfileKey::new(
        "simulation.host.fork-exec-ms",
        "ms",
        "from the order to start a process to its first instruction",
        KeyRange::MS,
        Absent::Means("host.exec-ms and host.spawn-us together"),
    ),
    ProfileKey::new(
        "simulation.host.exec-skew-ms",
        "ms",
        "skew: the most additional time, drawn uniformly for each node",
        KeyRange::MS,
        Absent::Value(0.0),
    ),
    ProfileKey::new(
        "simulation.host.exit-ms",
        "ms",
        "from the end of a process until its node's daemon knows",
        KeyRange::MS,
        Absent::Value(0.0),
    ),
    ProfileKey::new(
        "simulation.host.nic-buffers.read-mib-s",
        "MiB/s",
        "buffers in the NIC: reading a RAM disk",
        KeyRange::RATE,
        NO_BUFFERS,
    ),
    ProfileKey::new(
        "simulation.host.nic-buffers.disk-read-mib-s",
        "MiB/s",
        "buffers in the NIC: reading a local disk",
        KeyRange::RATE,
        NO_BUFFERS,
    ),
    ProfileKey::new(
        "simulation.host.nic-buffers.nfs-read-mib-s",
        "MiB/s",
        "buffers in the NIC: reading over the network",
        KeyRange::RATE,
        NO_BUFFERS,
    ),
    ProfileKey::new(
        "simulation.host.nic-buffers.bus-mib-s",
        "MiB/s",
        "buffers in the NIC: the I/O bus while it broadcasts",
        KeyRange::RATE,
        NO_BUFFERS,
    ),
    ProfileKey::new(
        "simulation.load.cpu-slice-ms",
        "ms",
        "longest time that a computing process keeps a processor while others want it",
        KeyRange::MS,
        Absent::Value(3.0),
    ),
    ProfileKey::new(
        "simulation.load.network-message-mib",
        "MiB",
        "a message of the program that loads a network with multicast",
        KeyRange::between(0.0, 1024.0),
        Absent::Value(1.0),
    ),
    ProfileKey::new(
        "simulation.load.network-bandwidth-share",
        "parts of 1",
        "under network load a tree of messages gets this share of its bandwidth",
        KeyRange::between(0.001, 1.0),
        Absent::Value(0.5),
    ),
    ProfileKey::new(
        "simulation.load.network-message-wait-ms",
        "ms",
        "under network load the mean wait of a message of a tree (exponential)",
        KeyRange::MS,
        Absent::Value(0.0),
    ),
    ProfileKey::new(
        "simulation.load.network-conditional-wait-us",
        "us",
        "under network load the mean wait of a COMPARE-AND-WRITE (exponential)",
        KeyRange::US,
        Absent::Value(0.0),
    ),
];

/// The value of a key that a profile leaves out.
pub(super) fn left_out(key: &str) -> Sourced {
    let value = SIMULATION_KEYS.iter().find(|one| one.key == key).map(|one| one.absent);
    match value {
        Some(Absent::Value(value)) => Sourced::new(value, "left out: the default"),
        Some(Absent::Refused | Absent::Means(_)) | None => Sourced::new(0.0, "left out"),
    }
}
