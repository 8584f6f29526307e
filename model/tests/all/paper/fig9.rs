//! Fig. 9: all launchers over the nodes, and how many times STORM's time they take.

use crate::paper::expected::{Expected, assert_within};
use storm_model::{Rival, fig_9};

/// The file has four decimals of a second, two of a ratio.
const PART: f64 = 0.005;

#[test]
fn every_curve_is_the_expected_one() {
    let Some(expected) = Expected::read("fig9.csv") else { return };
    let ours = fig_9();
    assert_eq!(ours.len(), expected.rows().len());
    for (ours, theirs) in ours.iter().zip(expected.rows()) {
        assert_eq!(ours.nodes.as_f64(), theirs.number("nodes"));
        assert_within("STORM", ours.storm_s, theirs.number("STORM_s"), PART);
        for launch in &ours.rivals {
            let name = launch.rival.to_string();
            assert_within(&name, launch.launch_s, theirs.number(&format!("{name}_s")), PART);
            if matches!(launch.rival, Rival::Cplant | Rival::Bproc) {
                let column = format!("{name}_over_STORM");
                let ratio = theirs.number(&column);
                let distance = (launch.over_storm - ratio).abs();
                assert!(distance <= 0.01 + PART * ratio.abs(), "{column}: {}", launch.over_storm);
            }
        }
    }
}
