//! The quality of service of jobs: the metrics of section B of the policy reference.
//!
//! Sums of times are whole nanoseconds and sums of slowdowns are compensated, so every printed
//! digit of an average is right for any order and number of jobs. Confidence intervals are not
//! computed here.

mod capacity;
mod job_outcome;
mod precise_sum;
mod service;
mod summary;
mod user_service;

pub use capacity::Capacity;
pub use job_outcome::{BOUNDED_SLOWDOWN_TAU_S, JobOutcome};
pub use precise_sum::PreciseSum;
pub use service::Service;
pub use summary::Summary;
pub use user_service::{UserService, by_user};
