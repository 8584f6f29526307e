//! The processors that were idle although a waiting job would have fitted on them.
//!
//! Loss of capacity (section B of the policy reference): idle processors, summed over the times
//! between events, divided by all processors times the whole time. Idle processors count only while
//! some waiting job needs no more than them.

use std::collections::BTreeMap;
use std::time::Duration;

/// The sizes of the waiting jobs, and the capacity lost so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capacity {
    pes: u32,
    /// The number of waiting jobs of each size.
    waiting: BTreeMap<u32, u64>,
    lost_pe_ns: u128,
    whole_pe_ns: u128,
    busy_pe_ns: u128,
    most_busy_pes: u32,
}

impl Capacity {
    /// Returns the account of an idle machine of that many processors.
    #[must_use]
    pub fn new(pes: u32) -> Self {
        let waiting = BTreeMap::new();
        Self { pes, waiting, lost_pe_ns: 0, whole_pe_ns: 0, busy_pe_ns: 0, most_busy_pes: 0 }
    }

    /// Notes that a job of that many processors waits from now on.
    pub fn enters(&mut self, procs: u32) {
        *self.waiting.entry(procs).or_default() += 1;
    }

    /// Notes that a job of that many processors waits no more.
    pub fn leaves(&mut self, procs: u32) {
        if let Some(count) = self.waiting.get_mut(&procs) {
            *count -= 1;
            if *count == 0 {
                self.waiting.remove(&procs);
            }
        }
    }

    /// Adds `times` intervals of length `time` in which that many processors were busy and no job
    /// came or went.
    pub fn passes(&mut self, busy_pes: u32, time: Duration, times: u64) {
        let ns = time.as_nanos() * u128::from(times);
        if ns == 0 {
            return;
        }
        self.whole_pe_ns += u128::from(self.pes) * ns;
        self.busy_pe_ns += u128::from(busy_pes) * ns;
        self.most_busy_pes = self.most_busy_pes.max(busy_pes);
        let idle = self.pes.saturating_sub(busy_pes);
        if self.waiting.first_key_value().is_some_and(|(smallest, _)| *smallest <= idle) {
            self.lost_pe_ns += u128::from(idle) * ns;
        }
    }

    /// The number of waiting jobs.
    #[must_use]
    pub fn waiting_jobs(&self) -> u64 {
        self.waiting.values().sum()
    }

    /// The lost part of the machine's capacity, from 0 to 1.
    #[must_use]
    pub fn loss(&self) -> f64 {
        let whole = self.whole_pe_ns as f64;
        if whole > 0.0 { self.lost_pe_ns as f64 / whole } else { 0.0 }
    }

    /// The busy processor-nanoseconds up to now.
    #[must_use]
    pub fn busy_pe_ns(&self) -> u128 {
        self.busy_pe_ns
    }

    /// The most processors that were busy at any time.
    #[must_use]
    pub fn most_busy_pes(&self) -> u32 {
        self.most_busy_pes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_processors_that_a_waiting_job_could_use_are_lost() {
        let mut capacity = Capacity::new(10);
        let second = Duration::from_secs(1);
        capacity.passes(4, second, 1);
        capacity.enters(7);
        capacity.passes(4, second, 1);
        capacity.enters(6);
        capacity.enters(6);
        capacity.passes(4, second, 1);
        capacity.leaves(6);
        capacity.leaves(6);
        capacity.passes(4, second, 1);
        assert_eq!(capacity.loss(), 6.0 / 40.0);
        assert_eq!((capacity.most_busy_pes(), capacity.waiting_jobs()), (4, 1));
        capacity.passes(3, second, 2);
        assert_eq!(capacity.busy_pe_ns(), (4 * 4 + 3 * 2) * second.as_nanos());
    }
}
