//! What takes time on a node: files, processes, and the daemons' own turn
//! (paper, sections 4.2 and 4.4.1).
//!
//! All times are those of a node that is not slowed by a fault; the caller
//! multiplies by `SimNetwork::slow_percent`.

use crate::{Machine, Noise};
use std::time::Duration;
use storm_primitives::sim::Random;

const BYTES_PER_MIB: f64 = 1_048_576.0;

/// The times of a machine's hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct HostModel {
    read_mib_s: Option<f64>,
    write_mib_s: Option<f64>,
    wake: Duration,
    cpu_wait: Duration,
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
        let cpu_wait = if machine.load().cpu { profile.load.cpu_wait_ms.value } else { 0.0 };
        HostModel {
            read_mib_s: machine.read_mib_s(),
            write_mib_s: write.map(|value| value.value),
            wake: micros(profile.host.wake_us.value),
            cpu_wait: millis(cpu_wait),
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

    /// The management node reads so many bytes of a file.
    pub fn read(&self, bytes: u64) -> Duration {
        time_at(self.read_mib_s, bytes)
    }

    /// A node writes so many bytes of a file.
    pub fn write(&self, bytes: u64, random: &Random<'_>) -> Duration {
        let time = time_at(self.write_mib_s, bytes);
        time + self.noise.during(time, random)
    }

    /// From a signal until the daemon that waits for it runs: the wake-up, what is
    /// left of an interruption, and under CPU load the wait for a processor.
    pub fn wake(&self, random: &Random<'_>) -> Duration {
        self.wake + self.noise.residual(random) + random.between(Duration::ZERO, self.cpu_wait)
    }

    /// From the order to start a process to its first instruction.
    pub fn fork_exec(&self, random: &Random<'_>) -> Duration {
        self.fork_exec + self.skewed(random)
    }

    /// From the end of a process until its node's daemon knows.
    pub fn exit(&self, random: &Random<'_>) -> Duration {
        self.exit + self.noise.residual(random) + random.between(Duration::ZERO, self.cpu_wait)
    }

    /// Stopping one job's processes and resuming the next one's.
    pub fn switch(&self) -> Duration {
        self.switch
    }

    fn skewed(&self, random: &Random<'_>) -> Duration {
        random.between(Duration::ZERO, self.exec_skew)
            + random.between(Duration::ZERO, self.cpu_wait)
    }
}

/// The time of so many bytes; none where the bandwidth is not limited.
pub(crate) fn time_at(mib_s: Option<f64>, bytes: u64) -> Duration {
    mib_s
        .map_or(Duration::ZERO, |rate| Duration::from_secs_f64(bytes as f64 / BYTES_PER_MIB / rate))
}

/// Of a checked profile: not negative, and far from the largest duration.
pub(crate) fn micros(us: f64) -> Duration {
    Duration::from_secs_f64(us / 1e6)
}

/// The same of milliseconds.
pub(crate) fn millis(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1e3)
}
