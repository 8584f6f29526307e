//! The slices of one partition: an edge every quantum while more than one row
//! holds jobs, none otherwise. A row that nobody is left in ends its slice before
//! its time.

use super::{Contents, Shared};
use futures_util::future::select;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Instant, Primitives, Runtime};
use storm_rm::PartitionId;

/// Cuts the partition's time for as long as the manager runs.
pub(super) async fn run<P: Primitives, C: Contents + 'static>(
    shared: Rc<Shared<P, C>>,
    partition: PartitionId,
) {
    let bell = &shared.slice_bells[usize::from(partition.0)];
    let runtime = shared.primitives.runtime().clone();
    let mut slice = Slice::default();
    loop {
        let (quantum, early) = {
            let core = shared.core.borrow();
            (core.slice(partition), core.early_edge(partition))
        };
        let now = runtime.now();
        let Some(edge) = slice.edge(now, quantum, early) else {
            bell.heard().await;
            continue;
        };
        if now >= edge {
            let on_grid = slice.next(now, edge);
            shared.drive(|core, now| match on_grid {
                true => core.slice_edge(now, partition),
                false => core.late_slice_edge(now, partition),
            });
            continue;
        }
        // When the quantum or the rows change: look again.
        let at_edge = pin!(runtime.sleep_until(edge));
        let changed = pin!(bell.heard());
        select(at_edge, changed).await;
    }
}

/// The slice under way.
#[derive(Debug, Default)]
struct Slice {
    began: Option<Instant>,
}

impl Slice {
    /// When the slice ends. Slicing begins with a whole slice now, and so does a slice
    /// that began with an early edge; without a quantum there is none.
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
                self.began = None;
                None
            }
        }
    }

    /// The slice that was to end at `edge` ends now. The next one began at the
    /// edge, so that edges stay on their grid, unless half of it is over already:
    /// then it begins now, and this is false. Slices that were missed are skipped, not
    /// made up for, and none is shorter than half a quantum.
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
        // What is past does not count again.
        assert_eq!(slice.edge(at(14_000), Some(QUANTUM), early), Some(at(24_000)));
    }
}
