//! Edits of the configuration by seed, and restarts of the manager and of node managers,
//! one after the other for a while. Many edits are undone by a later one.

use super::ScenarioError;
use super::edit::Editor;
use super::random_faults::{check_rates, random};
use crate::{Configuration, Machine, MachineError, RunError};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use storm_primitives::{NodeId, Runtime};

/// A manager stays at least so long: its nodes are back by then, so that no job is ended
/// for want of a manager.
const MANAGER_STAYS: Duration = Duration::from_millis(30);
/// Edits at a time, at most.
const EDITS: u64 = 3;
/// One of so many edits takes the one before it back.
const ONE_UNDOES: u64 = 3;

/// Rates of edits and restarts, per second of virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct RandomEdits {
    /// For so long, after the nodes have joined.
    #[serde(with = "super::written_time")]
    pub lasting: Duration,
    /// Edits of the configuration, each with a restart of the manager.
    pub edits_per_s: f64,
    /// Restarts of the manager with the configuration as it was.
    pub manager_restarts_per_s: f64,
    /// Restarts of a node manager.
    pub node_manager_restarts_per_s: f64,
    /// A manager or node manager is back after at most so long. Nodes end jobs that are to
    /// be queued again when there is no manager for 50 ms.
    #[serde(with = "super::written_time")]
    pub outage: Duration,
}

impl Default for RandomEdits {
    fn default() -> RandomEdits {
        RandomEdits {
            lasting: Duration::from_millis(300),
            edits_per_s: 0.0,
            manager_restarts_per_s: 0.0,
            node_manager_restarts_per_s: 0.0,
            outage: Duration::from_millis(20),
        }
    }
}

impl RandomEdits {
    pub(super) fn check(&self) -> Result<(), ScenarioError> {
        check_rates(&self.rates())
    }

    fn rates(&self) -> [(&'static str, f64); 3] {
        [
            ("edits-per-s", self.edits_per_s),
            ("manager-restarts-per-s", self.manager_restarts_per_s),
            ("node-manager-restarts-per-s", self.node_manager_restarts_per_s),
        ]
    }

    /// Lets them happen until their time is over, and waits for the last to be back.
    pub(super) async fn happen(self, machine: Machine) -> Result<(), RunError> {
        let runtime = machine.runtime();
        let end = machine.now() + self.lasting;
        let total: f64 = self.rates().iter().map(|(_, rate)| rate).sum();
        if total <= 0.0 {
            return Ok(());
        }
        let mean = Duration::from_secs_f64(1.0 / total);
        let mut former = vec![machine.configuration()];
        loop {
            runtime.sleep(random(&machine, mean * 2)).await;
            if machine.now() >= end {
                runtime.sleep(self.outage).await;
                return Ok(());
            }
            self.one(&machine, total, &mut former).await.map_err(RunError::Configuration)?;
        }
    }

    /// One edit or restart.
    async fn one(
        &self,
        machine: &Machine,
        total: f64,
        former: &mut Vec<Configuration>,
    ) -> Result<(), MachineError> {
        const STEPS: u64 = 1 << 32;
        let drawn = machine.random_below(STEPS) as f64 / STEPS as f64 * total;
        if drawn >= self.edits_per_s + self.manager_restarts_per_s {
            self.restart_node_manager(machine);
            return Ok(());
        }
        machine.kill_manager();
        machine.runtime().sleep(random(machine, self.outage)).await;
        if drawn < self.edits_per_s {
            machine.edit(next(machine, former));
        }
        machine.restart_manager()?;
        machine.runtime().sleep(MANAGER_STAYS).await;
        Ok(())
    }

    fn restart_node_manager(&self, machine: &Machine) {
        let nodes = machine.config().all_nodes();
        let node = NodeId(1 + machine.random_below(nodes.into()) as u32);
        machine.kill_node_manager(node);
        let (timer, this) =
            (machine.runtime().sleep(random(machine, self.outage)), machine.clone());
        let task = machine.runtime().spawn(async move {
            timer.await;
            this.start_node_manager(node);
        });
        task.detach();
    }
}

/// The configuration after some edits, or as it was before the last ones.
fn next(machine: &Machine, former: &mut Vec<Configuration>) -> Configuration {
    let present = machine.configuration();
    if machine.random_below(ONE_UNDOES) == 0
        && let Some(before) = former.pop()
    {
        return before;
    }
    let config = machine.config();
    let random = |bound| machine.random_below(bound);
    let editor = Editor { nodes: config.all_nodes(), pes: config.pes, random: &random };
    let edits = 1 + machine.random_below(EDITS);
    let next = (0..edits).fold(present.clone(), |edited, _| editor.edited(&edited));
    former.push(present);
    next
}
