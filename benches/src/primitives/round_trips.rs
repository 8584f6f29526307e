//! Times of round trips, taken as perftest takes them. The clock is read once for each round trip,
//! and the readings are evaluated after the last one. An emulated machine thus measures messages,
//! not clocks.

use anyhow::Result;
use hdrhistogram::Histogram;
use std::time::Instant;

/// The end times of consecutive round trips.
pub(super) struct RoundTrips {
    ends: Vec<Instant>,
    warm_up: usize,
}

impl RoundTrips {
    /// Begins the first of `warm_up + counted` round trips.
    pub(super) fn begin(warm_up: u32, counted: u32) -> RoundTrips {
        let warm_up = warm_up as usize;
        let mut ends = Vec::with_capacity(1 + warm_up + counted as usize);
        ends.push(Instant::now());
        RoundTrips { ends, warm_up }
    }

    /// A round trip has ended, and the next begins.
    pub(super) fn end_one(&mut self) {
        self.ends.push(Instant::now());
    }

    /// Half of each that counts, in nanoseconds.
    pub(super) fn one_way_ns(&self) -> Result<Histogram<u64>> {
        let mut ns = Histogram::new(3)?;
        for ends in self.ends.windows(2).skip(self.warm_up) {
            ns.record(u64::try_from((ends[1] - ends[0]).as_nanos())? / 2)?;
        }
        Ok(ns)
    }
}
