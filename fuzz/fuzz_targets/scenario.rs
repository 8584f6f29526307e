//! Scenarios of the simulated machine.

#![no_main]

use libfuzzer_sys::fuzz_target;
use storm_fuzz::{plant, texts};
use storm_sim::scenario::Scenario;

fuzz_target!(init: plant(texts("storm-sim/scenarios")), |text: &str| {
    // A profile is a file that a scenario names: none is read here.
    if text.contains('/') || text.contains(".toml") {
        return;
    }
    let _ = Scenario::parse(text);
});
