//! Answers that are held until earlier requests have their places.
//!
//! A node that answers a comparison with TRUE may have made it TRUE by a store. Requests that the
//! node issued before that store may still be on their way to the root. The initiator that gets the
//! answer must find those requests ordered before everything it issues next
//! ([`precedes_own_stores`](storm_primitives::Primitives::precedes_own_stores)). Replies therefore
//! name the requests that their nodes had issued, and the root holds the answer until they all have
//! their places.
//!
//! A request that is named never waits for data or for an answer, so a hold usually takes the time
//! of a link. It takes longer only in two cases: the request writes a variable that an open
//! COMPARE-AND-WRITE compares, or the window of operations is full. Both cases end with replies of
//! nodes, and nodes reply without waiting for an answer.

use super::queue::Queues;
use crate::wire::RequestId;
use std::collections::BTreeMap;
use storm_primitives::{Instant, NodeId, NodeSet};

/// Comparisons that are TRUE and whose result their initiators do not know yet.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// By node, the last request that must be placed before any answer, and when it was last
    /// reported. Placed requests are removed.
    issued: BTreeMap<NodeId, (RequestId, Instant)>,
    held: Vec<Held>,
}

#[derive(Debug)]
struct Held {
    to: (NodeId, RequestId),
    after: BTreeMap<NodeId, RequestId>,
    since: Instant,
}

impl Answers {
    /// Records that living nodes had issued requests up to these when they replied.
    pub(super) fn note(
        &mut self,
        issued: impl IntoIterator<Item = (NodeId, RequestId)>,
        now: Instant,
    ) {
        for (node, request) in issued {
            let (last, heard) = self.issued.entry(node).or_insert((request, now));
            (*last, *heard) = ((*last).max(request), now);
        }
    }

    /// Whether the answer to `to`, which asked the nodes `asked`, has to wait. If it has to, this
    /// method holds it.
    pub(super) fn holds(
        &mut self,
        to: (NodeId, RequestId),
        asked: &NodeSet,
        queues: &Queues,
        now: Instant,
    ) -> bool {
        self.issued.retain(|node, (request, _)| !queues.has_placed(*node, *request));
        let theirs = self.issued.iter().filter(|(node, _)| asked.contains(**node));
        let after: BTreeMap<NodeId, RequestId> =
            theirs.map(|(node, (request, _))| (*node, *request)).collect();
        if after.is_empty() {
            return false;
        }
        self.held.push(Held { to, after, since: now });
        true
    }

    /// The node has answered a ping sent at `asked`, on the link of its requests: every request
    /// that it issued before has arrived. A report of a request that has not arrived is false.
    /// Drops such reports, and returns whether there were any.
    pub(super) fn answered(&mut self, node: NodeId, asked: Instant, queues: &Queues) -> bool {
        let is_false = |request| !queues.has_come(node, request);
        let mut any = false;
        if self
            .issued
            .get(&node)
            .is_some_and(|(request, heard)| *heard < asked && is_false(*request))
        {
            self.issued.remove(&node);
            any = true;
        }
        for held in self.held.iter_mut().filter(|held| held.since < asked) {
            if held.after.get(&node).is_some_and(|request| is_false(*request)) {
                held.after.remove(&node);
                any = true;
            }
        }
        any
    }

    /// The number of held answers to a node.
    pub(super) fn held_for(&self, node: NodeId) -> usize {
        self.held.iter().filter(|held| held.to.0 == node).count()
    }

    /// Takes the requests whose answers no longer need to wait, in the order of the answers.
    pub(super) fn take_free(&mut self, queues: &Queues) -> Vec<(NodeId, RequestId)> {
        if self.held.is_empty() {
            return Vec::new();
        }
        let free = self.held.extract_if(.., |held| {
            held.after.retain(|node, request| !queues.has_placed(*node, *request));
            held.after.is_empty()
        });
        free.map(|held| held.to).collect()
    }

    /// These nodes are dead: their requests hold up no answer, and their own answers are dropped.
    pub(super) fn forget(&mut self, dead: &NodeSet) {
        self.issued.retain(|node, _| !dead.contains(*node));
        self.held.retain(|held| !dead.contains(held.to.0));
        self.held.iter_mut().for_each(|held| held.after.retain(|node, _| !dead.contains(*node)));
    }

    /// The nodes whose requests have held up answers since before `limit`.
    pub(super) fn awaited_since(&self, limit: Instant) -> NodeSet {
        let old = self.held.iter().filter(|held| held.since < limit);
        old.flat_map(|held| held.after.keys().copied()).collect()
    }
}
