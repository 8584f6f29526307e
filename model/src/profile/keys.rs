//! Every parameter of the analytic model's part of a profile.
//!
//! The ranges are wide. They exclude only values that must be a mistake in the unit, and values
//! that overflow arithmetic in nanoseconds.

use super::{Absent, KeyRange, ProfileKey};

/// For times of a packet in ns: up to 1 ms.
const NS: KeyRange = KeyRange::between(0.0, 1e6);
/// For parts of a whole.
const SHARE: KeyRange = KeyRange::between(0.0, 1.0);

const fn needed(
    name: &'static str,
    unit: &'static str,
    meaning: &'static str,
    range: KeyRange,
) -> ProfileKey {
    ProfileKey::new(name, unit, meaning, range, Absent::Refused)
}

/// All keys, table by table, for all kinds of network.
pub const KEYS: [ProfileKey; 35] = [
    ProfileKey::new(
        "host.read-mib-s",
        "MiB/s",
        "BW_read: the management node reads the file",
        KeyRange::RATE,
        Absent::Means("reading is free"),
    ),
    ProfileKey::new(
        "host.bus-mib-s",
        "MiB/s",
        "the I/O bus while it broadcasts",
        KeyRange::RATE,
        Absent::Means("the bus keeps up"),
    ),
    ProfileKey::new(
        "host.service-mib-s",
        "MiB/s",
        "the host process that serves the NIC",
        KeyRange::RATE,
        Absent::Means("the process keeps up"),
    ),
    ProfileKey::new(
        "host.write-mib-s",
        "MiB/s",
        "BW_write: a node writes the file",
        KeyRange::RATE,
        Absent::Means("writing is free"),
    ),
    needed("host.exec-ms", "ms", "T_exec, for any job", KeyRange::MS),
    needed(
        "host.spawn-us",
        "us",
        "starting one process; a node starts its processes one after the other",
        KeyRange::US,
    ),
    needed("host.timeslice-ms", "ms", "T_timeslice: waiting for the ends of slices", KeyRange::MS),
    needed(
        "host.switch-us",
        "us",
        "stopping one job and resuming the next on a node",
        KeyRange::US,
    ),
    ProfileKey::new(
        "host.shortest-quantum-us",
        "us",
        "shortest time slice that the NM keeps up with",
        KeyRange::between(1.0, 1e6),
        Absent::Means("not known; the simulated NM takes no time for a strobe"),
    ),
    // The ranges of a live cluster's configuration.
    needed("protocol.chunk-bytes", "bytes", "a chunk", KeyRange::whole(4096.0, 67_108_864.0)),
    needed("protocol.chunk-slots", "slots", "the remote queue", KeyRange::whole(1.0, 64.0)),
    needed(
        "network.multicast.packet-bytes",
        "bytes",
        "payload of a packet",
        KeyRange::whole(16.0, 65_536.0),
    ),
    needed(
        "network.multicast.packet-ns",
        "ns",
        "T_packet: least time between packets",
        KeyRange::between(1.0, 1e6),
    ),
    needed("network.multicast.base-ns", "ns", "T_base: processing of a packet", NS),
    needed(
        "network.multicast.cable-ns-per-m",
        "ns/m",
        "T_cable: the cable, each way",
        KeyRange::between(0.0, 1e3),
    ),
    needed("network.multicast.switch-ns", "ns", "T_switch: a switch, both ways", NS),
    needed("network.multicast.conditional-us", "us", "COMPARE-AND-WRITE on one node", KeyRange::US),
    needed(
        "network.multicast.conditional-per-doubling-us",
        "us",
        "added to COMPARE-AND-WRITE by each doubling of the nodes",
        KeyRange::US,
    ),
    needed("network.tree.latency-us", "us", "L: the wire and the switches", KeyRange::US),
    needed("network.tree.overhead-us", "us", "o: the processor's work at either end", KeyRange::US),
    needed("network.tree.gap-us", "us", "g: between two messages of one sender", KeyRange::US),
    needed(
        "network.tree.bandwidth-mib-s",
        "MiB/s",
        "1/G: from a node to all its children together",
        KeyRange::RATE,
    ),
    needed(
        "network.shared-host.processors",
        "processors",
        "processors of the host; the other values hold for this number",
        KeyRange::whole(1.0, 65_536.0),
    ),
    needed(
        "network.shared-host.transfer-ms",
        "ms",
        "transfer, or the check whether it is needed, for any size and number of nodes",
        KeyRange::MS,
    ),
    needed(
        "network.shared-host.transfer-ms-per-mib",
        "ms/MiB",
        "transfer: each MiB once, by the manager",
        KeyRange::MS,
    ),
    needed(
        "network.shared-host.transfer-ms-per-node",
        "ms/node",
        "transfer: each node",
        KeyRange::MS,
    ),
    needed(
        "network.shared-host.transfer-ms-per-node-mib",
        "ms/(node MiB)",
        "transfer: each MiB on each node",
        KeyRange::MS,
    ),
    needed(
        "network.shared-host.transfer-ms-per-node-mib-per-thousand",
        "ms/(node MiB)/thousand",
        "added to each MiB on each node by each thousand other nodes",
        KeyRange::MS,
    ),
    needed(
        "network.shared-host.read-share",
        "parts of 1",
        "part of a transfer that counts as reading",
        SHARE,
    ),
    needed(
        "network.shared-host.write-share",
        "parts of 1",
        "part of a transfer after the last chunk",
        SHARE,
    ),
    needed("network.shared-host.exec-ms", "ms", "execution, for any job", KeyRange::MS),
    needed(
        "network.shared-host.exec-ms-per-process",
        "ms/process",
        "execution: each process",
        KeyRange::MS,
    ),
    needed(
        "network.shared-host.exec-ms-per-process-per-thousand",
        "ms/process/thousand",
        "added to each process by each thousand other processes",
        KeyRange::MS,
    ),
    needed(
        "network.shared-host.message-us",
        "us",
        "a strobe until the first node has it",
        KeyRange::US,
    ),
    needed(
        "network.shared-host.message-us-per-node",
        "us/node",
        "a strobe: each further node",
        KeyRange::US,
    ),
];
