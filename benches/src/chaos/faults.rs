//! The faults of the daemons, and when they are undone.

use super::cluster::Cluster;
use anyhow::Result;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::{Rng, RngExt};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// A Node Manager is killed, and started again up to 1.5 s later.
    NodeManagerKilled,
    /// A Node Manager is stopped for up to 4 s.
    NodeManagerStopped,
    /// The keeper of a Node Manager is killed.
    KeeperKilled,
    /// A keeper is stopped for up to a second.
    KeeperStopped,
    /// The Machine Manager is killed, and started again up to a second later.
    MachineManagerKilled,
    /// The Machine Manager is stopped for up to 2 s.
    MachineManagerStopped,
}

/// The faults with their relative frequencies.
const FAULTS: [(Fault, u32); 6] = [
    (Fault::NodeManagerKilled, 4),
    (Fault::NodeManagerStopped, 4),
    (Fault::KeeperKilled, 1),
    (Fault::KeeperStopped, 2),
    (Fault::MachineManagerKilled, 2),
    (Fault::MachineManagerStopped, 2),
];

/// An action due later.
#[derive(Debug)]
enum Later {
    Revive(usize),
    Continue(Pid),
}

/// Does faults.
#[derive(Debug, Default)]
pub struct Faults {
    later: Vec<(Instant, Later)>,
    done: BTreeMap<Fault, u32>,
}

impl Faults {
    /// How many times each fault was injected.
    pub fn done(&self) -> &BTreeMap<Fault, u32> {
        &self.done
    }

    /// Injects a random fault.
    pub fn strike(&mut self, cluster: &mut Cluster, random: &mut impl Rng) {
        let all: u32 = FAULTS.iter().map(|(_, weight)| weight).sum();
        let mut drawn = random.random_range(0..all);
        let chosen = FAULTS.iter().find(|(_, weight)| {
            let is_it = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            is_it
        });
        let Some((fault, _)) = chosen else { return };
        let node = random.random_range(1..cluster.daemons.len());
        let until = |most_ms: u64, random: &mut dyn Rng| {
            Instant::now() + Duration::from_millis(random.next_u64() % most_ms)
        };
        let struck = match fault {
            Fault::NodeManagerKilled => self.kill(cluster, node, until(1500, random)),
            Fault::MachineManagerKilled => self.kill(cluster, 0, until(1000, random)),
            Fault::NodeManagerStopped => {
                self.stop(cluster.daemons[node].pid(), until(4000, random))
            }
            Fault::MachineManagerStopped => {
                self.stop(cluster.daemons[0].pid(), until(2000, random))
            }
            Fault::KeeperStopped => self.stop(cluster.daemons[node].keeper(), until(1000, random)),
            Fault::KeeperKilled => {
                let keeper = cluster.daemons[node].keeper();
                self.later.push((until(1500, random), Later::Revive(node)));
                keeper.is_some_and(|pid| kill(pid, Signal::SIGKILL).is_ok())
            }
        };
        *self.done.entry(*fault).or_default() += u32::from(struck);
    }

    fn kill(&mut self, cluster: &mut Cluster, place: usize, until: Instant) -> bool {
        let is_there = cluster.daemons[place].pid().is_some();
        cluster.daemons[place].signal(Signal::SIGKILL);
        self.later.push((until, Later::Revive(place)));
        is_there
    }

    fn stop(&mut self, pid: Option<Pid>, until: Instant) -> bool {
        let Some(pid) = pid else { return false };
        self.later.push((until, Later::Continue(pid)));
        kill(pid, Signal::SIGSTOP).is_ok()
    }

    /// Undoes the faults that are due; with `all`, every fault.
    ///
    /// # Errors
    /// A daemon cannot be started again.
    pub fn undo(&mut self, cluster: &mut Cluster, all: bool) -> Result<()> {
        let now = Instant::now();
        let is_due = |(at, _): &mut (Instant, Later)| all || *at <= now;
        let due: Vec<_> = self.later.extract_if(.., is_due).collect();
        for (_, what) in due {
            match what {
                Later::Revive(place) => cluster.revive_one(place)?,
                // The process may have been killed meanwhile.
                Later::Continue(pid) => drop(kill(pid, Signal::SIGCONT)),
            }
        }
        if all { cluster.revive() } else { Ok(()) }
    }
}
