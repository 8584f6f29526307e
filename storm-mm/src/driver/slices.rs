//! The edges of the slices: one every quantum while more than one row of the partition holds jobs,
//! none otherwise. The core computes the time of the next edge, and whether the edge needs the
//! manager.

use super::{Contents, Shared};
use futures_util::future::select;
use std::pin::pin;
use std::rc::Rc;
use storm_primitives::{Bell, Primitives, Runtime};
use storm_rm::PartitionId;

/// The edges of the slices of all partitions.
pub(super) struct Slicing {
    /// By partition: rung when its next edge may be at another time.
    bells: Vec<Bell>,
    /// By partition: rung after every act of the core, where jobs communicate in slices.
    communication: Vec<Bell>,
}

impl Slicing {
    pub(super) fn new(partitions: u16) -> Slicing {
        let bells = || (0..partitions).map(|_| Bell::default()).collect();
        Slicing { bells: bells(), communication: bells() }
    }

    /// The partition may need its next edge at another time.
    pub(super) fn changed(&self, partition: PartitionId) {
        self.bells[usize::from(partition.0)].ring();
    }

    /// The core has acted.
    pub(super) fn acted(&self, is_coscheduled: impl Fn(PartitionId) -> bool) {
        for (id, bell) in (0..).zip(&self.communication) {
            if is_coscheduled(PartitionId(id)) {
                bell.ring();
            }
        }
    }

    /// Waits for an act of the core; returns at once if there was one since the last return.
    pub(super) async fn act(&self, partition: PartitionId) {
        self.communication[usize::from(partition.0)].heard().await;
    }

    fn bell(&self, partition: PartitionId) -> &Bell {
        &self.bells[usize::from(partition.0)]
    }
}

/// Cuts the partition's time for as long as the manager runs.
pub(super) async fn run<P: Primitives, C: Contents + 'static>(
    shared: Rc<Shared<P, C>>,
    partition: PartitionId,
) {
    let bell = shared.slicing.bell(partition);
    let runtime = shared.primitives.runtime().clone();
    loop {
        shared.pass_slices();
        let Some(edge) = shared.ask(|core, now| core.next_edge(now, partition)) else {
            bell.heard().await;
            continue;
        };
        if runtime.now() >= edge.at {
            shared.cut_slice(partition);
            continue;
        }
        // Computes the next edge again when the quantum or the rows change.
        let at_edge = pin!(runtime.sleep_until(edge.needed));
        let changed = pin!(bell.heard());
        select(at_edge, changed).await;
    }
}
