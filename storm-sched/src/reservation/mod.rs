//! Reservations: for some time, certain nodes take only the jobs of the reservation.
//!
//! From its start to its end, the nodes of a reservation take no other job. Another job does not
//! start there earlier either, if its estimate reaches into the reservation. A job of a reservation
//! waits for the start and runs only on these nodes. After the end of the reservation, its jobs are
//! like all others: running jobs may finish, and waiting jobs may start anywhere. The same holds if
//! the reservation is withdrawn, so no job waits for ever.
//!
//! Policies do not handle reservations themselves. While a policy considers a job, the nodes that
//! the job may not use are closed ([`Book::closed`], `Matrix::close_only`). The jobs of each active
//! reservation are a queue of their own ([`Pool`]). So no job waits behind another for nodes that
//! it could not use. Without reservations, none of these steps is needed.

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

/// The number of a reservation. The Machine Manager assigns it and never reuses it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ReservationId(pub u64);

/// Nodes that are reserved for some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// The reservation's number.
    pub id: ReservationId,
    /// The reserved nodes.
    pub nodes: Vec<NodeIndex>,
    /// When the reservation begins; the time may be past.
    pub start: SchedTime,
    /// When the reservation ends.
    pub end: SchedTime,
}

impl Reservation {
    /// Whether the reservation is under way at a time.
    #[must_use]
    pub fn is_under_way(&self, at: SchedTime) -> bool {
        self.start <= at && at < self.end
    }

    /// Whether a run from `from` to `until` overlaps the reservation.
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
