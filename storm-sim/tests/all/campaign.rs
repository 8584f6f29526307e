//! Random faults on 64 nodes under many seeds. Every invariant is checked at every step. At the end
//! all faults are healed and a fresh job runs. `STORM_SEEDS` sets the number of seeds; `STORM_SEED`
//! runs a single one.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use storm_sim::scenario::{self, Scenario};

/// The default number of seeds, enough for a quick look. CI runs 1,000.
const SEEDS: u64 = 100;
/// The scenario, as the command that repeats a failure names it.
const SCENARIO: &str = "storm-sim/scenarios/random-faults.toml";

#[test]
fn every_seed_of_random_faults_keeps_every_promise_and_heals() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/random-faults.toml");
    let scenario = Scenario::read(&path).expect("the scenario is sound");
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seeds = match number("STORM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("STORM_SEEDS").unwrap_or(SEEDS),
    };
    let failures = Mutex::new(BTreeMap::new());
    scenario::run_seeds(&scenario, seeds, &|seed, result| {
        if let Err(failure) = result {
            let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
            failures.insert(seed, failure);
        }
    });
    let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (seed, failure) in &failures {
        let how = failure.source().map(ToString::to_string).unwrap_or_default();
        println!("storm sim {SCENARIO} --seed {seed}\n  {failure}: {how}");
    }
    assert!(failures.is_empty(), "{} seeds fail; repeat as above", failures.len());
}
