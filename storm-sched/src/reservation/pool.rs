//! The jobs that compete for the same nodes.

use crate::ReservationId;

/// The jobs that a job competes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Pool {
    /// All jobs without a reservation, or whose reservation has ended.
    #[default]
    Common,
    /// The jobs of a reservation that is under way.
    Of(ReservationId),
    /// The jobs of a reservation that has not begun: none of them starts.
    Before(ReservationId),
}
