//! The replies of the children to one operation, combined into one.

use storm_primitives::NodeId;

/// The nodes that have not replied yet, and the conjunction of the replies so far.
#[derive(Debug)]
pub(super) struct Combine {
    waiting: Vec<NodeId>,
    verdict: bool,
}

impl Combine {
    /// Waits for `waiting`; `verdict` is the node's own reply.
    pub(super) fn new(waiting: Vec<NodeId>, verdict: bool) -> Combine {
        Combine { waiting, verdict }
    }

    /// Takes a reply. Returns the combined reply if it was the last.
    pub(super) fn reply(&mut self, from: NodeId, verdict: bool) -> Option<bool> {
        let at = self.waiting.iter().position(|child| *child == from)?;
        self.waiting.swap_remove(at);
        self.verdict &= verdict;
        self.waiting.is_empty().then_some(self.verdict)
    }

    /// The nodes whose replies are missing.
    pub(super) fn waiting(&self) -> Vec<NodeId> {
        self.waiting.clone()
    }
}
