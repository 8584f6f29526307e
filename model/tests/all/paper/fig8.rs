//! Fig. 8: both curves, within 0.5 %.

use crate::paper::expected::{Expected, assert_within};
use storm_model::fig_8;

const PART: f64 = 0.005;

#[test]
fn both_curves_are_within_half_a_percent() {
    let Some(expected) = Expected::read("fig8.csv") else { return };
    let ours = fig_8();
    assert_eq!(ours.len(), expected.rows().len());
    for (ours, theirs) in ours.iter().zip(expected.rows()) {
        let what = format!("{} nodes", ours.nodes);
        assert_eq!(ours.nodes.as_f64(), theirs.number("nodes"));
        assert_eq!(ours.processors as f64, theirs.number("processors"));
        for (value, column) in [
            (ours.diameter_m, "diameter_m"),
            (ours.switches, "switches"),
            (ours.broadcast_mib_s.get(), "bw_broadcast_MiBps"),
            (ours.es40_transfer_mib_s.get(), "bw_es40_MiBps"),
            (ours.es40_transfer_ms, "t_transfer_es40_ms"),
            (ours.es40_launch_ms, "t_launch_es40_ms"),
            (ours.ideal_transfer_ms, "t_transfer_ideal_ms"),
            (ours.ideal_launch_ms, "t_launch_ideal_ms"),
        ] {
            assert_within(&what, value, theirs.number(column), PART);
        }
    }
}
