//! The time of a partition's slices: when the slice under way ends, and how many edges the manager
//! sleeps through.

use std::time::Duration;
use storm_primitives::Instant;

/// The slice under way.
#[derive(Debug, Default)]
pub(super) struct SliceClock {
    began: Option<Instant>,
    /// The number of edges that the manager sleeps through, from the next one on.
    asleep: usize,
}

impl SliceClock {
    /// When the slice ends; `None` without a quantum. If no slice is under way, a whole one begins
    /// now. At an early edge a whole slice begins at that edge.
    pub(super) fn edge(
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
                *self = SliceClock::default();
                None
            }
        }
    }

    /// The slice that was to end at `edge` ends now. The next slice began at `edge`, so that edges
    /// stay on their grid. If half of that slice is over already, the slice begins now instead, and
    /// the result is false. Missed slices are skipped, not made up for, and no slice is shorter
    /// than half a quantum.
    pub(super) fn next(&mut self, now: Instant, edge: Instant) -> bool {
        let Some(began) = self.began else { return false };
        let on_grid = now <= edge + (edge - began) / 2;
        self.began = Some(if on_grid { edge } else { now });
        on_grid
    }

    /// The manager sleeps through `edges` edges, from the next edge on.
    pub(super) fn sleep(&mut self, edges: usize) {
        self.asleep = edges;
    }

    /// Whether the manager sleeps through the next edge.
    pub(super) fn sleeps(&self) -> bool {
        self.asleep > 0
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
        let mut slice = SliceClock::default();
        assert_eq!(slice.edge(at(3_000), Some(QUANTUM), None), Some(at(13_000)));
        // A second call does not move the edge.
        assert_eq!(slice.edge(at(9_000), Some(QUANTUM), None), Some(at(13_000)));
        assert!(slice.next(at(13_400), at(13_000)));
        assert_eq!(slice.edge(at(13_400), Some(QUANTUM), None), Some(at(23_000)));
    }

    #[test]
    fn missed_edges_are_skipped_and_no_slice_is_short() {
        let mut slice = SliceClock::default();
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
        let mut slice = SliceClock::default();
        slice.edge(at(0), Some(QUANTUM), None);
        assert_eq!(slice.edge(at(4_000), Some(QUANTUM / 2), None), Some(at(5_000)));
        assert_eq!(slice.edge(at(4_500), None, None), None);
        assert_eq!(slice.edge(at(4_700), Some(QUANTUM), None), Some(at(14_700)));
    }

    #[test]
    fn after_an_early_edge_a_whole_slice_begins() {
        let mut slice = SliceClock::default();
        slice.edge(at(0), Some(QUANTUM), None);
        let early = Some(at(4_000));
        assert_eq!(slice.edge(at(4_100), Some(QUANTUM), early), Some(at(14_000)));
        assert!(slice.next(at(14_000), at(14_000)));
        // A past edge does not count again.
        assert_eq!(slice.edge(at(14_000), Some(QUANTUM), early), Some(at(24_000)));
    }
}
