//! QsNet as a fabric: hardware multicast and network conditionals, no software tree (paper,
//! sections 3 and 4.4.2).
//!
//! Operations are ordered at the top of the fat tree: a multicast is sent up to the top and down
//! every branch. A transfer has its place in the order when its last packet is at the top. All
//! nodes get it at one time, that of the farthest node. A COMPARE-AND-WRITE is a network
//! conditional, a question that the switches combine. The ways up, down, up and down take a quarter
//! of its time each.
//!
//! A NIC sends one transfer after the other, so the transfers of one node share its bandwidth.
//! `network_loader` models the other traffic.

use crate::fidelity::Transfers;
use crate::host_model::{micros, millis, time_at};
use crate::profile::node_count;
use crate::{FatTree, HostModel, Machine, MachineError, NetworkLoader};
use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;
use storm_model::Multicast;
use storm_primitives::sim::{Arrivals, Fabric, Operation, OperationKind, Random};
use storm_primitives::{Instant, NodeId, NodeSet};

/// The timing of a QsNet machine.
#[derive(Debug)]
pub struct QsNetFabric {
    transfers: Transfers,
    tree: FatTree,
    source_mib_s: Option<f64>,
    put_start: Duration,
    conditional_leg: Duration,
    detection: Duration,
    host: HostModel,
    /// Under network load only.
    loader: Option<NetworkLoader>,
    /// Mean wait of a network conditional under that load.
    conditional_wait: Duration,
    /// Until when each NIC is busy.
    busy: RefCell<HashMap<NodeId, Instant>>,
}

impl QsNetFabric {
    pub(crate) fn new(machine: &Machine, network: &Multicast) -> Result<Self, MachineError> {
        let tree = FatTree::new(network.delays(), node_count(machine.nodes())?)?;
        let (wire, load) = (&machine.profile().wire, &machine.profile().load);
        let loader = machine.network_loader(tree);
        let wait_us = if loader.is_some() { load.network_conditional_wait_us.value } else { 0.0 };
        Ok(QsNetFabric {
            transfers: Transfers::new(machine.fidelity(), tree),
            tree,
            source_mib_s: machine.source_mib_s(),
            put_start: micros(wire.put_start_us.value),
            conditional_leg: micros(machine.conditional_us()?) / CONDITIONAL_LEGS,
            detection: millis(wire.detection_ms.value),
            host: machine.host(),
            loader,
            conditional_wait: micros(wait_us),
            busy: RefCell::default(),
        })
    }

    /// The times of a transfer on a network without load. The first ends when the NIC can start the
    /// next transfer, the second when the last byte is at the last node.
    pub fn transfer(&self, bytes: u64) -> (Duration, Duration) {
        let delivery = self.transfers.delivery(bytes);
        // The host feeds the NIC. If the host is slower than the network, it sets the pace of the
        // packets.
        let fed = time_at(self.source_mib_s, bytes);
        let free = picos(delivery.source_free_ps).max(fed);
        let late = free - picos(delivery.source_free_ps);
        (free, picos(delivery.last_arrival_ps) + late)
    }

    /// The time of a COMPARE-AND-WRITE that does not write, on a network without load.
    pub fn conditional(&self) -> Duration {
        self.conditional_leg * CONDITIONAL_LEGS
    }

    /// The time from the top of the tree to the nodes.
    fn half_path(&self) -> Duration {
        picos(self.tree.forward_ps()) / 2
    }

    /// The time between the top of the tree and the nodes, either way.
    fn leg(&self, kind: OperationKind) -> Duration {
        match kind {
            OperationKind::Put => self.half_path(),
            OperationKind::Compare | OperationKind::Write => self.conditional_leg,
        }
    }

    fn put_to_sequencer(&self, operation: &Operation<'_>, random: &Random<'_>) -> Duration {
        let (free, arrival) = self.transfer(operation.bytes);
        let from_start = arrival.saturating_sub(self.half_path());
        let ready = operation.now + self.put_start;
        if let Some(loader) = &self.loader {
            let nodes = u32::try_from(operation.set.len()).unwrap_or(u32::MAX);
            let packets = operation.bytes.div_ceil(self.tree.packet_bytes()).max(1);
            let slower = loader.packet_gap(nodes).mul_f64(packets as f64).saturating_sub(free);
            let start = loader.begins(operation.initiator, ready, free + slower, random);
            return start - operation.now + from_start + slower;
        }
        let mut busy = self.busy.borrow_mut();
        let nic = busy.entry(operation.initiator).or_insert(Instant::ORIGIN);
        let start = (*nic).max(ready);
        *nic = start + free;
        start - operation.now + from_start
    }
}

/// Up with the question, down to the nodes, up with the answers, down with the verdict.
const CONDITIONAL_LEGS: u32 = 4;

impl Fabric for QsNetFabric {
    fn to_sequencer(&self, operation: &Operation<'_>, random: &Random<'_>) -> Duration {
        match operation.kind {
            OperationKind::Put => self.put_to_sequencer(operation, random),
            OperationKind::Compare | OperationKind::Write => {
                self.conditional_leg + exponential(self.conditional_wait, random)
            }
        }
    }

    fn to_nodes(&self, operation: &Operation<'_>, _random: &Random<'_>) -> Arrivals {
        Arrivals::Together(self.leg(operation.kind))
    }

    fn answer(
        &self,
        operation: &Operation<'_>,
        _nodes: &[NodeId],
        _random: &Random<'_>,
    ) -> Duration {
        self.leg(operation.kind)
    }

    fn outcome(&self, operation: &Operation<'_>, _random: &Random<'_>) -> Duration {
        self.leg(operation.kind)
    }

    fn news(&self, _nodes: &NodeSet, _random: &Random<'_>) -> Arrivals {
        Arrivals::Together(self.half_path())
    }

    fn wake(&self, _node: NodeId, _now: Instant, random: &Random<'_>) -> Duration {
        self.host.wake(random)
    }

    fn detection(&self) -> Duration {
        self.detection
    }
}

fn picos(ps: u64) -> Duration {
    const PS_PER_NS: u64 = 1000;
    Duration::from_nanos(ps.div_ceil(PS_PER_NS))
}

/// A wait drawn from the exponential distribution of this mean.
pub(crate) fn exponential(mean: Duration, random: &Random<'_>) -> Duration {
    if mean.is_zero() {
        return Duration::ZERO;
    }
    // 1 - unit is never 0.
    mean.mul_f64(-(1.0 - random.unit()).ln())
}
