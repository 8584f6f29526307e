//! The values of a profile by key, for code that treats all values alike: the checks, and the text.

use super::{Host, Profile, Protocol};
use crate::{Multicast, Network, SharedHost, Sourced, Tree};

/// A value under its key.
type Valued<'a> = (&'static str, &'a Sourced);

impl Profile {
    /// All values of the profile, by key.
    pub fn values(&self) -> Vec<(&'static str, &Sourced)> {
        let mut values = host(&self.host);
        values.extend(protocol(&self.protocol));
        match &self.network {
            Network::Multicast(network) => values.extend(multicast(network)),
            Network::Tree(network) => values.extend(tree(network)),
            Network::SharedHost(network) => values.extend(shared_host(network)),
        }
        values
    }
}

fn host(host: &Host) -> Vec<Valued<'_>> {
    let optional = [
        ("host.read-mib-s", &host.read_mib_s),
        ("host.bus-mib-s", &host.bus_mib_s),
        ("host.service-mib-s", &host.service_mib_s),
        ("host.write-mib-s", &host.write_mib_s),
        ("host.shortest-quantum-us", &host.shortest_quantum_us),
    ];
    let given = optional.into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?)));
    given
        .chain([
            ("host.exec-ms", &host.exec_ms),
            ("host.spawn-us", &host.spawn_us),
            ("host.timeslice-ms", &host.timeslice_ms),
            ("host.switch-us", &host.switch_us),
        ])
        .collect()
}

fn protocol(protocol: &Protocol) -> [Valued<'_>; 2] {
    [
        ("protocol.chunk-bytes", &protocol.chunk_bytes),
        ("protocol.chunk-slots", &protocol.chunk_slots),
    ]
}

fn multicast(network: &Multicast) -> [Valued<'_>; 7] {
    [
        ("network.multicast.packet-bytes", &network.packet_bytes),
        ("network.multicast.packet-ns", &network.packet_ns),
        ("network.multicast.base-ns", &network.base_ns),
        ("network.multicast.cable-ns-per-m", &network.cable_ns_per_m),
        ("network.multicast.switch-ns", &network.switch_ns),
        ("network.multicast.conditional-us", &network.conditional_us),
        ("network.multicast.conditional-per-doubling-us", &network.conditional_per_doubling_us),
    ]
}

fn tree(network: &Tree) -> [Valued<'_>; 4] {
    [
        ("network.tree.latency-us", &network.latency_us),
        ("network.tree.overhead-us", &network.overhead_us),
        ("network.tree.gap-us", &network.gap_us),
        ("network.tree.bandwidth-mib-s", &network.bandwidth_mib_s),
    ]
}

fn shared_host(network: &SharedHost) -> [Valued<'_>; 13] {
    [
        ("network.shared-host.processors", &network.processors),
        ("network.shared-host.transfer-ms", &network.transfer_ms),
        ("network.shared-host.transfer-ms-per-mib", &network.transfer_ms_per_mib),
        ("network.shared-host.transfer-ms-per-node", &network.transfer_ms_per_node),
        ("network.shared-host.transfer-ms-per-node-mib", &network.transfer_ms_per_node_mib),
        (
            "network.shared-host.transfer-ms-per-node-mib-per-thousand",
            &network.transfer_ms_per_node_mib_per_thousand,
        ),
        ("network.shared-host.read-share", &network.read_share),
        ("network.shared-host.write-share", &network.write_share),
        ("network.shared-host.exec-ms", &network.exec_ms),
        ("network.shared-host.exec-ms-per-process", &network.exec_ms_per_process),
        (
            "network.shared-host.exec-ms-per-process-per-thousand",
            &network.exec_ms_per_process_per_thousand,
        ),
        ("network.shared-host.message-us", &network.message_us),
        ("network.shared-host.message-us-per-node", &network.message_us_per_node),
    ]
}
