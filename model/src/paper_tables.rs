//! Tables 2, 3 and 5 of the paper as rows.

use crate::equations::eq3_bandwidth;
use crate::{
    Es40, Metres, Mib, MibPerS, NodeCount, PaperMachine, QsNet, Rival, Switches, paper_launch_ms,
};
use serde::Serialize;

/// Stages of the fat trees of Table 3.
pub const TABLE_3_STAGES: u32 = 6;
/// Cables of Table 3, in metres.
pub const TABLE_3_CABLES_M: [u32; 9] = [10, 20, 30, 40, 50, 60, 70, 80, 90];
/// Logarithm to the base 2 of the nodes that Table 5 extrapolates to: 4,096.
const TABLE_5_LOG2_NODES: u32 = 12;

/// A component of Equation 3 (Table 2).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table2Row {
    /// The name in the paper.
    pub component: &'static str,
    /// The meaning.
    pub description: &'static str,
    /// The value; `None` if the user of the model gives it.
    pub value: Option<f64>,
    /// The unit.
    pub unit: &'static str,
}

/// A fat tree of Table 3 with its bandwidths.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table3Row {
    /// Nodes, 4 to the power of the stages.
    pub nodes: NodeCount,
    /// Processors, four of each node.
    pub processors: u64,
    /// Stages of the fat tree.
    pub stages: u32,
    /// Most switches that a packet crosses.
    pub switches: u32,
    /// Bandwidth with each of [`TABLE_3_CABLES_M`].
    pub bandwidth_mib_s: Vec<MibPerS>,
}

/// A launcher of Table 5, extrapolated to 4,096 nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table5Row {
    /// The name.
    pub manager: String,
    /// Size of the binary in the paper's MB.
    pub binary_mib: u32,
    /// Seconds by the model.
    pub launch_s: f64,
    /// Seconds as the paper prints them.
    pub paper_s: f64,
    /// The law of growth.
    pub law: String,
}

/// Table 2: the constants of Equation 3.
pub fn table_2() -> Vec<Table2Row> {
    let QsNet { packet_bytes, packet_ns, base_ns, cable_ns_per_m, switch_ns } = QsNet::PAPER;
    let row =
        |component, description, value, unit| Table2Row { component, description, value, unit };
    vec![
        row("Cable", "Longest cable between two nodes", None, "m"),
        row("Switches", "Most switches that a packet crosses", None, ""),
        row("Packet size", "Payload of a full packet", Some(f64::from(packet_bytes)), "bytes"),
        row("Tpacket", "Least time between packets", Some(packet_ns), "ns"),
        row("Tbase", "Processing of a packet", Some(base_ns), "ns"),
        row("Tcable", "Delay of the cable, each way", Some(cable_ns_per_m), "ns/m"),
        row("Tswitch", "Delay of a switch, both ways", Some(switch_ns), "ns"),
    ]
}

/// Table 3: bandwidth by size and cable.
pub fn table_3() -> Vec<Table3Row> {
    let row = |stages: u32| {
        // A whole number of stages makes Equations 4 and 5 whole numbers too.
        let nodes = NodeCount::power_of_4(stages);
        let switches = 2 * stages - 1;
        let bandwidth = |&cable_m: &u32| {
            let cable = Metres(f64::from(cable_m));
            eq3_bandwidth(&QsNet::PAPER, cable, Switches::new(switches))
        };
        Table3Row {
            nodes,
            processors: Es40::processors(nodes),
            stages,
            switches,
            bandwidth_mib_s: TABLE_3_CABLES_M.iter().map(bandwidth).collect(),
        }
    };
    (1..=TABLE_3_STAGES).map(row).collect()
}

/// Table 5: every launcher on 4,096 nodes, STORM last.
pub fn table_5() -> Vec<Table5Row> {
    let nodes = NodeCount::power_of_2(TABLE_5_LOG2_NODES);
    let rivals = Rival::ALL.into_iter().map(|rival| Table5Row {
        manager: rival.to_string(),
        binary_mib: rival.published().binary_mib,
        launch_s: rival.launch_s(nodes),
        paper_s: rival.extrapolated_s(),
        law: rival.law().to_string(),
    });
    let storm = Table5Row {
        manager: "STORM".to_owned(),
        binary_mib: 12,
        launch_s: paper_launch_ms(PaperMachine::Es40, Mib::PAPER_BINARY, nodes) / 1e3,
        paper_s: 0.11,
        law: "Equation 7".to_owned(),
    };
    rivals.chain([storm]).collect()
}
