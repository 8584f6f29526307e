//! The run time of a job: the exponential of a hyper-gamma variable whose
//! mixture depends on the size.

use rand::{Rng, RngExt};
use rand_distr::{Distribution, Gamma};

use super::{LublinError, RunTimeParams};

/// The natural logarithm of the longest run time in seconds: two days.
pub const MAX_LN_RUN_TIME: f64 = 12.0;

/// The distribution of run times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunTime {
    short: Gamma<f64>,
    long: Gamma<f64>,
    slope: f64,
    intercept: f64,
}

impl RunTime {
    /// Run times with these parameters.
    ///
    /// # Errors
    /// A shape or scale is invalid.
    pub fn new(params: RunTimeParams) -> Result<Self, LublinError> {
        let RunTimeParams { short, long, slope, intercept } = params;
        Ok(Self { short: gamma(short)?, long: gamma(long)?, slope, intercept })
    }

    /// The probability that a job of this size is short.
    #[must_use]
    pub fn short_probability(&self, procs: u32) -> f64 {
        (self.slope * f64::from(procs) + self.intercept).clamp(0.0, 1.0)
    }

    /// Draws the run time of a job of this size: whole seconds, at least 1.
    pub fn draw_s(&self, procs: u32, random: &mut impl Rng) -> u64 {
        loop {
            // Nearly all draws are below the limit, so that this ends.
            let short = random.random::<f64>() <= self.short_probability(procs);
            let ln = (if short { self.short } else { self.long }).sample(random);
            if ln <= MAX_LN_RUN_TIME {
                return ln.exp() as u64;
            }
        }
    }
}

/// A gamma distribution of this shape and scale.
pub(super) fn gamma((shape, scale): (f64, f64)) -> Result<Gamma<f64>, LublinError> {
    Gamma::new(shape, scale).map_err(|_| LublinError::Gamma { shape, scale })
}
