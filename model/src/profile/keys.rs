//! Every parameter of the analytic model's part of a profile.
//!
//! The ranges are wide: they keep out what can only be a mistake in the unit,
//! and what arithmetic in nanoseconds cannot hold.

use super::{Absent, KeyRange, ProfileKey};

/// Of bandwidths, in MiB/s: a slow modem to 10 TiB/s.
const RATE: KeyRange = KeyRange::between(0.01, 1e7);
/// Of times in ms: up to 1,000 s.
const MS: KeyRange = KeyRange::between(0.0, 1e6);
/// Of times in us: up to 1 s.
const US: KeyRange = KeyRange::between(0.0, 1e6);
/// Of times of a packet in ns: up to 1 ms.
const NS: KeyRange = KeyRange::between(0.0, 1e6);
/// Of parts of a whole.
const SHARE: KeyRange = KeyRange::between(0.0, 1.0);

const fn key(
    key: &'static str,
    unit: &'static str,
    meaning: &'static str,
    range: KeyRange,
    absent: Absent,
) -> ProfileKey {
    ProfileKey { key, unit, meaning, range, absent }
}

const fn needed(
    name: &'static str,
    unit: &'static str,
    meaning: &'static str,
    range: KeyRange,
) -> ProfileKey {
    key(name, unit, meaning, range, Absent::Refused)
}

/// All of them, table by table, those of all kinds of network.
pub const KEYS: [ProfileKey; 35] = [
    key(
        "host.read-mib-s",
        "MiB/s",
        "BW_read: the management node reads the file",
        RATE,
        Absent::Means("reading is free"),
    ),
    key(
        "host.bus-mib-s",
        "MiB/s",
        "the I/O bus while it broadcasts",
        RATE,
        Absent::Means("the bus keeps up"),
    ),
    key(
        "host.service-mib-s",
        "MiB/s",
        "the host process that serves the NIC",
        RATE,
        Absent::Means("it keeps up"),
    ),
    key(
        "host.write-mib-s",
        "MiB/s",
        "BW_write: a node writes the file",
        RATE,
        Absent::Means("writing is free"),
    ),
    needed("host.exec-ms", "ms", "T_exec, whatever the job", MS),
    needed("host.spawn-us", "us", "starting one process; a node starts its own in turn", US),
    needed("host.timeslice-ms", "ms", "T_timeslice: waiting for the ends of slices", MS),
    needed("host.switch-us", "us", "stopping one job and resuming the next on a node", US),
    key(
        "host.shortest-quantum-us",
        "us",
        "shortest time slice that the NM keeps up with",
        KeyRange::between(1.0, 1e6),
        Absent::Means("not known; the simulated NM takes no time for a strobe"),
    ),
    // As the configuration of a live cluster has them.
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
    needed("network.multicast.conditional-us", "us", "COMPARE-AND-WRITE on one node", US),
    needed(
        "network.multicast.conditional-per-doubling-us",
        "us",
        "what each doubling of the nodes adds to it",
        US,
    ),
    needed("network.tree.latency-us", "us", "L: the wire and the switches", US),
    needed("network.tree.overhead-us", "us", "o: the processor's work at either end", US),
    needed("network.tree.gap-us", "us", "g: between two messages of one sender", US),
    needed(
        "network.tree.bandwidth-mib-s",
        "MiB/s",
        "1/G: what a node sends to all its children together",
        RATE,
    ),
    needed(
        "network.shared-host.processors",
        "processors",
        "the host's, for which the rest holds",
        KeyRange::whole(1.0, 65_536.0),
    ),
    needed(
        "network.shared-host.transfer-ms",
        "ms",
        "transfer, or asking whether it is needed, whatever the size and the nodes",
        MS,
    ),
    needed(
        "network.shared-host.transfer-ms-per-mib",
        "ms/MiB",
        "transfer: each MiB once, by the manager",
        MS,
    ),
    needed("network.shared-host.transfer-ms-per-node", "ms/node", "transfer: each node", MS),
    needed(
        "network.shared-host.transfer-ms-per-node-mib",
        "ms/(node MiB)",
        "transfer: each MiB on each node",
        MS,
    ),
    needed(
        "network.shared-host.transfer-ms-per-node-mib-per-thousand",
        "ms/(node MiB)/thousand",
        "what each node adds to that for every thousand others",
        MS,
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
    needed("network.shared-host.exec-ms", "ms", "execution, whatever the job", MS),
    needed("network.shared-host.exec-ms-per-process", "ms/process", "execution: each process", MS),
    needed(
        "network.shared-host.exec-ms-per-process-per-thousand",
        "ms/process/thousand",
        "what each process adds for every thousand others",
        MS,
    ),
    needed("network.shared-host.message-us", "us", "a strobe until the first node has it", US),
    needed("network.shared-host.message-us-per-node", "us/node", "a strobe: each further node", US),
];
