//! Facts: the events on a simulated machine, for the invariants and the record.

use crate::Configuration;
use storm_mm::job::JobEventKind;
use storm_nm::modelled::HostAct;
use storm_primitives::sim::NodeFault;
use storm_primitives::{NodeId, NodeSet};
use storm_rm::message::Strobe;
use storm_rm::{JobId, JobIncarnation};

/// One event. Facts name a node by the number in its name, not by the number that the present
/// manager has assigned. Only [`Fact::Compared`] has the manager's numbers.
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
    /// A COMPARE-AND-WRITE with a write is complete.
    Compared(&'a Compared),
    /// A node stopped, or was cut off.
    NodeDown(NodeId),
    /// A new incarnation of a node began.
    NodeUp(NodeId),
    /// A node that was cut off, or had lost its node manager, has joined again with its jobs.
    NodeBack(NodeId),
    /// A fault hit a node or its link, or one ended.
    Inflicted(NodeId, NodeFault),
    /// The node manager of a node ended, and the node continues with its ranks. If the ranks die
    /// with the node manager, a `NodeDown` follows.
    NodeManagerDown(NodeId),
    /// The node has no node manager, and nobody has renewed its leases for most of a lease: jobs
    /// that are to be queued again may end.
    NodeManagerLate(NodeId),
    /// The configuration was edited: the manager that starts next has read the edited file.
    Configured(&'a Configuration),
    /// The Machine Manager was killed.
    ManagerDown,
    /// A Machine Manager starts on the journal.
    ManagerUp,
    /// The run is over: no further event will come, and nothing may be left.
    Over,
}

/// The result of a COMPARE-AND-WRITE with a write, as seen in the memory of the living nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// The address to write to.
    pub addr: storm_primitives::GlobalAddr,
    /// The answer; `None` for a failure.
    pub answer: Option<bool>,
    /// The nodes asked.
    pub asked: NodeSet,
    /// Living nodes among `asked` that hold the value to be written.
    pub written: NodeSet,
    /// Living nodes among `asked` that now hold the value to be written, and held another value
    /// when the operation was issued.
    pub changed: NodeSet,
    /// Living nodes among `asked`.
    pub living: NodeSet,
}

/// The strobe that a node obeyed, for checks that compare nodes.
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
