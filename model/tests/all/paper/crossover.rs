//! The points at which BProc and Cplant would overtake STORM: the paper's order of magnitude,
//! within 30 %, and our own value.

use crate::paper::expected::{Expected, assert_within};
use storm_model::{Rival, crossovers};

#[test]
fn the_logarithmic_rivals_overtake_where_the_paper_says() {
    let Some(expected) = Expected::read("crossover.csv") else { return };
    let ours = crossovers();
    for theirs in expected.rows() {
        let name = theirs.text("rival");
        let found = ours.iter().find(|ours| ours.rival.to_string() == name);
        let found = found.expect("every rival has a row");
        let nodes = found.nodes.expect("it overtakes").as_f64();
        assert_within(name, nodes, theirs.number("paper_nodes"), 0.3);
        assert_within(name, nodes, theirs.number("model_MiB"), 0.005);
        assert_eq!(found.paper_nodes.map(|nodes| nodes as f64), Some(theirs.number("paper_nodes")));
    }
}

#[test]
fn the_linear_rivals_never_do() {
    for crossover in crossovers() {
        let linear = matches!(crossover.rival, Rival::Rsh | Rival::Rms | Rival::Glunix);
        assert_eq!(crossover.nodes.is_none(), linear, "{crossover:?}");
    }
}
