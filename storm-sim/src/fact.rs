//! What happened on the simulated machine, as those who watch it are told.

use crate::Configuration;
use storm_mm::job::JobEventKind;
use storm_nm::modelled::HostAct;
use storm_primitives::sim::NodeFault;
use storm_primitives::{NodeId, NodeSet};
use storm_rm::message::Strobe;
use storm_rm::{JobId, JobIncarnation};

/// One thing that happened. Nodes have the numbers of their names here, whatever numbers
/// the present manager has given them; only [`Fact::Compared`] has those.
#[derive(Clone, Debug)]
pub enum Fact<'a> {
    /// The Machine Manager acknowledged a job.
    Acknowledged(JobId),
    /// An event of a job became durable.
    Journal(JobId, &'a JobEventKind),
    /// A node did something.
    Host(NodeId, &'a HostAct),
    /// COMPARE-AND-WRITE found that a run has ended on all its nodes (Algorithm
    /// 8): its processing elements are free.
    Terminated(JobIncarnation),
    /// A COMPARE-AND-WRITE that would write is over.
    Compared(&'a Compared),
    /// A node stopped, or was cut off.
    NodeDown(NodeId),
    /// A new life of a node began.
    NodeUp(NodeId),
    /// A node that was cut off, or whose manager died, has joined again with its jobs.
    NodeBack(NodeId),
    /// A fault befell a node or its link; or one ended.
    Inflicted(NodeId, NodeFault),
    /// The node manager of a node ended; the node goes on with its ranks. Where they die
    /// with the node manager, the node is down as well.
    NodeManagerDown(NodeId),
    /// The node has been without a node manager for most of a lease: jobs that are to be queued
    /// again may end.
    NodeManagerLate(NodeId),
    /// The configuration was edited: the manager that starts next has read it so.
    Configured(&'a Configuration),
    /// The Machine Manager was killed.
    ManagerDown,
    /// A Machine Manager starts on the journal.
    ManagerUp,
    /// Nothing more will happen: nothing may be left.
    Over,
}

/// How a COMPARE-AND-WRITE with a write ended, as seen in the memory of the nodes
/// that live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// Where it was to write.
    pub addr: storm_primitives::GlobalAddr,
    /// What it answered; `None` for a failure.
    pub answer: Option<bool>,
    /// The nodes asked.
    pub asked: NodeSet,
    /// Of those, the nodes that live and hold the value that was to be written.
    pub written: NodeSet,
    /// Of those, the nodes that live and held another value when it was asked and
    /// hold the value to be written now.
    pub changed: NodeSet,
    /// Of those, the nodes that live.
    pub living: NodeSet,
}

/// A strobe as a node obeyed it; for checks that compare nodes.
pub(crate) fn strobe_of(act: &HostAct) -> Option<&Strobe> {
    match act {
        HostAct::Strobe(strobe) => Some(strobe),
        HostAct::Launch { .. }
        | HostAct::Refuse(_)
        | HostAct::Rows { .. }
        | HostAct::Exit { .. }
        | HostAct::Stop(_)
        | HostAct::Resume(_)
        | HostAct::Classified { .. }
        | HostAct::Signal { .. }
        | HostAct::Destroy(_)
        | HostAct::LeaseOver(_)
        | HostAct::KeeperEnded
        | HostAct::End(_)
        | HostAct::Forget(_)
        | HostAct::Place(_)
        | HostAct::ClosePmi { .. }
        | HostAct::Left => None,
    }
}
