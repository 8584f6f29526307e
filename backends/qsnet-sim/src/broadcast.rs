//! The time of a transfer on QsNet as a formula, with the same result as the packet-by-packet walk
//! ([`PacketLevel`](crate::PacketLevel)).
//!
//! Every packet of a transfer takes the same route, and no packet waits for another transfer. The
//! time between two packets is therefore constant: the denominator of Equation 3.

use crate::{Delivery, FatTree};

/// The aggregate of the packets of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broadcast {
    tree: FatTree,
}

impl Broadcast {
    /// The transfers on this tree.
    pub fn new(tree: FatTree) -> Broadcast {
        Broadcast { tree }
    }

    /// The number of packets for `bytes`. A signal without data takes one.
    pub fn packets(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.tree.packet_bytes()).max(1)
    }

    /// The time between the starts of two packets, in ps. The next packet leaves when this packet
    /// has left and its acknowledgement is back (Equation 3).
    pub fn gap_ps(&self) -> u64 {
        self.tree.packet_ps().max(self.tree.round_ps())
    }

    /// The times of a transfer that starts at 0.
    pub fn delivery(&self, bytes: u64) -> Delivery {
        let packets = self.packets(bytes);
        let last_leaves_ps = (packets - 1) * self.gap_ps();
        Delivery {
            packets,
            source_free_ps: last_leaves_ps + self.gap_ps(),
            last_arrival_ps: last_leaves_ps + self.tree.forward_ps() + self.tree.packet_ps(),
        }
    }

    /// The asymptotic bandwidth in MiB/s (Equation 3).
    pub fn bandwidth_mib_s(&self) -> f64 {
        const PS_PER_S: f64 = 1e12;
        const BYTES_PER_MIB: f64 = 1_048_576.0;
        self.tree.packet_bytes() as f64 / self.gap_ps() as f64 * PS_PER_S / BYTES_PER_MIB
    }
}
