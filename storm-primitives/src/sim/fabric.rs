//! The timing of a simulated network, separate from the contents of its messages.
//!
//! [`SimNetwork`](super::SimNetwork) keeps the contract of the primitives: one order, all or
//! nothing, deaths. A [`Fabric`] decides *when* each step of an operation happens:
//! [`NetworkConfig`](super::NetworkConfig) draws random delays, other fabrics model a real network.
//! A fabric cannot break the contract. If it delivers an operation to a node too early, the network
//! holds the operation back until the node has received all earlier ones.

use crate::sim::executor::Core;
use crate::{Instant, NodeId, NodeSet};
use std::time::Duration;

/// The times of the steps of each operation.
///
/// An operation takes four steps:
/// 1. From its initiator to the place where operations get their order
///    ([`to_sequencer`](Fabric::to_sequencer)).
/// 2. From there to every node of its set ([`to_nodes`](Fabric::to_nodes)).
/// 3. The nodes answer ([`answer`](Fabric::answer)).
/// 4. The initiator gets the outcome ([`outcome`](Fabric::outcome)).
///
/// The write of a COMPARE-AND-WRITE is a second round of steps 2 and 3. Each method is called once
/// per operation or per group of nodes, always in the same order for the same seed. A fabric may
/// keep state, such as until when a link is busy.
pub trait Fabric {
    /// The time from the issue of an operation to its place in the order. For a transfer it
    /// includes the time to inject its data.
    fn to_sequencer(&self, operation: &Operation<'_>, random: &Random<'_>) -> Duration;

    /// The times from its place in the order to each node of its set.
    fn to_nodes(&self, operation: &Operation<'_>, random: &Random<'_>) -> Arrivals;

    /// The time from the arrival at `nodes`, which the operation reached at the same instant, to
    /// their answer or acknowledgement at the sequencer. `nodes` is never empty.
    fn answer(&self, operation: &Operation<'_>, nodes: &[NodeId], random: &Random<'_>) -> Duration;

    /// The time from the last answer to the outcome at the initiator.
    fn outcome(&self, operation: &Operation<'_>, random: &Random<'_>) -> Duration;

    /// The times from a change of the membership until each of `nodes` has received it.
    fn news(&self, nodes: &NodeSet, random: &Random<'_>) -> Arrivals;

    /// The delay from a signal on `node` until a waiter can run: the time of the node's
    /// operating system. Zero by default.
    fn wake(&self, _node: NodeId, _now: Instant, _random: &Random<'_>) -> Duration {
        Duration::ZERO
    }

    /// How long a node must be silent to count as dead.
    fn detection(&self) -> Duration;
}

/// The part of an operation that a fabric sees.
#[derive(Clone, Copy, Debug)]
pub struct Operation<'a> {
    /// The kind of message.
    pub kind: OperationKind,
    /// The node that issued it.
    pub initiator: NodeId,
    /// The nodes that it acts on. Never empty where nodes are to be reached.
    pub set: &'a NodeSet,
    /// Bytes of data: none but for a transfer.
    pub bytes: u64,
    /// The time of this step.
    pub now: Instant,
}

/// The kind of message that an operation sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// The data and the signal of an XFER-AND-SIGNAL.
    Put,
    /// The question of a COMPARE-AND-WRITE.
    Compare,
    /// The write.
    Write,
}

/// The arrival times at the nodes of a set, from now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// All at the same time: one event for the simulation.
    Together(Duration),
    /// Each at its own time, in increasing order of node id. Nodes with equal times are one event.
    Each(Vec<Duration>),
}

/// The world's random numbers, for a fabric.
pub struct Random<'a> {
    core: &'a Core,
}

impl<'a> Random<'a> {
    pub(super) fn new(core: &'a Core) -> Random<'a> {
        Random { core }
    }

    /// A number below `bound`; 0 when `bound` is 0.
    pub fn below(&self, bound: u64) -> u64 {
        self.core.random_below(bound)
    }

    /// A time between two, both included.
    pub fn between(&self, shortest: Duration, longest: Duration) -> Duration {
        let spread_ns = longest.saturating_sub(shortest).as_nanos() as u64;
        shortest + Duration::from_nanos(self.below(spread_ns + 1))
    }

    /// A number from 0 to just below 1.
    pub fn unit(&self) -> f64 {
        const STEPS: u64 = 1 << 53;
        self.below(STEPS) as f64 / STEPS as f64
    }
}

impl std::fmt::Debug for Random<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Random").finish_non_exhaustive()
    }
}
