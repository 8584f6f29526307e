//! The places of some waiting jobs, in the orders in which they are walked. The jobs' requests are
//! kept elsewhere.

use std::time::Duration;

use super::Place;
use super::gap::{Demand, Gap};
use super::order::Order;
use super::search_tree::SearchTree;

/// Places in the order of the queue, and by the estimates of their jobs.
#[derive(Debug, Clone, Default)]
pub(super) struct Orders {
    in_order: SearchTree<Place, ()>,
    shortest_first: SearchTree<(Duration, Place), ()>,
}

impl Orders {
    /// A job has come.
    pub(super) fn insert(&mut self, place: Place, estimate: Duration, demand: Demand) {
        self.in_order.insert(place, demand, ());
        self.shortest_first.insert((estimate, place), demand, ());
    }

    /// A job is gone.
    pub(super) fn remove(&mut self, place: Place, estimate: Duration) {
        self.in_order.remove(&place);
        self.shortest_first.remove(&(estimate, place));
    }

    /// The places in the order of the queue.
    pub(super) fn places(&self) -> impl Iterator<Item = Place> + '_ {
        self.in_order.iter().map(|(place, ())| *place)
    }

    /// The next place of an order whose job may fit the gap, with the job's estimate.
    pub(super) fn next_within(
        &self,
        order: Order,
        after: Option<(Duration, Place)>,
        gap: &Gap,
    ) -> Option<(Duration, Place)> {
        match order {
            Order::Queue => {
                let after = after.map(|(_, place)| place);
                let (place, ()) = self.in_order.next_within(after.as_ref(), gap)?;
                // The order of the queue does not use estimates.
                Some((Duration::ZERO, *place))
            }
            Order::ShortestFirst => {
                self.shortest_first.next_within(after.as_ref(), gap).map(|(at, ())| *at)
            }
        }
    }
}
