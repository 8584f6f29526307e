//! QsNet as a fabric: hardware multicast and network conditionals, no software
//! tree (paper, sections 3 and 4.4.2).
//!
//! The top of the fat tree is where operations get their order: a multicast goes
//! up to it and down every branch. A transfer has its place when its last packet
//! is there, and reaches all nodes at one time, that of the farthest one, which
//! is also when the acknowledgement of all can come back. A COMPARE-AND-WRITE is
//! a network conditional: a question that the switches combine; a quarter of its
//! time each for the way up, down, up and down.
//!
//! A NIC sends one transfer after the other, so that the transfers of one node
//! share its bandwidth.

use crate::host_model::{micros, millis, time_at};
use crate::profile::node_count;
use crate::{Broadcast, FatTree, HostModel, Machine, MachineError};
use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;
use storm_model::Multicast;
use storm_primitives::sim::{Fabric, Operation, OperationKind, Random, Spread};
use storm_primitives::{Instant, NodeId, NodeSet};

/// The timing of a QsNet machine.
#[derive(Debug)]
pub struct QsNetFabric {
    broadcast: Broadcast,
    tree: FatTree,
    source_mib_s: Option<f64>,
    put_start: Duration,
    conditional_leg: Duration,
    detection: Duration,
    host: HostModel,
    /// Under network load only.
    congestion: Option<Congestion>,
    /// Until when each NIC is busy.
    busy: RefCell<HashMap<NodeId, Instant>>,
}

/// What a loaded network does.
#[derive(Debug)]
struct Congestion {
    bandwidth_share: f64,
    message_wait: Duration,
    conditional_wait: Duration,
}

impl QsNetFabric {
    pub(crate) fn new(machine: &Machine, network: &Multicast) -> Result<Self, MachineError> {
        let tree = FatTree::new(network.delays(), node_count(machine.nodes())?)?;
        let (wire, load) = (&machine.profile().wire, &machine.profile().load);
        let congestion = machine.load().network.then(|| Congestion {
            bandwidth_share: load.network_bandwidth_share.value,
            message_wait: millis(load.network_message_wait_ms.value),
            conditional_wait: micros(load.network_conditional_wait_us.value),
        });
        Ok(QsNetFabric {
            broadcast: Broadcast::new(tree),
            tree,
            source_mib_s: machine.source_mib_s(),
            put_start: micros(wire.put_start_us.value),
            conditional_leg: micros(machine.conditional_us()?) / CONDITIONAL_LEGS,
            detection: millis(wire.detection_ms.value),
            host: machine.host(),
            congestion,
            busy: RefCell::default(),
        })
    }

    /// From the start of a transfer until the NIC can start the next, and until
    /// its last byte is at the last node, on a network without load.
    pub fn transfer(&self, bytes: u64) -> (Duration, Duration) {
        let delivery = self.broadcast.delivery(bytes);
        // The host feeds the NIC: where it is slower than the network, it is its
        // pace that the packets have.
        let fed = time_at(self.source_mib_s, bytes);
        let free = picos(delivery.source_free_ps).max(fed);
        let late = free - picos(delivery.source_free_ps);
        (free, picos(delivery.last_arrival_ps) + late)
    }

    /// COMPARE-AND-WRITE that does not write, on a network without load.
    pub fn conditional(&self) -> Duration {
        self.conditional_leg * CONDITIONAL_LEGS
    }

    /// From the top of the tree to the nodes.
    fn half_path(&self) -> Duration {
        picos(self.tree.forward_ps()) / 2
    }

    /// Between the top of the tree and the nodes, either way.
    fn leg(&self, kind: OperationKind) -> Duration {
        match kind {
            OperationKind::Put => self.half_path(),
            OperationKind::Compare | OperationKind::Write => self.conditional_leg,
        }
    }

    fn put_to_sequencer(&self, operation: &Operation<'_>, random: &Random<'_>) -> Duration {
        let (mut free, mut arrival) = self.transfer(operation.bytes);
        let mut wait = Duration::ZERO;
        if let Some(congestion) = &self.congestion {
            let slower = free.mul_f64(1.0 / congestion.bandwidth_share) - free;
            (free, arrival) = (free + slower, arrival + slower);
            if operation.set.len() == 1 {
                wait = exponential(congestion.message_wait, random);
            }
        }
        let mut busy = self.busy.borrow_mut();
        let nic = busy.entry(operation.initiator).or_insert(Instant::ORIGIN);
        let start = (*nic).max(operation.now + self.put_start);
        *nic = start + free;
        start - operation.now + arrival.saturating_sub(self.half_path()) + wait
    }
}

/// Up with the question, down to the nodes, up with the answers, down with the
/// verdict.
const CONDITIONAL_LEGS: u32 = 4;

impl Fabric for QsNetFabric {
    fn to_sequencer(&self, operation: &Operation<'_>, random: &Random<'_>) -> Duration {
        match operation.kind {
            OperationKind::Put => self.put_to_sequencer(operation, random),
            OperationKind::Compare | OperationKind::Write => {
                let wait = self.congestion.as_ref().map(|c| c.conditional_wait);
                self.conditional_leg + exponential(wait.unwrap_or_default(), random)
            }
        }
    }

    fn to_nodes(&self, operation: &Operation<'_>, _random: &Random<'_>) -> Spread {
        Spread::Together(self.leg(operation.kind))
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

    fn news(&self, _nodes: &NodeSet, _random: &Random<'_>) -> Spread {
        Spread::Together(self.half_path())
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
