//! Operations that wait for their place. Each initiator has a queue. Heads are served in order of
//! arrival.

use crate::wire::{Request, RequestId, StageId};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use storm_primitives::{NodeId, PrimitiveError};

/// How far an operation has come towards its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The operation can be placed as soon as the rules of the order allow it.
    Ready,
    /// A large transfer that waits for room.
    AwaitingRoom,
    /// A large transfer on its way to its destinations.
    Staging(StageId),
    /// A large transfer that all destinations hold.
    Staged(StageId),
    /// A large transfer that has room and travels by reference all the way.
    Lent,
    /// A COMPARE-AND-WRITE that is being compared.
    Comparing,
    /// The operation fails when its turn comes.
    Failed(PrimitiveError),
}

/// One waiting operation.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) request: Request,
    pub(super) data: Bytes,
    pub(super) progress: Progress,
    arrival: u64,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Queued>,
    last: Option<RequestId>,
}

/// The queues of all initiators.
#[derive(Debug)]
pub(super) struct Queues {
    queues: BTreeMap<NodeId, Queue>,
    /// The heads by arrival.
    heads: BTreeMap<u64, NodeId>,
    arrivals: u64,
}

impl Queues {
    pub(super) fn new() -> Queues {
        Queues { queues: BTreeMap::new(), heads: BTreeMap::new(), arrivals: 0 }
    }

    /// Whether `request` is newer than every earlier request of `node`.
    pub(super) fn in_order(&self, node: NodeId, request: RequestId) -> bool {
        self.queues.get(&node).and_then(|queue| queue.last).is_none_or(|last| last < request)
    }

    /// Whether `request` of `node` and all its earlier requests have come.
    pub(super) fn has_come(&self, node: NodeId, request: RequestId) -> bool {
        self.queues.get(&node).is_some_and(|queue| queue.last >= Some(request))
    }

    /// Whether `request` of `node` and all its earlier requests have come and are placed.
    pub(super) fn has_placed(&self, node: NodeId, request: RequestId) -> bool {
        let waits = self.head(node).is_some_and(|first| first.request.id <= request);
        self.has_come(node, request) && !waits
    }

    pub(super) fn len(&self, node: NodeId) -> usize {
        self.queues.get(&node).map_or(0, |queue| queue.waiting.len())
    }

    pub(super) fn push(&mut self, node: NodeId, request: Request, data: Bytes, progress: Progress) {
        let arrival = self.arrivals;
        self.arrivals += 1;
        let queue = self.queues.entry(node).or_default();
        queue.last = Some(request.id);
        if queue.waiting.is_empty() {
            self.heads.insert(arrival, node);
        }
        queue.waiting.push_back(Queued { request, data, progress, arrival });
    }

    /// The first head that arrived at `from` or later.
    pub(super) fn head_from(&self, from: u64) -> Option<(u64, NodeId)> {
        self.heads.range(from..).next().map(|(arrival, node)| (*arrival, *node))
    }

    pub(super) fn head(&self, node: NodeId) -> Option<&Queued> {
        self.queues.get(&node)?.waiting.front()
    }

    pub(super) fn head_mut(&mut self, node: NodeId) -> Option<&mut Queued> {
        self.queues.get_mut(&node)?.waiting.front_mut()
    }

    /// Removes the head of `node`.
    pub(super) fn pop(&mut self, node: NodeId) -> Option<Queued> {
        let queue = self.queues.get_mut(&node)?;
        let queued = queue.waiting.pop_front()?;
        self.heads.remove(&queued.arrival);
        if let Some(next) = queue.waiting.front() {
            self.heads.insert(next.arrival, node);
        }
        Some(queued)
    }

    pub(super) fn find_mut(&mut self, node: NodeId, request: RequestId) -> Option<&mut Queued> {
        let waiting = &mut self.queues.get_mut(&node)?.waiting;
        let at = waiting.partition_point(|queued| queued.request.id < request);
        waiting.get_mut(at).filter(|queued| queued.request.id == request)
    }

    /// Forgets all requests of `node`; its next incarnation starts anew.
    pub(super) fn forget(&mut self, node: NodeId) {
        if let Some(queue) = self.queues.remove(&node)
            && let Some(head) = queue.waiting.front()
        {
            self.heads.remove(&head.arrival);
        }
    }
}
