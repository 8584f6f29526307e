//! The workload model of Lublin and Feitelson: arrivals with a daily cycle, sizes that favour
//! powers of two, run times that grow with the size.
//!
//! U. Lublin and D. G. Feitelson, The Workload on Parallel Supercomputers: Modeling the
//! Characteristics of Rigid Jobs, JPDC 63(11), 2003. The parameters are those of the authors'
//! program (section B of the policy reference).
//!
//! One seed gives one workload. The model has no estimates, so every job gets its run time as its
//! estimate.

mod arrivals;
mod generator;
mod params;
mod run_time;
mod size;

pub use arrivals::{Arrivals, BUCKET_S, BUCKETS};
pub use generator::{DEFAULT_JOBS, JobClasses, LublinError, LublinOptions, Workload, generate};
pub use params::{ArrivalParams, ClassParams, JobClass, RunTimeParams, SizeParams};
pub use run_time::{MAX_LN_RUN_TIME, RunTime};
pub use size::{MIN_PES, Size};
