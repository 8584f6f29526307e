//! Slices that this node begins by its own clock, as a strobe ordered them
//! ([decision 0091](../../../docs/decisions/0091-slices-by-the-nodes-clocks.md)).

use super::Node;
use crate::Host;
use crate::core::Event;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Instant, Primitives, Runtime};
use storm_rm::PartitionId;
use storm_rm::message::Slices;

/// No slice is shorter, whatever is ordered: a node does other things too.
const QUANTUM_MIN: Duration = Duration::from_micros(50);

impl<P: Primitives, H: Host> Node<P, H> {
    /// Begins these slices of a partition when they are due, and none of those before.
    pub(super) fn follow(self: &Rc<Self>, partition: PartitionId, slices: Option<Slices>) {
        let began = self.runtime.now();
        let task = slices.map(|slices| {
            let node = self.clone();
            self.runtime.spawn(async move { node.begin_slices(began, &slices).await })
        });
        let former = match task {
            Some(task) => self.following.borrow_mut().insert(partition, task),
            None => self.following.borrow_mut().remove(&partition),
        };
        drop(former);
    }

    /// The first slice began at `began`. One that is over by the time its turn comes is
    /// skipped, like a strobe that could not leave: nodes do not catch up. The last is not:
    /// its row stays until the next strobe.
    async fn begin_slices(self: &Rc<Self>, began: Instant, slices: &Slices) {
        let quantum = Duration::from_nanos(slices.quantum_ns).max(QUANTUM_MIN);
        let mut due = began;
        for index in 1..=slices.following.len() {
            due = due + quantum;
            let Some(strobe) = slices.strobe_of(index) else { return };
            self.runtime.sleep_until(due).await;
            self.host.attend().await;
            let over = self.runtime.now() >= due + quantum;
            if !over || index == slices.following.len() {
                self.handle(Event::SliceBegins(strobe));
            }
        }
    }
}
