//! Reservations: nodes that for some time are only for the jobs of a reservation.
//!
//! From its start to its end a reservation's nodes take no other job. Nor does a job start there
//! earlier if its estimate reaches into the reservation. A job of a reservation waits for the start
//! and runs on these nodes only. When the reservation is over or taken back, its jobs are like all
//! others: running ones may finish, waiting ones may start anywhere. As a result no job waits for
//! ever.
//!
//! Policies do not work this out themselves. While they look at a job, they close the nodes that it
//! may not have ([`Book::closed`], `Matrix::close_only`). The jobs of each active reservation are a
//! queue of their own ([`Pool`]), so no job waits behind one for nodes that it could not have.
//! Without reservations nothing of this is done.

mod book;
mod lack;
mod opening;
mod pool;

use serde::{Deserialize, Serialize};

pub(crate) use book::Book;
pub(crate) use lack::Lack;
pub(crate) use opening::Opening;
pub(crate) use pool::Pool;

use crate::{NodeIndex, SchedTime};

/// A reservation, numbered by the Machine Manager; never reused.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ReservationId(pub u64);

/// Nodes for some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// Which.
    pub id: ReservationId,
    /// Its nodes.
    pub nodes: Vec<NodeIndex>,
    /// From when on they are for its jobs only; may be past.
    pub start: SchedTime,
    /// Until when.
    pub end: SchedTime,
}

impl Reservation {
    /// Whether it is under way at a time.
    #[must_use]
    pub fn is_under_way(&self, at: SchedTime) -> bool {
        self.start <= at && at < self.end
    }

    /// Whether a run from `from` to `until` meets it.
    #[must_use]
    pub fn meets(&self, from: SchedTime, until: SchedTime) -> bool {
        self.start < until && from < self.end
    }
}

impl std::fmt::Display for ReservationId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
