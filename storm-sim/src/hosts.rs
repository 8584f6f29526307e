//! The times of the hosts of a machine.

use std::time::Duration;
use storm_nm::modelled::{Activity, OperatingSystem};
use storm_primitives::sim::Random;
use storm_qsnet_sim::HostModel;

/// The times of a machine's hosts. If a fault slows a node down, the caller multiplies the node's
/// times.
pub trait Hosts {
    /// The time in which the manager's host reads `bytes` bytes of a file.
    fn read(&self, bytes: u64) -> Duration;

    /// The number of processors of a node. If the ranks use all of them, the daemon shares one with
    /// a rank.
    fn processors(&self) -> u32 {
        u32::MAX
    }

    /// How long an activity takes on a node.
    fn takes(&self, activity: Activity, random: &Random<'_>) -> Duration;
}

/// Generic hosts for tests. Each time is drawn uniformly up to its bound, so each seed gives
/// another interleaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainHosts {
    /// Reading or writing a MiB.
    pub per_mib: Duration,
    /// The longest time from the order to start a rank to its first instruction.
    pub exec: Duration,
    /// The longest time from the end of a process until its manager knows it.
    pub exit: Duration,
    /// The longest time until a node manager processes a heartbeat.
    pub attend: Duration,
    /// From the stop of one row to the start of the next.
    pub switch: Duration,
}

impl Hosts for PlainHosts {
    fn read(&self, bytes: u64) -> Duration {
        time_of(self.per_mib, bytes)
    }

    fn takes(&self, activity: Activity, random: &Random<'_>) -> Duration {
        let upto = |longest| random.between(Duration::ZERO, longest);
        match activity {
            Activity::Attend => upto(self.attend),
            Activity::Switch => self.switch,
            Activity::Write { bytes } => time_of(self.per_mib, bytes),
            Activity::Exec => upto(self.exec),
            Activity::Exit => upto(self.exit),
            Activity::Tick => upto(OperatingSystem::default().slice),
        }
    }
}

/// Hosts as a machine profile describes them.
#[derive(Clone, Debug)]
pub(crate) struct ProfiledHosts {
    pub(crate) model: HostModel,
    /// Time that a node manager needs for a heartbeat. A node does not keep up with a
    /// shorter quantum (section 4.3.1).
    pub(crate) attend: Duration,
}

impl Hosts for ProfiledHosts {
    fn read(&self, bytes: u64) -> Duration {
        self.model.read(bytes)
    }

    fn processors(&self) -> u32 {
        self.model.processors()
    }

    fn takes(&self, activity: Activity, random: &Random<'_>) -> Duration {
        match activity {
            Activity::Attend => self.model.interrupted(self.attend, random),
            Activity::Switch => self.model.switch(),
            Activity::Write { bytes } => self.model.write(bytes, random),
            Activity::Exec => self.model.fork_exec(random),
            Activity::Exit => self.model.exit(random),
            Activity::Tick => random.between(Duration::ZERO, OperatingSystem::default().slice),
        }
    }
}

/// Time for `bytes` at `per_mib` for each MiB.
pub(crate) fn time_of(per_mib: Duration, bytes: u64) -> Duration {
    const MIB: u128 = 1 << 20;
    let ns = per_mib.as_nanos() * u128::from(bytes) / MIB;
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}
