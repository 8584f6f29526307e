//! One primitive on its way through the simulated network: its request to the nodes, the awaited
//! answers, and the operations that it must not overtake.

use crate::answer_slot::{Answer, AnswerSlot};
use crate::sim::fabric::{Operation, OperationKind};
use crate::{
    CompareAndWrite, EventId, EventTable, GlobalAddr, Instant, NodeId, NodeSet, Relation, Xfer,
};
use bytes::Bytes;

/// The place of an operation in the total order, and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OpId(pub(super) u64);

/// A request of a node to the network, with the place for its outcome.
#[derive(Clone)]
pub(super) enum Request {
    Put(Xfer),
    Compare(CompareAndWrite, AnswerSlot),
}

impl Request {
    pub(super) fn set(&self) -> &NodeSet {
        match self {
            Request::Put(xfer) => &xfer.dest,
            Request::Compare(caw, _) => &caw.set,
        }
    }

    /// Delivers the outcome to the issuer.
    pub(super) fn conclude(&self, events: &EventTable, answer: Answer) {
        match self {
            Request::Compare(_, slot) => slot.put(answer),
            Request::Put(xfer) => {
                if let Some(event) = xfer.local_event {
                    events.signal(event, answer.map(drop));
                }
            }
        }
    }

    /// The request as a fabric sees it, on its way to its place in the order.
    pub(super) fn operation(&self, initiator: NodeId, now: Instant) -> Operation<'_> {
        let (kind, bytes) = match self {
            Request::Put(xfer) => (OperationKind::Put, xfer.data.len() as u64),
            Request::Compare(..) => (OperationKind::Compare, 0),
        };
        Operation { kind, initiator, set: self.set(), bytes, now }
    }

    /// Whether `self`, a COMPARE-AND-WRITE between its comparison and its write, must finish before
    /// `later` may start. It must if they share a node and one writes a variable that the other
    /// touches.
    pub(super) fn blocks(&self, later: &Request) -> bool {
        let Request::Compare(caw, _) = self else { return false };
        let Some((written, _)) = caw.write else { return false };
        if !caw.set.intersects(later.set()) {
            return false;
        }
        match later {
            Request::Put(xfer) => [caw.var, written].iter().any(|word| {
                let end = xfer.addr.0 + xfer.data.len() as u64;
                xfer.addr.0 < word.0 + 8 && word.0 < end
            }),
            Request::Compare(other, _) => {
                other.var == written
                    || other.write.is_some_and(|(to, _)| to == written || to == caw.var)
            }
        }
    }

    /// The first message to every node of the set.
    pub(super) fn first_message(&self) -> Message {
        match self {
            Request::Put(xfer) => {
                Message::Put { addr: xfer.addr, data: xfer.data.clone(), event: xfer.remote_event }
            }
            Request::Compare(caw, _) => {
                Message::Compare { var: caw.var, relation: caw.relation, value: caw.value }
            }
        }
    }
}

/// A command to one node.
#[derive(Clone, Debug)]
pub(super) enum Message {
    Put { addr: GlobalAddr, data: Bytes, event: Option<EventId> },
    Compare { var: GlobalAddr, relation: Relation, value: u64 },
    Write { addr: GlobalAddr, value: u64 },
}

/// The answers that an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Put,
    Compare,
    Write,
}

/// An operation that has its place in the order and is not complete.
pub(super) struct Pending {
    pub(super) initiator: NodeId,
    pub(super) life: u64,
    pub(super) request: Request,
    pub(super) phase: Phase,
    pub(super) waiting: Waiting,
    pub(super) verdict: bool,
    pub(super) dead: NodeSet,
}

impl Pending {
    /// The present round of this operation, for a fabric.
    pub(super) fn operation(&self, now: Instant) -> Operation<'_> {
        let operation = self.request.operation(self.initiator, now);
        match self.phase {
            Phase::Put | Phase::Compare => operation,
            Phase::Write => Operation { kind: OperationKind::Write, ..operation },
        }
    }
}

/// The nodes whose answers are missing, and their number, which is read after every answer.
pub(super) struct Waiting {
    nodes: NodeSet,
    left: usize,
}

impl Waiting {
    pub(super) fn new(nodes: NodeSet) -> Waiting {
        Waiting { left: nodes.len(), nodes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// The node answered, or never will. Returns false if its answer was not missing.
    pub(super) fn remove(&mut self, node: NodeId) -> bool {
        let waited = self.nodes.remove(node);
        self.left -= usize::from(waited);
        waited
    }

    pub(super) fn retain(&mut self, keep: impl Fn(NodeId) -> bool) {
        *self = Waiting::new(self.nodes.iter().filter(|node| keep(*node)).collect());
    }
}
