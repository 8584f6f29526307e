//! Table 3: every cell, rounded as the paper rounds.

use crate::paper::expected::Expected;
use storm_model::{TABLE_3_CABLES_M, table_3};

#[test]
fn all_54_cells_are_equal_after_rounding() {
    let Some(expected) = Expected::read("table3.csv") else { return };
    let ours: Vec<(u64, u32, u32, f64)> = table_3()
        .into_iter()
        .flat_map(|row| {
            let nodes = row.nodes.get();
            TABLE_3_CABLES_M.into_iter().zip(row.bandwidth_mib_s).map(
                move |(cable_m, bandwidth)| (nodes, row.switches, cable_m, bandwidth.get().round()),
            )
        })
        .collect();
    let theirs: Vec<(u64, u32, u32, f64)> = expected
        .rows()
        .map(|row| {
            let whole = |column| row.text(column).parse::<u32>().unwrap();
            let nodes = u64::from(whole("nodes"));
            (nodes, whole("switches"), whole("cable_m"), row.number("paper_MBps"))
        })
        .collect();
    assert_eq!(theirs.len(), 54);
    assert_eq!(ours, theirs);
}
