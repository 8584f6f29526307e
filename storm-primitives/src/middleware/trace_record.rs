//! The record that a [`Tracer`](super::Tracer) keeps of one operation.

use crate::{
    CompareAndWrite, EventId, GlobalAddr, Instant, NodeId, NodeSet, PrimitiveError, Signal, Xfer,
};
use std::fmt;
use std::time::Duration;

/// One operation of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// The node that issued it.
    pub node: NodeId,
    /// The operation's number among the operations of this node, from 0.
    pub number: u64,
    /// The instant at which the operation was issued.
    pub at: Instant,
    /// The operation.
    pub op: TracedOp,
    /// The outcome, or `None` while the operation runs.
    pub outcome: Option<Outcome>,
}

/// An operation without its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TracedOp {
    /// XFER-AND-SIGNAL.
    Xfer {
        /// The nodes to write to.
        dest: NodeSet,
        /// The destination address.
        addr: GlobalAddr,
        /// The length in bytes.
        len: u64,
        /// The event signalled there.
        remote_event: Option<EventId>,
    },
    /// COMPARE-AND-WRITE.
    Caw(CompareAndWrite),
    /// TEST-EVENT, polling, that took a signal.
    Test {
        /// The event tested.
        event: EventId,
    },
}

/// The end of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Time from issue to end, on the backend's clock.
    pub took: Duration,
    /// The answer of a COMPARE-AND-WRITE (TRUE for the others), or the error.
    pub result: Result<bool, PrimitiveError>,
}

impl TracedOp {
    /// The record of `xfer`.
    pub(super) fn xfer(xfer: &Xfer) -> TracedOp {
        TracedOp::Xfer {
            dest: xfer.dest.clone(),
            addr: xfer.addr,
            len: xfer.data.len() as u64,
            remote_event: xfer.remote_event,
        }
    }
}

impl Outcome {
    /// The end of an operation with `status`.
    pub(super) fn of_signal(took: Duration, status: &Signal) -> Outcome {
        Outcome { took, result: status.clone().map(|()| true) }
    }
}

impl fmt::Display for TracedOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TracedOp::Xfer { dest, addr, len, remote_event } => {
                write!(f, "XFER-AND-SIGNAL {len} bytes to {addr} on {dest}")?;
                match remote_event {
                    Some(event) => write!(f, ", event {}", event.0),
                    None => Ok(()),
                }
            }
            TracedOp::Caw(caw) => {
                let CompareAndWrite { set, var, relation, value, write } = caw;
                write!(f, "COMPARE-AND-WRITE {var} {relation:?} {value} on {set}")?;
                match write {
                    Some((addr, value)) => write!(f, ", write {value} to {addr}"),
                    None => Ok(()),
                }
            }
            TracedOp::Test { event } => write!(f, "TEST-EVENT {}", event.0),
        }
    }
}

impl fmt::Display for TraceRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} #{} {}: ", self.at, self.node, self.number, self.op)?;
        match &self.outcome {
            None => f.write_str("running"),
            Some(Outcome { took, result: Ok(answer) }) => write!(f, "{answer} after {took:?}"),
            Some(Outcome { took, result: Err(error) }) => write!(f, "{error} after {took:?}"),
        }
    }
}
