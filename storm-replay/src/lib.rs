//! Logs of parallel machines in virtual time, and workloads to make them of.
//!
//! [`replay`] drives a [`storm_sched::Policy`], the very object that the live
//! Machine Manager drives, through a [`Trace`]: jobs are submitted when the log
//! says, run as long as the log says, and the policy decides the rest. What
//! came of it is a [`Schedule`], and [`Report`] its metrics. [`lublin`] makes
//! workloads.
//!
//! Nothing here reads a file or a clock, or knows a network or a daemon: the
//! whole cluster in virtual time is `storm-sim`.
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
