//! A scenario under many seeds, on all processors.

use super::{RunOptions, Scenario, ScenarioFailure, run};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs every seed. Calls `over` when the run of a seed is over, from any thread and in any order.
pub fn run_seeds(
    scenario: &Scenario,
    seeds: Range<u64>,
    over: &(dyn Fn(u64, Result<(), ScenarioFailure>) + Sync),
) {
    let next = AtomicU64::new(seeds.start);
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
                    over(seed, run(scenario, options).map(|_| ()));
                }
            });
        }
    });
}
