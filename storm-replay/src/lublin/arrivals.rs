//! Arrivals with a daily cycle. The time between two arrivals is drawn as if it were always rush
//! hour, and paid for in points. Each half-hour of the day gives as many points as jobs arrive in
//! it.

use rand::Rng;
use rand_distr::{Distribution, Gamma};
use statrs::distribution::{ContinuousCDF, Gamma as GammaCdf};

use super::run_time::gamma;
use super::{ArrivalParams, LublinError};

/// Half-hours of a day.
pub const BUCKETS: usize = 48;
/// Seconds of each.
pub const BUCKET_S: f64 = 1_800.0;
/// The half-hour at which the distribution of the daily cycle begins.
const CYCLIC_DAY_START: usize = 11;
/// The natural logarithm of the longest time between two arrivals in seconds:
/// five days.
const MAX_LN_GAP: f64 = 13.0;

/// A stream of arrivals that begins at midnight.
#[derive(Debug, Clone)]
pub struct Arrivals {
    gap: Gamma<f64>,
    /// Points of each half-hour; their mean is 1.
    weights: [f64; BUCKETS],
    /// Half-hours that are over.
    bucket: u64,
    /// Points spent in the current half-hour.
    spent: f64,
}

impl Arrivals {
    /// Arrivals with these parameters.
    ///
    /// # Errors
    /// A shape or scale is invalid.
    pub fn new(params: ArrivalParams) -> Result<Self, LublinError> {
        let ArrivalParams { rush: (shape, scale), rush_to_all, day } = params;
        let gap = gamma((shape * rush_to_all, scale))?;
        Ok(Self { gap, weights: weights(day)?, bucket: 0, spent: 0.0 })
    }

    /// The points of each half-hour of the day; their mean is 1.
    #[must_use]
    pub fn weights(&self) -> &[f64; BUCKETS] {
        &self.weights
    }

    /// Draws the time of the next arrival, in seconds.
    pub fn next_s(&mut self, random: &mut impl Rng) -> f64 {
        let ln = loop {
            // Nearly all draws are below the limit, so that this ends.
            let ln = self.gap.sample(random);
            if ln <= MAX_LN_GAP {
                break ln;
            }
        };
        self.spent += ln.exp() / BUCKET_S;
        // A gap is five days at most and a day gives 48 points, so that this ends.
        while self.spent > self.weight() {
            self.spent -= self.weight();
            self.bucket += 1;
        }
        (self.bucket as f64 + self.spent / self.weight()) * BUCKET_S
    }

    fn weight(&self) -> f64 {
        self.weights[(self.bucket % BUCKETS as u64) as usize]
    }
}

fn weights((shape, scale): (f64, f64)) -> Result<[f64; BUCKETS], LublinError> {
    // statrs takes the rate instead of the scale.
    let day =
        GammaCdf::new(shape, scale.recip()).map_err(|_| LublinError::Gamma { shape, scale })?;
    let mut weights = [0.0; BUCKETS];
    for half_hour in CYCLIC_DAY_START..CYCLIC_DAY_START + BUCKETS {
        let middle = half_hour as f64;
        weights[(half_hour - 1) % BUCKETS] = day.cdf(middle + 0.5) - day.cdf(middle - 0.5);
    }
    let mean = weights.iter().sum::<f64>() / BUCKETS as f64;
    Ok(weights.map(|weight| weight / mean))
}
