//! The rates of several kinds of random events, per second of virtual time.

use super::ScenarioError;
use crate::Machine;
use std::time::Duration;

/// Largest rate, per second of virtual time.
const MOST_PER_S: f64 = 10_000.0;
/// Smallest rate: once in a hundred hours.
const LEAST_PER_S: f64 = 1e-6;

/// Rates, with the names of their keys.
pub(super) struct Rates<const N: usize>(pub(super) [(&'static str, f64); N]);

impl<const N: usize> Rates<N> {
    /// Whether they make sense.
    pub(super) fn check(&self) -> Result<(), ScenarioError> {
        for (name, rate) in self.0 {
            if rate != 0.0 && !(LEAST_PER_S..=MOST_PER_S).contains(&rate) {
                return Err(ScenarioError::Rate { name, rate, most: MOST_PER_S });
            }
        }
        Ok(())
    }

    fn total(&self) -> f64 {
        self.0.iter().map(|(_, rate)| rate).sum()
    }

    /// The mean time between two events. `None` if all rates are zero.
    pub(super) fn mean_pause(&self) -> Option<Duration> {
        let total = self.total();
        (total > 0.0).then(|| Duration::from_secs_f64(1.0 / total))
    }

    /// The name of what happens next.
    pub(super) fn draw(&self, machine: &Machine) -> &'static str {
        const STEPS: u64 = 1 << 32;
        let drawn = machine.random_below(STEPS) as f64 / STEPS as f64 * self.total();
        let mut left = drawn;
        let chosen = self.0.iter().find(|(_, rate)| {
            left -= rate;
            left < 0.0
        });
        // Rounding may leave a remainder. It is given to the last kind.
        chosen.or(self.0.last()).map_or("", |(name, _)| name)
    }
}

/// A random time up to `longest`.
pub(super) fn random(machine: &Machine, longest: Duration) -> Duration {
    Duration::from_nanos(machine.random_below(longest.as_nanos() as u64 + 1))
}
