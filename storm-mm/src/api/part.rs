//! Part of a long listing.

use storm_rm::JobId;

/// The part of a listing that is requested from the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<At = JobId> {
    /// The job after which the part begins, or the [place](super::JobView::place) of a job that has
    /// ended; absent for the first part.
    pub after: Option<At>,
    /// The largest number of jobs in the part.
    pub most: usize,
}
