//! Part of a long listing.

use storm_rm::JobId;

/// Which part of a listing the core is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// What comes behind this job in the listing; from its beginning when it is absent.
    pub after: Option<JobId>,
    /// At most so many jobs.
    pub most: usize,
}
