//! Hardware multicast and network conditionals on a quaternary fat tree
//! (paper, section 4.4.2).

use crate::equations::{eq3_bandwidth, eq4_diameter, eq5_switches, eq6_bandwidth_of_nodes};
use crate::{Metres, MibPerS, NodeCount, QsNet, Sourced};
use serde::{Deserialize, Serialize};

/// Parameters of a network with hardware multicast.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Multicast {
    /// Payload of a packet in bytes.
    pub packet_bytes: Sourced,
    /// Least time between packets, in ns.
    pub packet_ns: Sourced,
    /// Processing of a packet, in ns.
    pub base_ns: Sourced,
    /// Delay of the cable each way, in ns per metre.
    pub cable_ns_per_m: Sourced,
    /// Delay of a switch, both ways, in ns.
    pub switch_ns: Sourced,
    /// COMPARE-AND-WRITE on one node, in us.
    pub conditional_us: Sourced,
    /// The increase with each doubling of the nodes, in us.
    pub conditional_per_doubling_us: Sourced,
}

impl Multicast {
    /// The terms of Equation 3.
    pub fn delays(&self) -> QsNet {
        QsNet {
            // A cast saturates, and no packet has 2^32 bytes.
            packet_bytes: self.packet_bytes.value as u32,
            packet_ns: self.packet_ns.value,
            base_ns: self.base_ns.value,
            cable_ns_per_m: self.cable_ns_per_m.value,
            switch_ns: self.switch_ns.value,
        }
    }

    /// BW_broadcast: Equation 6, or Equation 3 if the longest cable is known.
    pub(crate) fn bandwidth(&self, nodes: NodeCount, cable: Option<Metres>) -> MibPerS {
        match cable {
            Some(cable) => eq3_bandwidth(&self.delays(), cable, eq5_switches(nodes)),
            None => eq6_bandwidth_of_nodes(&self.delays(), nodes),
        }
    }

    /// The time from the start of a packet until its header is at the far end, in us.
    pub(crate) fn one_way_us(&self, nodes: NodeCount) -> f64 {
        let delays = self.delays();
        let switches = eq5_switches(nodes).get().max(0.0);
        // Table 2 counts a switch for both ways.
        let path_ns =
            eq4_diameter(nodes).get() * delays.cable_ns_per_m + switches * delays.switch_ns / 2.0;
        (delays.base_ns + path_ns) / 1e3
    }

    /// COMPARE-AND-WRITE over all nodes, in us.
    pub(crate) fn conditional_us(&self, nodes: NodeCount) -> f64 {
        self.conditional_us.value + self.conditional_per_doubling_us.value * nodes.log2()
    }
}
