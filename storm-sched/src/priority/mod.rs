//! The order of the queue: the priority of each job.
//!
//! A [`Priority`] is a number. The driver of a policy computes it with [`Weights`] from [`Factors`]
//! and a tree of [`Account`]s over decayed [`Usage`], and tells the policy
//! ([`crate::Event::Prioritise`]). Nothing here has a clock: times are parameters.

mod fair_tree;
mod multifactor;
mod usage;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use fair_tree::{Account, Ranked, Share};
pub use multifactor::{Contributions, DEFAULT_MAX_AGE, Factors, Weights};
pub use usage::{DEFAULT_HALF_LIFE, HalfLife, Usage};

/// The priority of a job. Jobs with a higher one are ahead. The default is zero for all jobs.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Priority(pub u32);

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
