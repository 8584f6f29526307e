//! A quaternary fat tree: the distances of packets (paper, section 4.4.2).
//!
//! Times are whole picoseconds, so that sums of many packets are exact. The path is the longest of
//! the machine, as in the paper's model. The management node is at one corner of the floor. A
//! multicast is complete when the node at the opposite corner has it.

use storm_model::equations::eq4_diameter;
use storm_model::{InputError, NodeCount, QsNet};

/// Ports of a switch towards the nodes.
pub(crate) const ARITY: u64 = 4;

/// The delays of one machine's network, in ps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FatTree {
    nodes: u64,
    packet_bytes: u64,
    packet_ps: u64,
    base_ps: u64,
    cable_ps: u64,
    switch_ps: u64,
}

impl FatTree {
    /// The tree of a machine of `nodes`, laid out in a square (Equation 4).
    ///
    /// # Errors
    /// The delays are invalid.
    pub fn new(delays: QsNet, nodes: NodeCount) -> Result<FatTree, InputError> {
        FatTree::with_cable(delays, nodes, eq4_diameter(nodes).get())
    }

    /// Like [`new`](Self::new), with a given length of the longest cable.
    ///
    /// # Errors
    /// The delays or the cable are invalid.
    pub fn with_cable(
        delays: QsNet,
        nodes: NodeCount,
        cable_m: f64,
    ) -> Result<FatTree, InputError> {
        let delays = delays.checked()?;
        let cable_m = storm_model::Metres::new(cable_m)?.get();
        Ok(FatTree {
            nodes: nodes.get(),
            packet_bytes: u64::from(delays.packet_bytes),
            packet_ps: picos(delays.packet_ns),
            base_ps: picos(delays.base_ns),
            cable_ps: picos(cable_m * delays.cable_ns_per_m),
            switch_ps: picos(delays.switch_ns),
        })
    }

    /// Number of nodes.
    pub fn nodes(&self) -> u64 {
        self.nodes
    }

    /// Levels of switches: a whole number, at least one.
    pub fn stages(&self) -> u32 {
        let (mut stages, mut width) = (1, ARITY);
        while width < self.nodes {
            width = width.saturating_mul(ARITY);
            stages += 1;
        }
        stages
    }

    /// Switches on the longest path, up to the top and down again: Equation 5 if the nodes fill
    /// their stages.
    pub fn switches(&self) -> u32 {
        2 * self.stages() - 1
    }

    /// Payload of a packet in bytes.
    pub fn packet_bytes(&self) -> u64 {
        self.packet_bytes
    }

    /// T_packet, in ps.
    pub fn packet_ps(&self) -> u64 {
        self.packet_ps
    }

    /// T_base, in ps.
    pub fn base_ps(&self) -> u64 {
        self.base_ps
    }

    /// The delay of the longest path's cable one way, in ps.
    pub fn cable_ps(&self) -> u64 {
        self.cable_ps
    }

    /// The delay of a switch on the way out, in ps: half of the sum of both ways in Table 2,
    /// rounded up.
    pub fn switch_forward_ps(&self) -> u64 {
        self.switch_ps.div_ceil(2)
    }

    /// The delay of a switch on the way back of an acknowledgement, in ps.
    pub fn switch_back_ps(&self) -> u64 {
        self.switch_ps / 2
    }

    /// The time from the start of a packet until its header is at the far end, in ps.
    pub fn forward_ps(&self) -> u64 {
        self.cable_ps + u64::from(self.switches()) * self.switch_forward_ps()
    }

    /// The time from the start of a packet until its acknowledgement is back, in ps.
    pub fn round_ps(&self) -> u64 {
        self.base_ps + 2 * self.cable_ps + u64::from(self.switches()) * self.switch_ps
    }
}

fn picos(ns: f64) -> u64 {
    // The value was checked to be finite and not negative; the cast saturates.
    (ns * 1e3).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use storm_model::equations::eq5_switches;

    #[test]
    fn full_stages_have_the_switches_of_equation_5() {
        for stages in 1..8 {
            let nodes = NodeCount::power_of_4(stages);
            let tree = FatTree::new(QsNet::PAPER, nodes).unwrap();
            assert_eq!(tree.stages(), stages);
            assert_eq!(f64::from(tree.switches()), eq5_switches(nodes).get());
        }
    }

    #[test]
    fn a_node_more_needs_a_stage_more() {
        let stages =
            |nodes| FatTree::new(QsNet::PAPER, NodeCount::new(nodes).unwrap()).unwrap().stages();
        assert_eq!([1, 4, 5, 16, 17, 64, 65].map(stages), [1, 1, 2, 2, 3, 3, 4]);
    }
}
