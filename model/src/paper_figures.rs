//! Figures 8 and 9 of the paper as rows, and the crossings of the curves of Fig. 9.

use crate::equations::{eq4_diameter, eq5_switches, eq6_bandwidth_of_nodes};
use crate::{
    Es40, Mib, MibPerS, NodeCount, PaperMachine, QsNet, Rival, paper_launch_ms, paper_transfer,
};
use serde::Serialize;

/// Both figures end at 4^7 = 2^14 = 16,384 nodes.
const LARGEST_LOG2: u32 = 14;

/// A size of machine in Fig. 8: launch of a 12 MB binary.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fig8Row {
    /// Nodes.
    pub nodes: NodeCount,
    /// Processors, four of each node.
    pub processors: u64,
    /// Equation 4, in metres.
    pub diameter_m: f64,
    /// Equation 5.
    pub switches: f64,
    /// Equation 6.
    pub broadcast_mib_s: MibPerS,
    /// Equation 8.
    pub es40_transfer_mib_s: MibPerS,
    /// Transfer on the ES40 cluster, in ms.
    pub es40_transfer_ms: f64,
    /// Equation 7 with Equation 8, in ms.
    pub es40_launch_ms: f64,
    /// Transfer on the ideal cluster, in ms.
    pub ideal_transfer_ms: f64,
    /// Equation 7 with Equation 9, in ms.
    pub ideal_launch_ms: f64,
}

/// A size of machine in Fig. 9: launch times of all systems.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fig9Row {
    /// Nodes.
    pub nodes: NodeCount,
    /// Each rival by its law, in seconds. Below a handful of nodes BProc's law is negative and does
    /// not apply.
    pub rivals: Vec<RivalLaunch>,
    /// STORM on the ES40 cluster, in seconds.
    pub storm_s: f64,
}

/// A rival on one size of machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RivalLaunch {
    /// The rival.
    pub rival: Rival,
    /// Launch time in seconds.
    pub launch_s: f64,
    /// The rival's time as a multiple of STORM's (Fig. 9b).
    pub over_storm: f64,
}

/// The point at which a rival would overtake STORM.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Crossover {
    /// The rival.
    pub rival: Rival,
    /// The number of nodes from which the rival is faster. `None` if it is beyond the model's
    /// range.
    pub nodes: Option<NodeCount>,
    /// The paper's value, in nodes; `None` if the paper gives none.
    pub paper_nodes: Option<u64>,
}

/// The sizes of both figures: powers of 2.
pub fn figure_nodes() -> Vec<NodeCount> {
    (0..=LARGEST_LOG2).map(NodeCount::power_of_2).collect()
}

/// Fig. 8: estimated launch times.
pub fn fig_8() -> Vec<Fig8Row> {
    let row = |nodes| {
        let ms = |machine| {
            let transfer_ms = paper_transfer(machine, nodes).time_ms(Mib::PAPER_BINARY);
            (transfer_ms, paper_launch_ms(machine, Mib::PAPER_BINARY, nodes))
        };
        let (es40_transfer_ms, es40_launch_ms) = ms(PaperMachine::Es40);
        let (ideal_transfer_ms, ideal_launch_ms) = ms(PaperMachine::Ideal);
        Fig8Row {
            nodes,
            processors: Es40::processors(nodes),
            diameter_m: eq4_diameter(nodes).get(),
            switches: eq5_switches(nodes).get(),
            broadcast_mib_s: eq6_bandwidth_of_nodes(&QsNet::PAPER, nodes),
            es40_transfer_mib_s: paper_transfer(PaperMachine::Es40, nodes),
            es40_transfer_ms,
            es40_launch_ms,
            ideal_transfer_ms,
            ideal_launch_ms,
        }
    };
    figure_nodes().into_iter().map(row).collect()
}

/// Fig. 9 at the sizes of the figure.
pub fn fig_9() -> Vec<Fig9Row> {
    figure_nodes().into_iter().map(fig_9_row).collect()
}

/// All systems on a machine of any size.
pub fn fig_9_row(nodes: NodeCount) -> Fig9Row {
    let storm_s = storm_s(nodes);
    let launch = |rival: Rival| {
        let launch_s = rival.launch_s(nodes);
        RivalLaunch { rival, launch_s, over_storm: launch_s / storm_s }
    };
    Fig9Row { nodes, rivals: Rival::ALL.into_iter().map(launch).collect(), storm_s }
}

/// The number of nodes from which each rival would be faster than STORM. Only in STORM's model does
/// the bandwidth fall with the length of the cables.
pub fn crossovers() -> Vec<Crossover> {
    let crossover = |rival: Rival| {
        let paper_nodes = match rival {
            Rival::Bproc => Some(1_000_000_000),
            Rival::Cplant => Some(17_000_000_000),
            Rival::Rsh | Rival::Rms | Rival::Glunix => None,
        };
        Crossover { rival, nodes: overtakes_at(rival), paper_nodes }
    };
    Rival::ALL.into_iter().map(crossover).collect()
}

/// The first size at which the rival is as fast. The search begins at the largest machine of the
/// figures, because smaller ones were measured.
fn overtakes_at(rival: Rival) -> Option<NodeCount> {
    let faster = |nodes: NodeCount| rival.launch_s(nodes) <= storm_s(nodes);
    let mut slower = NodeCount::power_of_2(LARGEST_LOG2);
    let mut above = NodeCount::LARGEST;
    if faster(slower) {
        return Some(slower);
    }
    if !faster(above) {
        return None;
    }
    // Halves the interval, so it ends after as many rounds as a number has bits.
    while let Some(middle) = slower.between(above) {
        if faster(middle) {
            above = middle;
        } else {
            slower = middle;
        }
    }
    Some(above)
}

fn storm_s(nodes: NodeCount) -> f64 {
    paper_launch_ms(PaperMachine::Es40, Mib::PAPER_BINARY, nodes) / 1e3
}
