//! The scenarios of this crate run to their ends, the same way every time.

use std::path::Path;
use storm_sim::scenario::{self, RunOptions, Scenario};

fn read(name: &str) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios").join(name);
    Scenario::read(&path).unwrap_or_else(|error| panic!("{name}: {error:?}"))
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let scenario = read("random-faults.toml");
    let run = || {
        let options = RunOptions { seed: Some(7), traces: true };
        let outcome = scenario::run(&scenario, options).expect("the seed passes");
        let report = serde_json::to_string(&outcome.report).expect("a report is JSON");
        (report, outcome.trace.expect("a trace was asked for").to_json())
    };
    let (first, second) = (run(), run());
    assert!(first.1.len() > 10_000, "the trace is too short to tell anything");
    assert_eq!(first, second);
}
