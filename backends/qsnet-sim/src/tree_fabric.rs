//! A network without multicast as a fabric: a k-ary tree of messages with LogGP costs. The
//! management node is the root of the tree (paper, section 3: collectives in logarithmic time).
//!
//! A node receives a block completely, as in the analytic model, before it sends the block to its
//! children, one after the other. All nodes of a level count as having the block when the last of
//! them has it. A node's links are busy while it sends. An operation of a node other than the root
//! first climbs to the root. On the way back, every node combines the answers of its children.

use crate::host_model::{micros, millis, time_at};
use crate::qsnet_fabric::exponential;
use crate::{HostModel, Machine, MachineError};
use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;
use storm_model::Tree;
use storm_primitives::sim::{Arrivals, Fabric, Operation, OperationKind, Random};
use storm_primitives::{Instant, NodeId, NodeSet};

/// The timing of a tree of messages.
#[derive(Debug)]
pub struct TreeFabric {
    fan_out: u32,
    /// Level of each node; the root's is 0.
    depths: Vec<u32>,
    hop: Duration,
    overhead: Duration,
    /// The time between the first and the last of a node's messages to its children.
    fan: Duration,
    children: u32,
    /// The bandwidth of a link, reduced under network load.
    link_mib_s: f64,
    source_mib_s: Option<f64>,
    put_start: Duration,
    message_wait: Duration,
    detection: Duration,
    host: HostModel,
    /// The time until which the links of each node are busy.
    busy: RefCell<HashMap<NodeId, Instant>>,
}

impl TreeFabric {
    pub(crate) fn new(machine: &Machine, network: &Tree) -> Result<TreeFabric, MachineError> {
        let fan_out = machine.fan_out()?.get();
        let children = fan_out.min(machine.nodes());
        let between = network.gap_us.value.max(network.overhead_us.value);
        let (wire, load) = (&machine.profile().wire, &machine.profile().load);
        let (share, wait_ms) = if machine.load().network {
            (load.network_bandwidth_share.value, load.network_message_wait_ms.value)
        } else {
            (1.0, 0.0)
        };
        Ok(TreeFabric {
            fan_out,
            depths: depths(machine.nodes(), fan_out),
            hop: micros(network.latency_us.value + 2.0 * network.overhead_us.value),
            overhead: micros(network.overhead_us.value),
            fan: micros(f64::from(children - 1) * between),
            children,
            link_mib_s: network.bandwidth_mib_s.value * share,
            source_mib_s: machine.source_mib_s(),
            put_start: micros(wire.put_start_us.value),
            message_wait: millis(wait_ms),
            detection: millis(wire.detection_ms.value),
            host: machine.host(),
            busy: RefCell::default(),
        })
    }

    /// Children of each node.
    pub fn fan_out(&self) -> u32 {
        self.fan_out
    }

    /// Levels below the root.
    pub fn depth(&self) -> u32 {
        self.depths.last().copied().unwrap_or_default()
    }

    /// The time from a node's start of sending `bytes` to its children until all of them have the
    /// data.
    pub fn level(&self, bytes: u64) -> Duration {
        match bytes {
            0 => self.hop + self.fan,
            _ => self.hop + self.sending(bytes),
        }
    }

    /// How long `bytes` keep the links of a node busy.
    fn sending(&self, bytes: u64) -> Duration {
        self.fan + self.overhead + time_at(Some(self.link_mib_s), bytes) * self.children
    }

    fn depth_of(&self, node: NodeId) -> u32 {
        self.depths.get(node.index()).copied().unwrap_or_default()
    }

    fn put_to_sequencer(&self, operation: &Operation<'_>, random: &Random<'_>) -> Duration {
        let bytes = operation.bytes;
        let mut busy = self.busy.borrow_mut();
        let links = busy.entry(operation.initiator).or_insert(Instant::ORIGIN);
        let start = (*links).max(operation.now + self.put_start);
        let fed = time_at(self.source_mib_s, bytes);
        let climb = self.depth_of(operation.initiator);
        let way_up = if climb == 0 {
            let sending = self.sending(bytes);
            *links = start + sending.max(fed);
            fed.saturating_sub(sending)
        } else {
            let wire = time_at(Some(self.link_mib_s), bytes);
            *links = start + wire.max(fed) + self.overhead;
            (self.hop + wire) * climb + fed.saturating_sub(wire)
        };
        start - operation.now + way_up + exponential(self.message_wait, random)
    }
}

impl Fabric for TreeFabric {
    fn to_sequencer(&self, operation: &Operation<'_>, random: &Random<'_>) -> Duration {
        match operation.kind {
            OperationKind::Put => self.put_to_sequencer(operation, random),
            OperationKind::Compare | OperationKind::Write => {
                self.hop * self.depth_of(operation.initiator)
            }
        }
    }

    fn to_nodes(&self, operation: &Operation<'_>, _random: &Random<'_>) -> Arrivals {
        let level = self.level(operation.bytes);
        Arrivals::Each(operation.set.iter().map(|node| level * self.depth_of(node)).collect())
    }

    fn answer(
        &self,
        _operation: &Operation<'_>,
        nodes: &[NodeId],
        _random: &Random<'_>,
    ) -> Duration {
        let deepest = nodes.iter().map(|node| self.depth_of(*node)).max();
        self.level(0) * deepest.unwrap_or_default()
    }

    fn outcome(&self, operation: &Operation<'_>, _random: &Random<'_>) -> Duration {
        self.hop * self.depth_of(operation.initiator)
    }

    fn news(&self, nodes: &NodeSet, _random: &Random<'_>) -> Arrivals {
        Arrivals::Each(nodes.iter().map(|node| self.level(0) * self.depth_of(node)).collect())
    }

    fn wake(&self, _node: NodeId, _now: Instant, random: &Random<'_>) -> Duration {
        self.host.wake(random)
    }

    fn detection(&self) -> Duration {
        self.detection
    }
}

/// The level of each node, the root and `nodes` others, filled level by level.
fn depths(nodes: u32, fan_out: u32) -> Vec<u32> {
    let mut depths = vec![0];
    for node in 1..=nodes {
        let parent = (node - 1) / fan_out;
        depths.push(depths[parent as usize] + 1);
    }
    depths
}
