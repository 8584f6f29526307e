//! A scenario under many seeds, on all processors.

use super::{RunOptions, Scenario, ScenarioFailure, run};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Runs every seed; those that fail, in order. `done` is told of each seed that is
/// over.
pub fn run_seeds(
    scenario: &Scenario,
    seeds: Range<u64>,
    done: &(dyn Fn() + Sync),
) -> Vec<(u64, ScenarioFailure)> {
    let next = AtomicU64::new(seeds.start);
    let failures = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if !seeds.contains(&seed) {
                        return;
                    }
                    let options = RunOptions { seed: Some(seed), traces: false };
                    if let Err(failure) = run(scenario, options) {
                        // A thread that panicked has added its failure or not.
                        let mut all = failures.lock().unwrap_or_else(PoisonError::into_inner);
                        all.push((seed, failure));
                    }
                    done();
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    failures.sort_by_key(|(seed, _)| *seed);
    failures
}
