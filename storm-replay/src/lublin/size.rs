//! The number of processors of a job: serial, a power of two, or any, out of
//! a two-stage uniform distribution of its base-2 logarithm.

use rand::{Rng, RngExt};

use super::SizeParams;

/// The smallest machine of the model, in processors. Below 8, the stages of the sizes would begin
/// below one processor.
pub const MIN_PES: u32 = 8;
/// The distance from the middle of the two stages to the largest size, in powers of two. The
/// authors advise 1.5 to 3.5.
const UPPER_STAGE_LOG2: f64 = 2.5;

/// The distribution of sizes on a machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Size {
    params: SizeParams,
    log2_middle: f64,
    log2_high: f64,
    pes: u32,
}

impl Size {
    /// Sizes on a machine of `pes` processors, at least [`MIN_PES`].
    #[must_use]
    pub fn new(params: SizeParams, pes: u32) -> Self {
        let log2_high = f64::from(pes.max(MIN_PES)).log2();
        // On the smallest machines the lower stage would be empty otherwise.
        let log2_middle = (log2_high - UPPER_STAGE_LOG2).max(params.log2_low);
        Self { params, log2_middle, log2_high, pes }
    }

    /// Draws a size.
    pub fn draw(&self, random: &mut impl Rng) -> u32 {
        let SizeParams { serial, power_of_two, log2_low, lower_stage } = self.params;
        let kind: f64 = random.random();
        if kind <= serial {
            return 1;
        }
        let lower = random.random::<f64>() <= lower_stage;
        let (from, to) =
            if lower { (log2_low, self.log2_middle) } else { (self.log2_middle, self.log2_high) };
        let log2 = from + random.random::<f64>() * (to - from);
        let log2 = if kind <= serial + power_of_two { log2.round() } else { log2 };
        // The log2 of the machine may round up to a power of two that is larger than the machine.
        (log2.exp2().round() as u32).clamp(1, self.pes)
    }
}
