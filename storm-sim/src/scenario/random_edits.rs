//! Random edits of the configuration, and restarts of the manager and of node managers, one after
//! the other for a while. Many later edits undo earlier ones.

use super::ScenarioError;
use super::edit::Editor;
use super::rates::{Rates, random};
use super::restart::restart_node_manager;
use crate::{Configuration, Machine, MachineError, RunError};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use storm_primitives::Runtime;

/// The shortest time between two restarts of the manager. All nodes can join in this time, so no
/// job is ended for lack of a manager.
const MANAGER_STAYS: Duration = Duration::from_millis(30);
/// Edits at a time, at most.
const EDITS: u64 = 3;
/// One in this number of edits undoes the edit before it.
const ONE_UNDOES: u64 = 3;

const EDITS_PER_S: &str = "edits-per-s";
const MANAGER_RESTARTS_PER_S: &str = "manager-restarts-per-s";
const NODE_MANAGER_RESTARTS_PER_S: &str = "node-manager-restarts-per-s";
const NODE_MANAGER_ABSENCES_PER_S: &str = "node-manager-absences-per-s";

/// Rates of edits and restarts, per second of virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct RandomEdits {
    /// How long edits happen, after the nodes have joined.
    #[serde(with = "super::written_time")]
    pub lasting: Duration,
    /// Edits of the configuration, each with a restart of the manager.
    pub edits_per_s: f64,
    /// Restarts of the manager with an unchanged configuration.
    pub manager_restarts_per_s: f64,
    /// Restarts of a node manager.
    pub node_manager_restarts_per_s: f64,
    /// Node managers that end and are back after at most twice `node-return`.
    pub node_manager_absences_per_s: f64,
    /// Longest absence of a manager or node manager. Without a manager for 50 ms, nodes end jobs
    /// that are to be queued again.
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
            node_manager_absences_per_s: 0.0,
            outage: Duration::from_millis(20),
        }
    }
}

impl RandomEdits {
    pub(super) fn check(&self) -> Result<(), ScenarioError> {
        self.rates().check()
    }

    fn rates(&self) -> Rates<4> {
        Rates([
            (EDITS_PER_S, self.edits_per_s),
            (MANAGER_RESTARTS_PER_S, self.manager_restarts_per_s),
            (NODE_MANAGER_RESTARTS_PER_S, self.node_manager_restarts_per_s),
            (NODE_MANAGER_ABSENCES_PER_S, self.node_manager_absences_per_s),
        ])
    }

    /// Makes edits and restarts until their time is over, then waits until the last absent manager
    /// is back.
    pub(super) async fn happen(self, machine: Machine) -> Result<(), RunError> {
        let runtime = machine.runtime();
        let end = machine.now() + self.lasting;
        let Some(mean) = self.rates().mean_pause() else { return Ok(()) };
        let absence = machine.config().node_return * 2;
        let mut former = vec![machine.configuration()];
        loop {
            runtime.sleep(random(&machine, mean * 2)).await;
            if machine.now() >= end {
                let absent = self.node_manager_absences_per_s > 0.0;
                runtime.sleep(if absent { self.outage.max(absence) } else { self.outage }).await;
                return Ok(());
            }
            match self.rates().draw(&machine) {
                NODE_MANAGER_RESTARTS_PER_S => restart_node_manager(&machine, self.outage),
                NODE_MANAGER_ABSENCES_PER_S => restart_node_manager(&machine, absence),
                edit_or_restart => {
                    let edits = edit_or_restart == EDITS_PER_S;
                    let restarted = self.restart_manager(&machine, edits, &mut former).await;
                    restarted.map_err(RunError::Configuration)?;
                }
            }
        }
    }

    async fn restart_manager(
        &self,
        machine: &Machine,
        edits: bool,
        former: &mut Vec<Configuration>,
    ) -> Result<(), MachineError> {
        machine.kill_manager();
        machine.runtime().sleep(random(machine, self.outage)).await;
        if edits {
            machine.edit(next(machine, former));
        }
        machine.restart_manager()?;
        machine.runtime().sleep(MANAGER_STAYS).await;
        Ok(())
    }
}

/// The configuration after some edits, or an earlier configuration.
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
