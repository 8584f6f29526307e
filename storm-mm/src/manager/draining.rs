//! Nodes that an administrator takes out of service and returns to service. A drained node takes no
//! further job; its present jobs continue.
//!
//! The drained state outlasts the manager and the node. The journal holds the list of all drained
//! nodes; each list replaces the one before.

use super::Core;
use crate::api::{ApiError, ErrorCode, Peer};
use crate::cluster::ClusterEventKind;
use std::collections::BTreeMap;
use storm_primitives::{Instant, NodeId};
use storm_sched::Event;

/// Longest reason, in bytes: a sentence that a listing can show.
const MAX_REASON_BYTES: usize = 256;

impl Core {
    /// Takes nodes out of service, or changes the reason why they are.
    ///
    /// # Errors
    /// An [`ApiError`] for the client; nothing is changed then.
    pub fn drain(
        &mut self,
        now: Instant,
        peer: Peer,
        names: &str,
        reason: &str,
    ) -> Result<(), ApiError> {
        let nodes = self.nodes_to_change(peer, names)?;
        let reason = reason.trim();
        if reason.is_empty() || reason.len() > MAX_REASON_BYTES {
            let message =
                format!("a node is drained for a reason of 1 to {MAX_REASON_BYTES} bytes");
            return Err(ApiError::new(ErrorCode::BadRequest, message));
        }
        let mut drained = self.nodes.drained();
        drained.extend(nodes.iter().map(|node| (self.node_name(*node), reason.to_owned())));
        self.set_drained(now, drained);
        nodes.into_iter().for_each(|node| self.tell_of_state(now, node));
        Ok(())
    }

    /// Returns to service nodes that were drained. Other nodes stay as they are.
    ///
    /// # Errors
    /// An [`ApiError`] for the client; nothing is changed then.
    pub fn resume(&mut self, now: Instant, peer: Peer, names: &str) -> Result<(), ApiError> {
        let mut nodes = self.nodes_to_change(peer, names)?;
        let mut drained = self.nodes.drained();
        nodes.retain(|node| drained.remove(&self.node_name(*node)).is_some());
        if nodes.is_empty() {
            return Ok(());
        }
        self.set_drained(now, drained);
        nodes.into_iter().for_each(|node| self.tell_of_state(now, node));
        Ok(())
    }

    /// Notifies the policy whether a node takes jobs, if the node is up.
    pub(super) fn tell_of_state(&mut self, now: Instant, node: NodeId) {
        if !self.nodes.up().contains(node) {
            return;
        }
        let closed = self.why_closed(node).is_some();
        for id in self.partitions.ids() {
            let Some(index) = self.partitions[id].index_of(node) else { continue };
            if closed {
                self.handle_event(now, id, Event::NodeDrained(index));
            } else {
                self.tell_policy(now, id, Event::NodeUp(index));
            }
        }
    }

    fn set_drained(&mut self, now: Instant, drained: BTreeMap<String, String>) {
        self.append_of_cluster(now, ClusterEventKind::NodesDrained { drained });
    }

    /// The nodes of a folded list, if the peer may change nodes.
    fn nodes_to_change(&self, peer: Peer, names: &str) -> Result<Vec<NodeId>, ApiError> {
        if !self.is_admin(peer) {
            let message = "only an administrator may drain and resume nodes";
            return Err(ApiError::new(ErrorCode::NotPermitted, message));
        }
        self.nodes.of_list(names)
    }
}
