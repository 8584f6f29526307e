//! The spinning program of section 4.2.2: one process on every processor of a node, which never
//! sleeps.
//!
//! The node's system shares its processors by time slices. A process that wakes up finds no
//! processor free. It gets the first processor whose spinning process has used up its slice. The
//! wait follows from the number of processors and the length of a slice. Priorities are not
//! modelled; the paper does not mention them.

use std::time::Duration;
use storm_primitives::sim::Random;

/// The spinning processes of one node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuLoader {
    processes: u32,
    slice: Duration,
}

impl CpuLoader {
    /// One process on each of `processors`, under a system with slices of this length.
    pub fn new(processors: u32, slice: Duration) -> CpuLoader {
        CpuLoader { processes: processors.max(1), slice }
    }

    /// How long a process that wakes up now waits for a processor. Each spinning process is at a
    /// random point of its slice, so its rest is uniform between zero and a slice. The shortest
    /// rest counts.
    pub fn wait(&self, random: &Random<'_>) -> Duration {
        let all_last_longer = 1.0 - random.unit();
        self.slice.mul_f64(1.0 - all_last_longer.powf(1.0 / f64::from(self.processes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storm_primitives::sim::Simulation;

    /// The mean of the least of n uniform rests is 1/(n+1) of a slice.
    #[test]
    fn more_processors_are_free_sooner() {
        let slice = Duration::from_millis(60);
        for processors in [1, 2, 4, 8] {
            let loader = CpuLoader::new(processors, slice);
            let runtime = Simulation::new(1).runtime();
            let total: Duration = (0..4000).map(|_| loader.wait(&runtime.random())).sum();
            let mean = (total / 4000).as_secs_f64() / slice.as_secs_f64();
            let expected = 1.0 / f64::from(processors + 1);
            assert!((mean / expected - 1.0).abs() < 0.05, "{processors}: {mean} {expected}");
        }
    }
}
