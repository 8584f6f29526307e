//! A wrong implementation, put into a simulated machine on purpose: what its
//! daemons are made to do otherwise than they would. The invariants' mutants are
//! such defects (`tests/all/mutants.rs`).
//!
//! What it does not do: misfortunes of a right implementation, which are faults
//! ([`crate::scenario`]).

use storm_mm::job::JobEventKind;
use storm_nm::JobKey;
use storm_primitives::{CompareAndWrite, NodeId};
use storm_rm::JobId;
use storm_rm::message::Strobe;

/// What goes wrong. Each method leaves everything as it is unless a defect says
/// otherwise.
pub trait Defect {
    /// The switches that a node makes where it should make this one.
    fn switches(&self, node: NodeId, switch: Switch) -> Vec<Switch> {
        let _ = node;
        vec![switch]
    }

    /// How often a node starts its ranks of a run, told to do it once.
    fn launches(&self, node: NodeId, job: JobKey) -> u32 {
        let _ = (node, job);
        1
    }

    /// Whether a node forgets a run that it is told to forget.
    fn forgets(&self, node: NodeId, job: JobKey) -> bool {
        let _ = (node, job);
        true
    }

    /// Whether a node manager takes over a run that the one before it left.
    fn takes_over(&self, node: NodeId, job: JobKey) -> bool {
        let _ = (node, job);
        true
    }

    /// Whether an event of a job becomes durable.
    fn journals(&self, job: JobId, event: &JobEventKind) -> bool {
        let _ = (job, event);
        true
    }

    /// What the next manager reads of an event that is in the journal.
    fn reads(&self, job: JobId, event: &mut JobEventKind) {
        let _ = (job, event);
    }

    /// What the manager hears to its question whether a run has ended on all its
    /// nodes (Algorithm 8), where `truth` is the answer.
    fn hears_ended(&self, truth: bool) -> bool {
        truth
    }

    /// The node on which a COMPARE-AND-WRITE that answered TRUE has not written.
    fn leaves_unwritten(&self, question: &CompareAndWrite) -> Option<NodeId> {
        let _ = question;
        None
    }
}

/// A context switch, as a node manager orders it of its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The strobe that it obeys, if it does.
    pub strobe: Option<Strobe>,
    /// Runs to stop.
    pub stop: Vec<JobKey>,
    /// Runs to resume, afterwards.
    pub resume: Vec<JobKey>,
}
