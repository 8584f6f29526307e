//! Part of a long listing.

use storm_rm::JobId;

/// Which part of a listing the core is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<At = JobId> {
    /// What comes behind this in the listing: behind a job, or behind the [place](super::JobView::place) of one that
    /// has ended; from its beginning when it is absent.
    pub after: Option<At>,
    /// At most so many jobs.
    pub most: usize,
}
