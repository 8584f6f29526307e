//! How well jobs were served: the metrics of section B of the policy
//! reference.
//!
//! Sums of times are whole nanoseconds and those of slowdowns are compensated,
//! so that an average holds to every digit that is printed whatever the order
//! and number of the jobs. Confidence in the averages is not judged here.

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
