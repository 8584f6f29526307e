//! A misfortune by script.

use super::ScenarioError;
use crate::{Machine, MachineError, NodeManagerEnd};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use storm_primitives::NodeId;
use storm_primitives::sim::NodeFault;

/// One fault of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", try_from = "WrittenFault")]
pub struct Fault {
    /// When, after the nodes have joined.
    #[serde(with = "super::written_time")]
    pub at: Duration,
    /// Which node; none for the manager's.
    pub node: Option<u32>,
    /// The kind of fault.
    #[serde(flatten)]
    pub kind: FaultKind,
}

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum FaultKind {
    /// The node stops for ever.
    Kill,
    /// The node stops, as by SIGSTOP. The manager cuts it off when it notices the silence.
    Freeze,
    /// A frozen node continues.
    Thaw,
    /// The node comes back with a fresh memory.
    Rejoin,
    /// The node's link is cut, and the node continues alone. The manager cuts it off when it
    /// notices the silence.
    Cut,
    /// The node's link works again, without delay or loss.
    Mend,
    /// Every message to and from the node takes this much longer.
    Delay {
        /// How much.
        #[serde(with = "super::written_time")]
        by: Duration,
    },
    /// Messages to and from the node get lost and are sent again.
    #[serde(rename_all = "kebab-case")]
    Lossy {
        /// Messages lost per thousand.
        per_mille: u32,
        /// The time until a lost message is sent again.
        #[serde(with = "super::written_time")]
        resend: Duration,
    },
    /// Everything to, from and on the node is slowed down: its messages, its node manager, its
    /// disk, and the computing of its ranks.
    Slow {
        /// Hundredths: 300 is three times slower, 100 heals.
        percent: u32,
    },
    /// The node's disk takes nothing more.
    FillDisk,
    /// The disk has room again.
    FreeDisk,
    /// The node manager of the node is killed, and the node continues.
    KillNodeManager,
    /// The node manager is asked to end (SIGTERM), and leaves its jobs to the next one.
    StopNodeManager,
    /// The next node manager of the node starts.
    StartNodeManager,
    /// The Machine Manager is killed. The nodes keep their jobs.
    KillManager,
    /// A manager starts on the journal. The living nodes join it with their jobs.
    RestartManager,
}

/// A fault as written in the file, with the fields of all kinds.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct WrittenFault {
    #[serde(with = "super::written_time")]
    at: Duration,
    node: Option<u32>,
    kind: KindName,
    #[serde(default, with = "super::written_time::optional")]
    by: Option<Duration>,
    per_mille: Option<u32>,
    #[serde(default, with = "super::written_time::optional")]
    resend: Option<Duration>,
    percent: Option<u32>,
}

/// [`FaultKind`] by name.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum KindName {
    Kill,
    Freeze,
    Thaw,
    Rejoin,
    Cut,
    Mend,
    Delay,
    Lossy,
    Slow,
    FillDisk,
    FreeDisk,
    KillNodeManager,
    StopNodeManager,
    StartNodeManager,
    KillManager,
    RestartManager,
}

impl TryFrom<WrittenFault> for Fault {
    type Error = ScenarioError;

    fn try_from(mut written: WrittenFault) -> Result<Fault, ScenarioError> {
        let kind = match written.kind {
            KindName::Kill => FaultKind::Kill,
            KindName::Freeze => FaultKind::Freeze,
            KindName::Thaw => FaultKind::Thaw,
            KindName::Rejoin => FaultKind::Rejoin,
            KindName::Cut => FaultKind::Cut,
            KindName::Mend => FaultKind::Mend,
            KindName::Delay => FaultKind::Delay { by: needed(&mut written.by, "by")? },
            KindName::Lossy => FaultKind::Lossy {
                per_mille: needed(&mut written.per_mille, "per-mille")?,
                resend: needed(&mut written.resend, "resend")?,
            },
            KindName::Slow => FaultKind::Slow { percent: needed(&mut written.percent, "percent")? },
            KindName::FillDisk => FaultKind::FillDisk,
            KindName::FreeDisk => FaultKind::FreeDisk,
            KindName::KillNodeManager => FaultKind::KillNodeManager,
            KindName::StopNodeManager => FaultKind::StopNodeManager,
            KindName::StartNodeManager => FaultKind::StartNodeManager,
            KindName::KillManager => FaultKind::KillManager,
            KindName::RestartManager => FaultKind::RestartManager,
        };
        match written.not_taken() {
            Some(field) => Err(ScenarioError::FieldNotTaken { kind, field }),
            None => Ok(Fault { at: written.at, node: written.node, kind }),
        }
    }
}

impl WrittenFault {
    /// A field that the kind of fault does not use.
    fn not_taken(&self) -> Option<&'static str> {
        let left = [
            ("by", self.by.is_some()),
            ("per-mille", self.per_mille.is_some()),
            ("resend", self.resend.is_some()),
            ("percent", self.percent.is_some()),
        ];
        left.into_iter().find(|(_, there)| *there).map(|(field, _)| field)
    }
}

/// Takes a field that must be there.
fn needed<T>(value: &mut Option<T>, field: &'static str) -> Result<T, ScenarioError> {
    value.take().ok_or(ScenarioError::FieldMissing { field })
}

impl Fault {
    pub(super) fn check(&self, nodes: u32) -> Result<(), ScenarioError> {
        let Fault { at, node, kind } = *self;
        match (kind, node) {
            (FaultKind::KillManager | FaultKind::RestartManager, None) => Ok(()),
            (FaultKind::KillManager | FaultKind::RestartManager, Some(node)) => {
                Err(ScenarioError::NodeNotTaken { at, kind, node })
            }
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
            FaultKind::FillDisk => machine.fill_disk(node, true),
            FaultKind::FreeDisk => machine.fill_disk(node, false),
            FaultKind::KillNodeManager => machine.kill_node_manager(node),
            FaultKind::StopNodeManager => machine.end_node_manager(node, NodeManagerEnd::Asked),
            FaultKind::StartNodeManager => machine.start_node_manager(node),
            FaultKind::KillManager => machine.kill_manager(),
            FaultKind::RestartManager => machine.restart_manager()?,
        }
        Ok(())
    }
}
