//! Answers that wait for what was issued before they were given.
//!
//! A node that says yes to a comparison may have stored what makes it so after it issued operations that are
//! still on their way to the root. Whoever hears the answer is to find those in front of all that it issues
//! then ([`precedes_own_stores`](storm_primitives::Primitives::precedes_own_stores)). So replies say what
//! their nodes had issued, and the answer is held until all of that has its place. None of it waits for data
//! or for an answer, so an answer is held for what a link takes; for longer only where one of those requests
//! writes what an open COMPARE-AND-WRITE compares, or finds the window of operations full. Both end with
//! replies of nodes, which wait for no answer.

use super::queue::Queues;
use crate::wire::RequestId;
use std::collections::BTreeMap;
use storm_primitives::{Instant, NodeId, NodeSet};

/// Comparisons that hold, and whose initiators are not told yet.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// By node, the last request that is to have its place before any answer, and when that was heard last.
    /// None that has.
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
    /// Living nodes had issued requests up to these when they replied.
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

    /// Whether the answer to this request, which asked these nodes, has to wait, and then does.
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

    /// The node has answered what it was asked at `asked`, by the link that its requests come by: all that it had
    /// issued before has come. Whether more was said of it, which then counts no longer.
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

    /// The answers to a node that wait.
    pub(super) fn held_for(&self, node: NodeId) -> usize {
        self.held.iter().filter(|held| held.to.0 == node).count()
    }

    /// The requests whose answers wait for nothing any more, in the order of the answers.
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

    /// These nodes are dead: nobody waits for what they had issued, nor do they wait for answers.
    pub(super) fn forget(&mut self, dead: &NodeSet) {
        self.issued.retain(|node, _| !dead.contains(*node));
        self.held.retain(|held| !dead.contains(held.to.0));
        self.held.iter_mut().for_each(|held| held.after.retain(|node, _| !dead.contains(*node)));
    }

    /// The nodes that answers have waited for since before `limit`.
    pub(super) fn awaited_since(&self, limit: Instant) -> NodeSet {
        let old = self.held.iter().filter(|held| held.since < limit);
        old.flat_map(|held| held.after.keys().copied()).collect()
    }
}
