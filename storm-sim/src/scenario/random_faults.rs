//! Random faults from the seed, at given rates for a while.

use super::rates::{Rates, random};
use super::restart::restart_node_manager;
use super::{Fault, FaultKind, ScenarioError};
use crate::{Machine, RunError};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use storm_primitives::sim::NodeFault;
use storm_primitives::{NodeId, Runtime};

/// The greatest slowdown of a node, in hundredths.
const SLOWEST_PERCENT: u64 = 1_000;

/// Longest time that a link adds to a message.
const LONGEST_DELAY: Duration = Duration::from_millis(2);

/// Rates of faults, per second of virtual time over the whole machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct RandomFaults {
    /// How long faults happen, after the nodes have joined.
    #[serde(with = "super::written_time")]
    pub lasting: Duration,
    /// Nodes that stop for ever.
    pub kills_per_s: f64,
    /// Rate of freezes. A frozen node may continue in time, or not.
    pub freezes_per_s: f64,
    /// Nodes that become slow.
    pub slow_per_s: f64,
    /// Rate of cuts of links. A link may be restored in time, or not.
    pub cuts_per_s: f64,
    /// Links that delay everything.
    pub delays_per_s: f64,
    /// Disks that become full.
    pub full_disks_per_s: f64,
    /// Kills of the Machine Manager.
    pub manager_kills_per_s: f64,
    /// Rate of node managers that end while their nodes continue.
    pub node_manager_restarts_per_s: f64,
    /// Longest time until the next one starts.
    #[serde(with = "super::written_time")]
    pub absence: Duration,
    /// Longest time until a dead node or manager is back.
    #[serde(with = "super::written_time")]
    pub repair: Duration,
    /// Longest time until a frozen node continues, or a cut link is restored.
    #[serde(with = "super::written_time")]
    pub freeze: Duration,
}

impl Default for RandomFaults {
    fn default() -> RandomFaults {
        RandomFaults {
            lasting: Duration::from_millis(500),
            kills_per_s: 0.0,
            freezes_per_s: 0.0,
            slow_per_s: 0.0,
            cuts_per_s: 0.0,
            delays_per_s: 0.0,
            full_disks_per_s: 0.0,
            manager_kills_per_s: 0.0,
            node_manager_restarts_per_s: 0.0,
            absence: Duration::from_millis(20),
            repair: Duration::from_millis(50),
            freeze: Duration::from_millis(10),
        }
    }
}

impl RandomFaults {
    pub(super) fn check(&self) -> Result<(), ScenarioError> {
        self.rates().check()
    }

    fn rates(&self) -> Rates<8> {
        Rates([
            ("kills-per-s", self.kills_per_s),
            ("freezes-per-s", self.freezes_per_s),
            ("slow-per-s", self.slow_per_s),
            ("cuts-per-s", self.cuts_per_s),
            ("delays-per-s", self.delays_per_s),
            ("full-disks-per-s", self.full_disks_per_s),
            ("node-manager-restarts-per-s", self.node_manager_restarts_per_s),
            ("manager-kills-per-s", self.manager_kills_per_s),
        ])
    }

    /// Makes faults until their time is over, then waits until the last fault has ended. A node
    /// that came back later would end a job of a healed machine.
    pub(super) async fn happen(self, machine: Machine) -> Result<(), RunError> {
        let runtime = machine.runtime();
        let end = machine.now() + self.lasting;
        let Some(mean) = self.rates().mean_pause() else { return Ok(()) };
        loop {
            runtime.sleep(random(&machine, mean * 2)).await;
            if machine.now() >= end {
                runtime.sleep(self.repair.max(self.freeze).max(self.absence)).await;
                return Ok(());
            }
            self.one(&machine);
        }
    }

    /// Makes one fault, and schedules its end.
    fn one(&self, machine: &Machine) {
        let kind = self.rates().draw(machine);
        let node = NodeId(1 + machine.random_below(machine.config().nodes.into()) as u32);
        match kind {
            "kills-per-s" => {
                machine.kill(node);
                self.later(machine, self.repair, node, FaultKind::Rejoin);
            }
            "freezes-per-s" => {
                machine.inflict(node, NodeFault::Freeze);
                self.later(machine, self.freeze, node, FaultKind::Thaw);
            }
            "slow-per-s" => {
                let percent = 100 + machine.random_below(SLOWEST_PERCENT - 100) as u32;
                machine.inflict(node, NodeFault::Slow { percent });
                self.later(machine, self.repair, node, FaultKind::Slow { percent: 100 });
            }
            "cuts-per-s" => {
                machine.inflict(node, NodeFault::Cut);
                self.later(machine, self.freeze, node, FaultKind::Mend);
            }
            "delays-per-s" => {
                machine.inflict(node, NodeFault::Delay(random(machine, LONGEST_DELAY)));
                self.later(machine, self.repair, node, FaultKind::Mend);
            }
            "full-disks-per-s" => {
                machine.fill_disk(node, true);
                self.later(machine, self.repair, node, FaultKind::FreeDisk);
            }
            "node-manager-restarts-per-s" => restart_node_manager(machine, self.absence),
            _ if machine.manager_is_up() => {
                machine.kill_manager();
                self.later(machine, self.repair, node, FaultKind::RestartManager);
            }
            _ => {}
        }
    }

    /// Lets a fault happen to a node within `longest`.
    fn later(&self, machine: &Machine, longest: Duration, node: NodeId, kind: FaultKind) {
        let (at, this) = (random(machine, longest), machine.clone());
        let timer = machine.runtime().sleep(at);
        let task = machine.runtime().spawn(async move {
            timer.await;
            let fault = Fault { at, node: Some(node.0), kind };
            // Fails for no configuration that the machine was started with.
            let _ = fault.happen(&this);
        });
        task.detach();
    }
}
