//! A network of no particular kind: every delay random within bounds, so that
//! tests see as many interleavings as there are seeds.

use crate::NodeSet;
use crate::sim::fabric::{Arrivals, Fabric, Operation, OperationKind, Random};
use std::time::Duration;

/// Delays of the simulated network.
#[derive(Clone, Debug)]
pub struct NetworkConfig {
    /// Shortest time a message takes.
    pub min_delay: Duration,
    /// Longest time a message takes.
    pub max_delay: Duration,
    /// Time for the data of a transfer, per byte.
    pub per_byte: Duration,
    /// Time after which a dead or frozen node is known to be dead.
    pub detection: Duration,
}

impl Default for NetworkConfig {
    /// Delays of a local network; deaths are noticed after 5 ms.
    fn default() -> NetworkConfig {
        NetworkConfig {
            min_delay: Duration::from_micros(5),
            max_delay: Duration::from_micros(50),
            per_byte: Duration::from_nanos(1),
            detection: Duration::from_millis(5),
        }
    }
}

impl NetworkConfig {
    fn draw(&self, random: &Random<'_>) -> Duration {
        random.between(self.min_delay, self.max_delay)
    }

    fn each(&self, nodes: &NodeSet, random: &Random<'_>) -> Arrivals {
        Arrivals::Each(nodes.iter().map(|_| self.draw(random)).collect())
    }
}

impl Fabric for NetworkConfig {
    fn to_sequencer(&self, operation: &Operation<'_>, random: &Random<'_>) -> Duration {
        let data = match operation.kind {
            OperationKind::Put => {
                self.per_byte.saturating_mul(u32::try_from(operation.bytes).unwrap_or(u32::MAX))
            }
            OperationKind::Compare | OperationKind::Write => Duration::ZERO,
        };
        self.draw(random) + data
    }

    fn to_nodes(&self, operation: &Operation<'_>, random: &Random<'_>) -> Arrivals {
        self.each(operation.set, random)
    }

    fn answer(
        &self,
        _operation: &Operation<'_>,
        _nodes: &[crate::NodeId],
        random: &Random<'_>,
    ) -> Duration {
        self.draw(random)
    }

    fn outcome(&self, _operation: &Operation<'_>, random: &Random<'_>) -> Duration {
        self.draw(random)
    }

    fn news(&self, nodes: &NodeSet, random: &Random<'_>) -> Arrivals {
        self.each(nodes, random)
    }

    fn detection(&self) -> Duration {
        self.detection
    }
}
