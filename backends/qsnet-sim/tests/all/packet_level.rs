//! The walk of the packets and the formula give the same times, to the
//! picosecond; both are Equation 3.

use proptest::prelude::*;
use storm_model::equations::{eq3_bandwidth, eq6_bandwidth_of_nodes};
use storm_model::{Metres, NodeCount, QsNet, Switches, TABLE_3_CABLES_M, TABLE_3_STAGES};
use storm_qsnet_sim::{Broadcast, FatTree, PacketLevel};

fn nodes(nodes: u64) -> NodeCount {
    NodeCount::new(nodes).expect("not none")
}

fn assert_same(tree: FatTree, bytes: u64) {
    let (walk, formula) =
        (PacketLevel::new(tree).send(bytes), Broadcast::new(tree).delivery(bytes));
    assert_eq!(walk, formula, "{bytes} bytes on {tree:?}");
}

#[test]
fn the_formula_equals_the_walk_on_every_machine_up_to_1100_nodes() {
    for count in 1..=1100 {
        let tree = FatTree::new(QsNet::PAPER, nodes(count)).unwrap();
        for bytes in [0, 1, 319, 320, 321, 1280] {
            assert_same(tree, bytes);
        }
    }
}

#[test]
fn the_formula_equals_the_walk_for_every_size_up_to_ten_packets_and_a_chunk() {
    for count in [1, 3, 16, 63, 64, 65] {
        let tree = FatTree::new(QsNet::PAPER, nodes(count)).unwrap();
        (0..=3200).chain([512 << 10]).for_each(|bytes| assert_same(tree, bytes));
    }
    // The acknowledgement is late on the largest machines.
    for count in [4_096, 16_384] {
        let tree = FatTree::new(QsNet::PAPER, nodes(count)).unwrap();
        [0, 320, 6400].into_iter().for_each(|bytes| assert_same(tree, bytes));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn the_formula_equals_the_walk_for_any_delays(
        count in 1u64..300,
        bytes in 0u64..20_000,
        cable_m in 0.0f64..500.0,
        packet_bytes in 1u32..2000,
        packet_ns in 1.0f64..5000.0,
        base_ns in 0.0f64..3000.0,
        switch_ns in 0.0f64..300.0,
    ) {
        let delays = QsNet { packet_bytes, packet_ns, base_ns, switch_ns, ..QsNet::PAPER };
        let tree = FatTree::with_cable(delays, nodes(count), cable_m).unwrap();
        assert_same(tree, bytes);
    }
}

/// Table 3: the packets reach the bandwidth of all its 54 cells.
#[test]
fn the_packets_reach_the_bandwidth_of_every_cell_of_table_3() {
    const PACKETS: u64 = 200;
    for stages in 1..=TABLE_3_STAGES {
        for cable in TABLE_3_CABLES_M {
            let count = NodeCount::power_of_4(stages);
            let cable_m = f64::from(cable);
            let tree = FatTree::with_cable(QsNet::PAPER, count, cable_m).unwrap();
            let switches = Switches::new(2 * stages - 1);
            let expected = eq3_bandwidth(&QsNet::PAPER, Metres::new(cable_m).unwrap(), switches);
            let formula = Broadcast::new(tree).bandwidth_mib_s();
            assert!((formula - expected.get()).abs() < 0.01, "{stages} {cable}: {formula}");
            assert_eq!(formula.round(), expected.get().round(), "{stages} stages, {cable} m");
            if stages > 4 {
                continue; // The walk of a million switches; the other tests cover it.
            }
            let time_ps = PacketLevel::new(tree).send(PACKETS * 320).source_free_ps;
            let walked = (PACKETS * 320) as f64 / time_ps as f64 * 1e12 / 1_048_576.0;
            assert!((walked - formula).abs() < 1e-6, "{stages} {cable}: {walked} {formula}");
        }
    }
}

#[test]
fn full_machines_have_the_bandwidth_of_equation_6() {
    for stages in 1..=7 {
        let count = NodeCount::power_of_4(stages);
        let tree = FatTree::new(QsNet::PAPER, count).unwrap();
        let expected = eq6_bandwidth_of_nodes(&QsNet::PAPER, count).get();
        let found = Broadcast::new(tree).bandwidth_mib_s();
        assert!((found / expected - 1.0).abs() < 1e-5, "{count}: {found} {expected}");
    }
}
