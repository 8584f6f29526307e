//! Runs a scenario for several seeds, and prints how to repeat a failed seed.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// The variable that restricts a run to one seed.
const SEED_VARIABLE: &str = "STORM_SEED";

/// Runs `scenario` for the seeds `0..count`, or for `$STORM_SEED` alone.
///
/// # Panics
/// When the scenario panics; the message has the command that repeats the failure.
pub(crate) fn for_seeds(count: u64, scenario: impl Fn(u64)) {
    let only = std::env::var(SEED_VARIABLE).ok().map(|text| text.parse().expect("a number"));
    for seed in only.map_or(0..count, |seed: u64| seed..seed + 1) {
        if catch_unwind(AssertUnwindSafe(|| scenario(seed))).is_err() {
            let thread = std::thread::current();
            let test = thread.name().unwrap_or_default();
            panic!(
                "seed {seed} fails; to repeat it: \
                 {SEED_VARIABLE}={seed} cargo test -p storm-mm --test driver {test}"
            );
        }
    }
}
