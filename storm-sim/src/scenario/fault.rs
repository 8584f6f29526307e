//! A misfortune by script.

use super::ScenarioError;
use crate::{Machine, MachineError};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use storm_primitives::NodeId;
use storm_primitives::sim::NodeFault;

/// One fault of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Fault {
    /// When, after the nodes have joined.
    #[serde(with = "super::written_time")]
    pub at: Duration,
    /// Which node; none for the manager's.
    pub node: Option<u32>,
    /// What.
    #[serde(flatten)]
    pub kind: FaultKind,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum FaultKind {
    /// The node stops for ever.
    Kill,
    /// The node stops as by SIGSTOP; cut off when its silence is noticed.
    Freeze,
    /// A frozen node goes on.
    Thaw,
    /// The node comes back with a fresh memory.
    Rejoin,
    /// The node's link is cut: it goes on alone; cut off when its silence is
    /// noticed.
    Cut,
    /// The node's link is whole and even again.
    Mend,
    /// Everything to and from the node takes this much longer.
    Delay {
        /// How much.
        #[serde(with = "super::written_time")]
        by: Duration,
    },
    /// Messages to and from the node get lost and are sent again.
    #[serde(rename_all = "kebab-case")]
    Lossy {
        /// Of a thousand messages this many.
        per_mille: u32,
        /// Time until a lost one is sent again.
        #[serde(with = "super::written_time")]
        resend: Duration,
    },
    /// Everything on the node takes so many hundredths of its time.
    Slow {
        /// Hundredths: 300 is three times slower, 100 heals.
        percent: u32,
    },
    /// The Machine Manager is killed, and the cluster with it.
    KillManager,
    /// A manager starts on the journal, and all nodes anew.
    RestartManager,
}

impl Fault {
    pub(super) fn check(&self, nodes: u32) -> Result<(), ScenarioError> {
        let Fault { at, node, kind } = *self;
        match (kind, node) {
            (FaultKind::KillManager | FaultKind::RestartManager, _) => Ok(()),
            (_, None) => Err(ScenarioError::NodeMissing { at, kind }),
            (_, Some(node)) if (1..=nodes).contains(&node) => Ok(()),
            (_, Some(node)) => Err(ScenarioError::NoSuchNode { at, node, nodes }),
        }
    }

    /// Lets it happen.
    pub(super) fn happen(&self, machine: &Machine) -> Result<(), MachineError> {
        let node = NodeId(self.node.unwrap_or_default());
        match self.kind {
            FaultKind::Kill => machine.kill(node),
            FaultKind::Freeze => machine.inflict(node, NodeFault::Freeze),
            FaultKind::Thaw => machine.inflict(node, NodeFault::Thaw),
            FaultKind::Cut => machine.inflict(node, NodeFault::Cut),
            FaultKind::Mend => machine.inflict(node, NodeFault::Mend),
            FaultKind::Delay { by } => machine.inflict(node, NodeFault::Delay(by)),
            FaultKind::Lossy { per_mille, resend } => {
                machine.inflict(node, NodeFault::Lossy { per_mille, resend });
            }
            FaultKind::Rejoin => machine.rejoin(node),
            FaultKind::Slow { percent } => machine.inflict(node, NodeFault::Slow { percent }),
            FaultKind::KillManager => machine.kill_manager(),
            FaultKind::RestartManager => machine.restart_manager()?,
        }
        Ok(())
    }
}
