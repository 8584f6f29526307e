//! Table 5: the extrapolated launch times, within 0.5 %.

use crate::paper::expected::{Expected, assert_within};
use storm_model::{NodeCount, Rival, table_5};

const PART: f64 = 0.005;

#[test]
fn every_launcher_is_within_half_a_percent_of_the_paper() {
    let Some(expected) = Expected::read("table5.csv") else { return };
    let ours = table_5();
    assert_eq!(ours.len(), expected.rows().len());
    for (ours, theirs) in ours.iter().zip(expected.rows()) {
        assert_eq!(ours.manager, theirs.text("rm"));
        assert_within(&ours.manager, ours.launch_s, theirs.number("paper_t4096_s"), PART);
        assert_eq!(ours.paper_s, theirs.number("paper_t4096_s"));
    }
}

#[test]
fn the_laws_meet_the_measurements_that_they_come_from() {
    let Some(expected) = Expected::read("table5.csv") else { return };
    for (rival, theirs) in Rival::ALL.into_iter().zip(expected.rows()) {
        let published = rival.published();
        assert_eq!(f64::from(published.nodes), theirs.number("measured_n"), "{rival}");
        assert_eq!(published.launch_s, theirs.number("paper_measured_s"), "{rival}");
        let nodes = NodeCount::new(published.nodes.into()).unwrap();
        let law_s = rival.launch_s(nodes);
        assert_within(&rival.to_string(), law_s, theirs.number("model_at_measured_n_s"), PART);
    }
}
