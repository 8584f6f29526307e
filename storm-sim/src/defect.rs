//! A wrong implementation, put into a simulated machine on purpose. It changes how the daemons
//! behave. The mutants that test the invariants are defects (`tests/all/mutants.rs`).
//!
//! Faults are different: they hit a correct implementation ([`crate::scenario`]).

use storm_mm::job::JobEventKind;
use storm_nm::JobKey;
use storm_primitives::{CompareAndWrite, NodeId};
use storm_rm::JobId;
use storm_rm::message::Strobe;

/// The points at which a defect can change a daemon. Each method changes nothing
/// unless a defect overrides it.
pub trait Defect {
    /// The switches that a node performs instead of `switch`.
    fn switches(&self, node: NodeId, switch: Switch) -> Vec<Switch> {
        let _ = node;
        vec![switch]
    }

    /// How often a node starts its ranks of a run for one launch.
    fn launches(&self, node: NodeId, job: JobKey) -> u32 {
        let _ = (node, job);
        1
    }

    /// Whether a node forgets a run when the manager orders it to.
    fn forgets(&self, node: NodeId, job: JobKey) -> bool {
        let _ = (node, job);
        true
    }

    /// Whether a node manager takes over a run that its predecessor left.
    fn takes_over(&self, node: NodeId, job: JobKey) -> bool {
        let _ = (node, job);
        true
    }

    /// Whether an event of a job becomes durable.
    fn journals(&self, job: JobId, event: &JobEventKind) -> bool {
        let _ = (job, event);
        true
    }

    /// Changes an event of the journal as the next manager reads it.
    fn reads(&self, job: JobId, event: &mut JobEventKind) {
        let _ = (job, event);
    }

    /// The answer that the manager receives when it asks whether a run has ended on all its nodes
    /// (Algorithm 8); `truth` is the right answer.
    fn hears_ended(&self, truth: bool) -> bool {
        truth
    }

    /// The node that a COMPARE-AND-WRITE leaves unwritten although it answers TRUE.
    fn leaves_unwritten(&self, question: &CompareAndWrite) -> Option<NodeId> {
        let _ = question;
        None
    }
}

/// A context switch that a node manager orders on its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The strobe that the node obeys, if any.
    pub strobe: Option<Strobe>,
    /// Runs to stop.
    pub stop: Vec<JobKey>,
    /// Runs to resume, afterwards.
    pub resume: Vec<JobKey>,
}
