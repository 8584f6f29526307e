//! Detects nodes that do not answer, by pings on the control links. This module has no sockets and
//! no clock.
//!
//! The root pings a node when an operation waits for a reply from its part of the tree, and now and
//! then otherwise. It pings each node directly, so the children of a frozen node are not taken for
//! dead.
//!
//! The module distinguishes two kinds of silence. If the node's host does not acknowledge the ping,
//! the host or the way to it is lost, and the root soon declares the node dead. If the host
//! acknowledges it, the node's process is stopped or gets no processor on an overloaded host, and
//! it gets more time.
//!
//! Time counts only while this process runs: after the root itself was stopped for a while, all
//! nodes still have their full time to answer.

use std::collections::BTreeMap;
use std::time::Duration;
use storm_primitives::{Instant, NodeId, NodeSet};

/// The timeouts of the root.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// The root pings the missing nodes of an operation that waits this long.
    pub stall_timeout: Duration,
    /// A node is cut off as dead if it does not answer for this long and its host does not
    /// acknowledge the ping.
    pub ping_timeout: Duration,
    /// A node that does not answer for this long is dead, even if its host is well. Values below
    /// `ping_timeout` count as `ping_timeout`.
    pub hang_timeout: Duration,
    /// How often to ping a node on which no operation waits.
    pub keepalive: Duration,
}

impl Patience {
    /// How often to check: a limit is exceeded by an eighth at most.
    pub(crate) fn tick(&self) -> Duration {
        let shortest = self.stall_timeout.min(self.ping_timeout).min(self.keepalive);
        (shortest / 8).max(Duration::from_millis(1))
    }
}

/// The result of a look.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    pub(crate) ping: Vec<NodeId>,
    /// The nodes that have not answered in time.
    pub(crate) dead: NodeSet,
}

/// The state of the pings.
#[derive(Debug)]
pub(crate) struct Liveness {
    patience: Patience,
    last_look: Option<Instant>,
    /// How long this process has been running, as far as its checks show.
    awake: Duration,
    nodes: BTreeMap<NodeId, Asked>,
}

/// A node's last ping, in the root's running time, and whether it was answered.
#[derive(Debug)]
struct Asked {
    at: Duration,
    /// When the node's host was last known to be well since the ping.
    host_at: Duration,
    answered: bool,
}

impl Liveness {
    pub(crate) fn new(patience: Patience) -> Liveness {
        Liveness { patience, last_look: None, awake: Duration::ZERO, nodes: BTreeMap::new() }
    }

    pub(crate) fn joined(&mut self, node: NodeId) {
        self.nodes.insert(node, Asked { at: self.awake, host_at: self.awake, answered: true });
    }

    pub(crate) fn lost(&mut self, node: NodeId) {
        self.nodes.remove(&node);
    }

    /// The node has sent a message of any kind.
    pub(crate) fn heard(&mut self, node: NodeId) {
        if let Some(asked) = self.nodes.get_mut(&node) {
            asked.answered = true;
        }
    }

    /// Checks all nodes. Operations wait for `suspects`. `unacknowledged_for` tells how long a
    /// node's host has left sent data unacknowledged.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        suspects: &NodeSet,
        unacknowledged_for: impl Fn(NodeId) -> Duration,
    ) -> Findings {
        let passed = self.last_look.map_or(Duration::ZERO, |last| now - last);
        self.last_look = Some(now);
        self.awake += passed.min(self.patience.tick() * 2);
        let mut findings = Findings::default();
        for (node, asked) in &mut self.nodes {
            let since = self.awake.saturating_sub(asked.at);
            if !asked.answered {
                // A ping that was just sent is unacknowledged, too. A host counts as silent only if
                // every check found it silent.
                if unacknowledged_for(*node) <= passed {
                    asked.host_at = self.awake;
                }
                let host_silent = self.awake.saturating_sub(asked.host_at);
                let cut_off = host_silent >= self.patience.ping_timeout;
                let hung = since >= self.patience.hang_timeout;
                if since >= self.patience.ping_timeout && (hung || cut_off) {
                    findings.dead.insert(*node);
                }
            } else if since >= self.patience.keepalive
                || (suspects.contains(*node) && since >= self.patience.ping_timeout / 2)
            {
                *asked = Asked { at: self.awake, host_at: self.awake, answered: false };
                findings.ping.push(*node);
            }
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience = Patience {
        stall_timeout: Duration::from_millis(400),
        ping_timeout: Duration::from_millis(400),
        hang_timeout: Duration::from_secs(3),
        keepalive: Duration::from_secs(1),
    };

    /// Checks every 50 ms. The nodes up to `answering` answer; the hosts of the nodes from
    /// `unreached` on do not acknowledge.
    fn look_until(
        liveness: &mut Liveness,
        from: u64,
        to: u64,
        answering: u32,
        unreached: u32,
    ) -> NodeSet {
        let mut dead = NodeSet::new();
        for ms in (from..to).step_by(50) {
            let now = Instant::ORIGIN + Duration::from_millis(ms);
            let findings = liveness.look(now, &NodeSet::new(), |node| {
                if node.0 < unreached { Duration::ZERO } else { Duration::from_secs(1) }
            });
            dead = dead.union(&findings.dead);
            for node in findings.ping.into_iter().filter(|node| node.0 <= answering) {
                liveness.heard(node);
            }
        }
        dead
    }

    #[test]
    fn only_the_silent_node_is_declared_dead() {
        let mut liveness = Liveness::new(PATIENCE);
        (1..=3).for_each(|id| liveness.joined(NodeId(id)));
        assert_eq!(look_until(&mut liveness, 0, 1400, 2, 3), NodeSet::new());
        assert_eq!(look_until(&mut liveness, 1400, 1600, 2, 3), NodeSet::single(NodeId(3)));
    }

    #[test]
    fn a_silent_node_on_a_host_that_is_well_is_given_longer() {
        let mut liveness = Liveness::new(PATIENCE);
        (1..=2).for_each(|id| liveness.joined(NodeId(id)));
        assert_eq!(look_until(&mut liveness, 0, 3900, 1, 3), NodeSet::new());
        assert_eq!(look_until(&mut liveness, 3900, 4200, 1, 3), NodeSet::single(NodeId(2)));
    }

    #[test]
    fn the_last_message_is_no_evidence_against_a_host() {
        let mut liveness = Liveness::new(PATIENCE);
        liveness.joined(NodeId(1));
        for ms in (0..2900).step_by(50) {
            // At one check of three, data is on its way and the last acknowledgement is long past.
            let on_its_way = if ms % 150 == 0 { 900 } else { 0 };
            let now = Instant::ORIGIN + Duration::from_millis(ms);
            let findings =
                liveness.look(now, &NodeSet::new(), |_| Duration::from_millis(on_its_way));
            assert_eq!(findings.dead, NodeSet::new(), "at {ms} ms");
        }
    }

    #[test]
    fn a_root_that_was_stopped_blames_nobody() {
        let mut liveness = Liveness::new(PATIENCE);
        liveness.joined(NodeId(1));
        assert_eq!(look_until(&mut liveness, 0, 1100, 0, 0), NodeSet::new());
        // The node is pinged at one second; then the root sleeps for an hour.
        let later = 3_600_000;
        assert_eq!(look_until(&mut liveness, later, later + 150, 0, 0), NodeSet::new());
        assert_eq!(look_until(&mut liveness, later + 150, later + 600, 0, 0).len(), 1);
    }
}
