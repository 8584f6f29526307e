//! Logs of parallel machines replayed in virtual time, and generated workloads.
//!
//! [`replay`] drives a [`storm_sched::Policy`] through a [`Trace`]. The policy is the same object
//! that the live Machine Manager drives. Jobs are submitted at the times of the log and run as long
//! as in the log; the policy decides the rest. The result is a [`Schedule`], and [`Report`] gives
//! its metrics. [`lublin`] generates workloads.
//!
//! Nothing here reads a file or a clock, or knows a network or a daemon. The whole cluster in
//! virtual time is `storm-sim`.
#![forbid(unsafe_code)]

mod continuous;
mod driver;
mod held;
pub mod lublin;
mod report;
mod rotation;
mod running;
mod schedule;
mod sliced;
mod steady_state;
mod trace;

pub use driver::{EventOrder, ReplayError, ReplayOptions, Watch, replay};
pub use report::{Report, SharingReport};
pub use schedule::{Busy, Schedule, Start, TimeSharing};
pub use steady_state::{
    CONFIDENCE, DEFAULT_TRIM_PERCENT, Interval, MAX_TRIM_PERCENT, SteadyState, TrimPercent,
};
pub use trace::{Estimates, JobIndex, LoadError, MAX_JOBS, Trace, TraceError, TraceJob};
