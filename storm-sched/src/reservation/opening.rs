//! The nodes that reservations leave open to jobs that end in time. The longer a job runs, the more
//! nodes are closed to it. With the openings, a pass can exclude jobs without examining them.

use crate::reservation::{Book, Pool};
use crate::{Machine, NodeIndex, SchedTime};

/// The most openings of a pool. The last one serves all jobs whose end is too late for the others.
const MAX_OPENINGS: usize = 4;

/// The nodes that are closed to a job that starts now and has ended by a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Opening {
    /// The latest end of a job that uses this opening. The last opening has no limit.
    pub(crate) until: SchedTime,
    /// The closed nodes, ascending. They include those of the previous opening.
    pub(crate) closed: Vec<NodeIndex>,
}

impl Book {
    /// The openings for the jobs of a pool that start now, by the jobs' ends, ascending. There are
    /// none while the pool's own reservation has not begun.
    pub(crate) fn openings(&self, pool: Pool, machine: &Machine) -> Vec<Opening> {
        let (mut closed, own) = match pool {
            Pool::Before(_) => return Vec::new(),
            Pool::Common => (Vec::new(), None),
            Pool::Of(id) => {
                let own = self.windows().find(|window| window.id == id);
                let is_own =
                    |node: &NodeIndex| own.is_some_and(|own| own.nodes.binary_search(node).is_ok());
                let all = (0..machine.nodes().len() as u32).map(NodeIndex);
                (all.filter(|node| !is_own(node)).collect(), Some(id))
            }
        };
        let mut others: Vec<_> = self.windows().filter(|window| Some(window.id) != own).collect();
        others.sort_by_key(|window| window.start);
        let mut openings: Vec<Opening> = Vec::new();
        for window in others {
            let last = openings.last().map(|opening: &Opening| opening.until);
            if window.start > self.now() && last != Some(window.start) {
                if openings.len() + 1 == MAX_OPENINGS {
                    break;
                }
                closed.sort_unstable();
                closed.dedup();
                openings.push(Opening { until: window.start, closed: closed.clone() });
            }
            closed.extend(&window.nodes);
        }
        closed.sort_unstable();
        closed.dedup();
        openings.push(Opening { until: SchedTime::from_nanos(u64::MAX), closed });
        openings
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Event, JobId, JobRequest, Reservation, ReservationId};

    proptest! {
        #[test]
        fn an_opening_has_the_nodes_that_are_open_to_the_job(
            windows in prop::collection::vec((0..8u32, 0..40u64, 1..20u64), 0..8),
            runs in prop::collection::vec((1..60u64, prop::option::of(0..8u64)), 1..20),
            now_s in 0..30u64,
        ) {
            let machine = Machine::uniform(8, 2).unwrap();
            let at = SchedTime::from_secs;
            let mut book = Book::default();
            for (id, (node, start, length)) in (0..).map(ReservationId).zip(windows) {
                let nodes = vec![NodeIndex(node), NodeIndex((node + 3) % 8)];
                let window = Reservation { id, nodes, start: at(start), end: at(start + length) };
                // The book refuses a reservation that overlaps another.
                let _ = book.take(at(0), &machine, &Event::Reserve(window));
            }
            book.take(at(now_s), &machine, &Event::Wake).unwrap();
            for (length_s, reservation) in runs {
                let job = JobRequest { reservation: reservation.map(ReservationId), ..JobRequest::new(JobId(1), 1) };
                let (now, until) = (at(now_s), at(now_s + length_s));
                let openings = book.openings(book.pool_of(&job), &machine);
                let closed = book.closed(&machine, &job, now, until);
                match openings.iter().find(|opening| until <= opening.until) {
                    None => prop_assert_eq!(closed.len(), 8),
                    Some(opening) => {
                        prop_assert!(opening.closed.iter().all(|node| closed.contains(node)));
                        let is_last = openings.len() == MAX_OPENINGS && Some(opening) == openings.last();
                        prop_assert!(is_last || opening.closed == closed);
                    }
                }
            }
        }
    }
}
