//! Noise of a node's operating system, which interrupts processes now and then.

use std::time::Duration;
use storm_primitives::sim::Random;

/// Interruptions of one length that come at random, on average once a period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    period: Duration,
    length: Duration,
}

impl Noise {
    /// Interruptions of `length`, on average one in each `period`. A period of zero means none.
    pub fn new(period: Duration, length: Duration) -> Noise {
        Noise { period, length }
    }

    /// The rest of the interruption at a random instant; zero for most instants.
    pub fn residual(&self, random: &Random<'_>) -> Duration {
        if self.period.is_zero() || self.length.is_zero() {
            return Duration::ZERO;
        }
        let into = self.period.mul_f64(random.unit());
        self.length.saturating_sub(into)
    }

    /// The delay of `work` by the interruptions that come meanwhile.
    pub fn during(&self, work: Duration, random: &Random<'_>) -> Duration {
        if self.period.is_zero() {
            return Duration::ZERO;
        }
        let expected = work.div_duration_f64(self.period);
        let whole = expected.floor();
        let further = if random.unit() < expected - whole { 1.0 } else { 0.0 };
        self.length.mul_f64(whole + further)
    }
}
