//! The QsNet network's constants (paper, Table 2).

use crate::InputError;
use crate::input_error::{not_negative, positive};
use serde::{Deserialize, Serialize};

/// Delays of a QsNet network, the legend of Equation 3.
///
/// Packets are circuit-switched: a packet starts when the acknowledgement of the previous packet
/// has arrived. The destination sends the acknowledgement as soon as it has seen the header. Cable
/// and switches therefore cost time only if their delay is longer than the packet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct QsNet {
    /// Payload of a full packet in bytes.
    pub packet_bytes: u32,
    /// T_packet: time between packets at peak bandwidth, in ns.
    pub packet_ns: f64,
    /// T_base: processing of a packet for any distance, in ns.
    pub base_ns: f64,
    /// T_cable: delay of the cable one way, in ns per metre. Equation 3 counts the cable twice, for
    /// the packet and for its acknowledgement.
    pub cable_ns_per_m: f64,
    /// T_switch: delay of a switch, the way back included, in ns.
    pub switch_ns: f64,
}

impl QsNet {
    /// The paper's values (Table 2).
    pub const PAPER: QsNet = QsNet {
        packet_bytes: 320,
        packet_ns: 953.0,
        base_ns: 580.0,
        cable_ns_per_m: 3.94,
        switch_ns: 73.0,
    };

    /// Returns `self` if its values are valid.
    ///
    /// # Errors
    /// The packet is empty, a time is negative or not finite, or packets take no time.
    pub fn checked(self) -> Result<QsNet, InputError> {
        positive("the packet size", "bytes", f64::from(self.packet_bytes))?;
        positive("the packet delay", "ns", self.packet_ns)?;
        not_negative("the base delay", "ns", self.base_ns)?;
        not_negative("the cable delay", "ns/m", self.cable_ns_per_m)?;
        not_negative("the switch delay", "ns", self.switch_ns)?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_of_nonsense_is_refused() {
        assert_eq!(QsNet::PAPER.checked(), Ok(QsNet::PAPER));
        for wrong in [
            QsNet { packet_bytes: 0, ..QsNet::PAPER },
            QsNet { packet_ns: 0.0, ..QsNet::PAPER },
            QsNet { cable_ns_per_m: -3.94, ..QsNet::PAPER },
            QsNet { switch_ns: f64::NAN, ..QsNet::PAPER },
        ] {
            assert!(wrong.checked().is_err(), "{wrong:?}");
        }
    }
}
