//! Equations 1 to 9 of the paper (section 4.4), one function each, under the paper's number.
//!
//! The equations describe the hardware broadcast of QsNet. They do not apply to trees of messages.

use crate::{Es40, Metres, Mib, MibPerS, NodeCount, QsNet, Switches};

/// Equation 1: T_launch = T_transfer + T_exec + T_timeslice, in ms.
pub fn eq1_launch_ms(transfer_ms: f64, exec_ms: f64, timeslice_ms: f64) -> f64 {
    transfer_ms + exec_ms + timeslice_ms
}

/// Equation 2: the slowest stage of the pipeline bounds it. The paper leaves BW_write out, because
/// writing was never slower than reading.
pub fn eq2_pipeline(read: MibPerS, broadcast: MibPerS) -> MibPerS {
    read.min(broadcast)
}

/// Equation 3: BW_QsNet(Cable, Switches), asymptotic.
///
/// `network` is not checked; [`QsNet::checked`] rejects invalid values.
pub fn eq3_bandwidth(network: &QsNet, cable: Metres, switches: Switches) -> MibPerS {
    let round_ns = network.base_ns
        + 2.0 * cable.get() * network.cable_ns_per_m
        + switches.get() * network.switch_ns;
    MibPerS::of_bytes_per_ns(f64::from(network.packet_bytes), network.packet_ns.max(round_ns))
}

/// Equation 4: the diameter of the floor plan in metres. The floor plan is a square with 1 m² per
/// node, and the paper takes its diameter as the length of the longest cable.
pub fn eq4_diameter(nodes: NodeCount) -> Metres {
    Metres((2.0 * nodes.as_f64()).sqrt())
}

/// Equation 5: the most switches that a packet crosses in a quaternary fat tree.
pub fn eq5_switches(nodes: NodeCount) -> Switches {
    Switches(2.0 * stages(nodes) - 1.0)
}

/// Equation 6: BW_QsNet as a function of the number of nodes only.
pub fn eq6_bandwidth_of_nodes(network: &QsNet, nodes: NodeCount) -> MibPerS {
    eq3_bandwidth(network, eq4_diameter(nodes), eq5_switches(nodes))
}

/// Equation 7: T_launch(nodes) in ms, for a binary of any size; the paper uses 12 MB. `transfer`
/// comes from [`eq8_transfer_es40`] or [`eq9_transfer_ideal`].
pub fn eq7_launch_ms(size: Mib, transfer: MibPerS, exec_ms: f64, timeslice_ms: f64) -> f64 {
    eq1_launch_ms(transfer.time_ms(size), exec_ms, timeslice_ms)
}

/// Equation 8: BW_transfer of the ES40 cluster. Its hosts limit the protocol to 131 MB/s.
pub fn eq8_transfer_es40(broadcast: MibPerS) -> MibPerS {
    Es40::PROTOCOL.min(broadcast)
}

/// Equation 9: BW_transfer of a cluster that only the network limits.
pub fn eq9_transfer_ideal(broadcast: MibPerS) -> MibPerS {
    broadcast
}

/// Stages of a quaternary fat tree, with a fraction between powers of 4.
fn stages(nodes: NodeCount) -> f64 {
    nodes.log2() / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SourceFile;

    #[test]
    fn the_better_place_for_the_buffers_is_main_memory() {
        let host =
            eq2_pipeline(Es40::read_into_host(SourceFile::RamDisk), Es40::BROADCAST_HOST_BUFFERS);
        let nic =
            eq2_pipeline(Es40::read_into_nic(SourceFile::RamDisk), Es40::BROADCAST_NIC_BUFFERS);
        assert_eq!((host, nic), (MibPerS(175.0), MibPerS(120.0)));
    }

    #[test]
    fn the_launch_times_of_the_text_are_reproduced() {
        let launch = |nodes| {
            let nodes = NodeCount::new(nodes).unwrap();
            let transfer = eq8_transfer_es40(eq6_bandwidth_of_nodes(&QsNet::PAPER, nodes));
            eq7_launch_ms(Mib::PAPER_BINARY, transfer, Es40::EXEC_MS, Es40::TIMESLICE_MS).round()
        };
        assert_eq!((launch(64), launch(4_096), launch(16_384)), (110.0, 110.0, 135.0));
    }

    #[test]
    fn a_short_cable_is_free_and_a_long_one_is_not() {
        let at = |metres| eq3_bandwidth(&QsNet::PAPER, Metres(metres), Switches::new(1));
        assert_eq!(at(10.0), at(30.0));
        assert!(at(40.0) < at(30.0));
    }
}
