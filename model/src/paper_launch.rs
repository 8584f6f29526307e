//! The paper's launch model as a whole: Equation 7 with Equation 8 or 9.

use crate::equations::{
    eq6_bandwidth_of_nodes, eq7_launch_ms, eq8_transfer_es40, eq9_transfer_ideal,
};
use crate::{Es40, Mib, MibPerS, NodeCount, QsNet};
use serde::Serialize;

/// The two machines of Fig. 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PaperMachine {
    /// The measured cluster: hosts limit the protocol to 131 MB/s (Equation 8).
    Es40,
    /// Only the network limits (Equation 9).
    Ideal,
}

/// BW_transfer of the paper's binary transfer protocol.
pub fn paper_transfer(machine: PaperMachine, nodes: NodeCount) -> MibPerS {
    let broadcast = eq6_bandwidth_of_nodes(&QsNet::PAPER, nodes);
    match machine {
        PaperMachine::Es40 => eq8_transfer_es40(broadcast),
        PaperMachine::Ideal => eq9_transfer_ideal(broadcast),
    }
}

/// T_launch of a binary, in ms, with the paper's T_exec and T_timeslice.
pub fn paper_launch_ms(machine: PaperMachine, size: Mib, nodes: NodeCount) -> f64 {
    let transfer = paper_transfer(machine, nodes);
    eq7_launch_ms(size, transfer, Es40::EXEC_MS, Es40::TIMESLICE_MS)
}
