//! `squeue`: fields, default formats, order, and jobs of an array on one line.

mod fold;
mod job_fields;
mod order;
mod step_fields;

pub use fold::fold_arrays;
pub use job_fields::JOB_FIELDS;
pub(in crate::view) use job_fields::tres;
pub use order::{BadSort, Order};
pub use step_fields::STEP_FIELDS;

/// The format of `-o` without any option.
pub const DEFAULT_FORMAT: &str = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R";
/// The format of `--long`.
pub const LONG_FORMAT: &str = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R";
/// The format of `--start`.
pub const START_FORMAT: &str = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R";
/// The format of `--steps`.
pub const STEPS_FORMAT: &str = "%.15i %.8j %.9P %.8u %.9M %N";
/// The order of jobs without `--sort`.
pub const DEFAULT_ORDER: &str = "P,t,-p";
/// The order of jobs with `--start`.
pub const START_ORDER: &str = "S";
