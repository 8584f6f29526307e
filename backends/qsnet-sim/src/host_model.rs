//! The times of a node: files, processes, and the daemons' own turn (paper, sections 4.2 and
//! 4.4.1).
//!
//! All times are those of a node without faults; the caller multiplies them by
//! `SimNetwork::slow_percent`.

use crate::{CpuLoader, Machine, Noise};
use std::time::Duration;
use storm_primitives::sim::Random;

const BYTES_PER_MIB: f64 = 1_048_576.0;

/// The times of a machine's hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct HostModel {
    read_mib_s: Option<f64>,
    write_mib_s: Option<f64>,
    wake: Duration,
    processors: u32,
    /// Under CPU load only.
    loader: Option<CpuLoader>,
    noise: Noise,
    fork_exec: Duration,
    exec_skew: Duration,
    exit: Duration,
    switch: Duration,
}

impl HostModel {
    pub(crate) fn new(machine: &Machine) -> HostModel {
        let (profile, common) = (machine.profile(), &machine.profile().machine.host);
        let write = common.write_mib_s.as_ref().or(profile.host.write_mib_s.as_ref());
        let (processors, slice) = (machine.processors(), millis(profile.load.cpu_slice_ms.value));
        let loader = machine.load().cpu.then(|| CpuLoader::new(processors, slice));
        HostModel {
            read_mib_s: machine.read_mib_s(),
            write_mib_s: write.map(|value| value.value),
            wake: micros(profile.host.wake_us.value),
            processors,
            loader,
            noise: Noise::new(
                millis(profile.host.noise_period_ms.value),
                micros(profile.host.noise_us.value),
            ),
            fork_exec: millis(profile.fork_exec_ms()),
            exec_skew: millis(profile.host.exec_skew_ms.value),
            exit: millis(profile.host.exit_ms.value),
            switch: micros(common.switch_us.value),
        }
    }

    /// Processors of a node.
    pub fn processors(&self) -> u32 {
        self.processors
    }

    /// The time in which the management node reads `bytes` of a file.
    pub fn read(&self, bytes: u64) -> Duration {
        time_at(self.read_mib_s, bytes)
    }

    /// The time in which a node writes `bytes` of a file.
    pub fn write(&self, bytes: u64, random: &Random<'_>) -> Duration {
        self.interrupted(time_at(self.write_mib_s, bytes), random)
    }

    /// The time from a signal until its waiting daemon runs: the wake-up, the rest of an
    /// interruption, and under CPU load the wait for a processor.
    pub fn wake(&self, random: &Random<'_>) -> Duration {
        self.wake + self.noise.residual(random) + self.wait(random)
    }

    /// The time from the order to start a process to its first instruction.
    pub fn fork_exec(&self, random: &Random<'_>) -> Duration {
        self.fork_exec + self.skewed(random)
    }

    /// The time from the end of a process until its node's daemon knows.
    pub fn exit(&self, random: &Random<'_>) -> Duration {
        self.exit + self.noise.residual(random) + self.wait(random)
    }

    /// How long a daemon's work takes, including interruptions meanwhile.
    pub fn interrupted(&self, work: Duration, random: &Random<'_>) -> Duration {
        work + self.noise.during(work, random)
    }

    /// The time to stop one job's processes and resume the next one's.
    pub fn switch(&self) -> Duration {
        self.switch
    }

    fn skewed(&self, random: &Random<'_>) -> Duration {
        random.between(Duration::ZERO, self.exec_skew) + self.wait(random)
    }

    /// The wait for a processor.
    fn wait(&self, random: &Random<'_>) -> Duration {
        self.loader.map_or(Duration::ZERO, |loader| loader.wait(random))
    }
}

/// The time for `bytes`; zero if the bandwidth is not limited.
pub(crate) fn time_at(mib_s: Option<f64>, bytes: u64) -> Duration {
    mib_s
        .map_or(Duration::ZERO, |rate| Duration::from_secs_f64(bytes as f64 / BYTES_PER_MIB / rate))
}

/// Converts a value of a checked profile. The value is not negative, and far below the largest
/// duration.
pub(crate) fn micros(us: f64) -> Duration {
    Duration::from_secs_f64(us / 1e6)
}

/// Like [`micros`], for milliseconds.
pub(crate) fn millis(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1e3)
}
