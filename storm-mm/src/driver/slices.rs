//! The slices of one partition: an edge every quantum while more than one row holds jobs, none
//! otherwise. When no job is left in the active row, its slice ends early.

use super::{Contents, Shared};
use futures_util::future::select;
use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Bell, Instant, Primitives, Runtime};
use storm_rm::PartitionId;

/// The edges of the slices of all partitions.
pub(super) struct Slicing {
    /// By partition: rung when its next edge may be at another time.
    bells: Vec<Bell>,
    /// The slice under way of each partition.
    slices: RefCell<Vec<Slice>>,
    /// By partition: rung after every act of the core, where jobs communicate in slices.
    communication: Vec<Bell>,
}

impl Slicing {
    pub(super) fn new(partitions: u16) -> Slicing {
        let bells = || (0..partitions).map(|_| Bell::default()).collect();
        let slices = RefCell::new((0..partitions).map(|_| Slice::default()).collect());
        Slicing { bells: bells(), slices, communication: bells() }
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
        shared.pass_ordered_slices();
        let Some((edge, needed)) = shared.edges(partition) else {
            bell.heard().await;
            continue;
        };
        let now = runtime.now();
        if now >= edge {
            let on_grid =
                shared.slicing.slices.borrow_mut()[usize::from(partition.0)].next(now, edge);
            shared.drive(|core, now| match on_grid {
                true => core.slice_edge(now, partition),
                false => core.late_slice_edge(now, partition),
            });
            continue;
        }
        // Looks again when the quantum or the rows change.
        let at_edge = pin!(runtime.sleep_until(needed));
        let changed = pin!(bell.heard());
        select(at_edge, changed).await;
    }
}

impl<P: Primitives, C: Contents + 'static> Shared<P, C> {
    /// The next edge of a partition, and the first edge that needs the manager: at the edges before
    /// that, nodes begin the ordered slices by themselves.
    fn edges(&self, partition: PartitionId) -> Option<(Instant, Instant)> {
        let edge = self.next_edge(partition)?;
        let core = self.core();
        let quantum = core.slice(partition).unwrap_or_default();
        let ordered = u32::try_from(core.slices_ahead(partition)).unwrap_or(u32::MAX);
        self.slicing.slices.borrow_mut()[usize::from(partition.0)].ordered = ordered;
        Some((edge, edge + quantum.saturating_mul(ordered)))
    }

    fn next_edge(&self, partition: PartitionId) -> Option<Instant> {
        let core = self.core();
        let (quantum, early) = (core.slice(partition), core.early_edge(partition));
        self.slicing.slices.borrow_mut()[usize::from(partition.0)].edge(self.now(), quantum, early)
    }

    /// Passes the edges through which the manager slept, in order and with their own times, before
    /// anything else happens: nodes began the slices after them by themselves ([decision
    /// 0091](../../../docs/decisions/0091-slices-by-the-nodes-clocks.md)).
    pub(super) fn pass_ordered_slices(&self) {
        let partitions = self.slicing.slices.borrow().len();
        for id in (0..partitions).filter_map(|id| u16::try_from(id).ok().map(PartitionId)) {
            if self.slicing.slices.borrow()[usize::from(id.0)].ordered == 0 {
                continue;
            }
            while self.next_edge(id).is_some_and(|edge| edge <= self.now())
                && let Some((edge, needed)) = self.edges(id)
                && edge < needed
            {
                self.slicing.slices.borrow_mut()[usize::from(id.0)].next(edge, edge);
                self.act(edge, |core, edge| core.slice_edge(edge, id));
            }
        }
    }

    /// Wakes the tasks that sleep through slices if the next edge now needs the manager.
    pub(super) fn wake_for_slices(&self) {
        let core = self.core();
        for (id, slice) in self.slicing.slices.borrow().iter().enumerate() {
            let Ok(partition) = u16::try_from(id).map(PartitionId) else { continue };
            if slice.ordered > 0 && core.slices_ahead(partition) == 0 {
                self.slicing.changed(partition);
            }
        }
    }
}

/// The slice under way.
#[derive(Debug, Default)]
struct Slice {
    began: Option<Instant>,
    /// The number of edges that the manager sleeps through, from the next one on.
    ordered: u32,
}

impl Slice {
    /// When the slice ends; `None` without a quantum. If no slice is under way, a whole one begins
    /// now. At an early edge a whole slice begins at that edge.
    fn edge(
        &mut self,
        now: Instant,
        quantum: Option<Duration>,
        early: Option<Instant>,
    ) -> Option<Instant> {
        match quantum {
            Some(quantum) => {
                let began = self.began.unwrap_or(now);
                let began = early.map_or(began, |early| began.max(early));
                self.began = Some(began);
                Some(began + quantum)
            }
            None => {
                (self.began, self.ordered) = (None, 0);
                None
            }
        }
    }

    /// The slice that was to end at `edge` ends now. The next slice began at `edge`, so that edges
    /// stay on their grid. If half of that slice is over already, it begins now instead, and the
    /// result is false. Missed slices are skipped, not made up for, and no slice is shorter than
    /// half a quantum.
    fn next(&mut self, now: Instant, edge: Instant) -> bool {
        let Some(began) = self.began else { return false };
        let on_grid = now <= edge + (edge - began) / 2;
        self.began = Some(if on_grid { edge } else { now });
        on_grid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUANTUM: Duration = Duration::from_millis(10);

    fn at(micros: u64) -> Instant {
        Instant::ORIGIN + Duration::from_micros(micros)
    }

    #[test]
    fn slicing_begins_with_a_whole_slice_and_edges_stay_on_their_grid() {
        let mut slice = Slice::default();
        assert_eq!(slice.edge(at(3_000), Some(QUANTUM), None), Some(at(13_000)));
        // Looking again does not move the edge.
        assert_eq!(slice.edge(at(9_000), Some(QUANTUM), None), Some(at(13_000)));
        assert!(slice.next(at(13_400), at(13_000)));
        assert_eq!(slice.edge(at(13_400), Some(QUANTUM), None), Some(at(23_000)));
    }

    #[test]
    fn missed_edges_are_skipped_and_no_slice_is_short() {
        let mut slice = Slice::default();
        slice.edge(at(0), Some(QUANTUM), None);
        assert!(slice.next(at(15_000), at(10_000)));
        assert_eq!(slice.edge(at(15_000), Some(QUANTUM), None), Some(at(20_000)));
        assert!(!slice.next(at(25_001), at(20_000)));
        assert_eq!(slice.edge(at(25_001), Some(QUANTUM), None), Some(at(35_001)));
        assert!(!slice.next(at(99_000), at(35_001)));
        assert_eq!(slice.edge(at(99_000), Some(QUANTUM), None), Some(at(109_000)));
    }

    #[test]
    fn the_quantum_may_change_in_the_middle_and_slicing_begins_anew() {
        let mut slice = Slice::default();
        slice.edge(at(0), Some(QUANTUM), None);
        assert_eq!(slice.edge(at(4_000), Some(QUANTUM / 2), None), Some(at(5_000)));
        assert_eq!(slice.edge(at(4_500), None, None), None);
        assert_eq!(slice.edge(at(4_700), Some(QUANTUM), None), Some(at(14_700)));
    }

    #[test]
    fn after_an_early_edge_a_whole_slice_begins() {
        let mut slice = Slice::default();
        slice.edge(at(0), Some(QUANTUM), None);
        let early = Some(at(4_000));
        assert_eq!(slice.edge(at(4_100), Some(QUANTUM), early), Some(at(14_000)));
        assert!(slice.next(at(14_000), at(14_000)));
        // A past edge does not count again.
        assert_eq!(slice.edge(at(14_000), Some(QUANTUM), early), Some(at(24_000)));
    }
}
