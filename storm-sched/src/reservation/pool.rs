//! The jobs that compete for the same nodes.

use crate::ReservationId;

/// The set of jobs that a job competes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Pool {
    /// All that have no reservation, or one that is over.
    #[default]
    Common,
    /// The jobs of a reservation that is under way.
    Of(ReservationId),
    /// The jobs of a reservation that has not begun: none starts.
    Before(ReservationId),
}
