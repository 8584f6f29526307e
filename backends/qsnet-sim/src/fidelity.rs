//! The level of detail of simulated transfers on QsNet.

use crate::{Broadcast, Delivery, FatTree, PacketLevel};
use serde::{Deserialize, Serialize};

/// Packet by packet, or by the formula. The two levels give the same times (tests compare them to
/// the picosecond); only their cost differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fidelity {
    /// By the formula: simulating a transfer of any size costs the same.
    #[default]
    Aggregated,
    /// Packet by packet through every switch. Networks without packets of their own, which are
    /// trees of messages, ignore this setting.
    Packet,
}

/// The transfers of one tree.
#[derive(Clone, Debug)]
pub(crate) enum Transfers {
    Aggregated(Broadcast),
    Packet(PacketLevel),
}

impl Transfers {
    pub(crate) fn new(fidelity: Fidelity, tree: FatTree) -> Transfers {
        match fidelity {
            Fidelity::Aggregated => Transfers::Aggregated(Broadcast::new(tree)),
            Fidelity::Packet => Transfers::Packet(PacketLevel::new(tree)),
        }
    }

    /// The times of a transfer that starts at 0.
    pub(crate) fn delivery(&self, bytes: u64) -> Delivery {
        match self {
            Transfers::Aggregated(broadcast) => broadcast.delivery(bytes),
            Transfers::Packet(packets) => packets.send(bytes),
        }
    }
}
