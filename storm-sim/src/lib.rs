//! The whole machine in virtual time, under one seed. The Machine Manager's driver and the Node
//! Managers run as they do live, on modelled hosts and a simulated network, with modelled
//! applications.
//!
//! - [`Machine`] is a cluster in one thread. Its daemons are the live ones.
//! - [`Application`] is the work of modelled jobs.
//! - [`scenario`] reads a workload with its faults from TOML and runs it.
//! - [`figures`] are the paper's experiments. [`reproduction`] compares their results, and those of
//!   `storm-model`, with the paper's.
//! - [`invariants`] are checked at every step; [`Report`] is the result of a run.
//! - A [`Defect`] makes the daemons wrong, to show that the invariants detect it.
//!
//! The crate does not model a network (a fabric of `storm-primitives` does), does not schedule jobs
//! (the MM does), and prints nothing.

mod application;
mod bounded_file;
mod chrome_trace;
mod client;
mod content;
mod defect;
mod fact;
pub mod figures;
mod flawed_host;
mod hosts;
mod interconnect;
pub mod invariants;
mod job_record;
mod machine;
pub mod profile;
mod record;
mod report;
pub mod reproduction;
pub mod scenario;
mod watched;

pub use application::{Application, Heavy};
pub use chrome_trace::ChromeTrace;
pub use client::Client;
pub use defect::{Defect, Switch};
pub use fact::{Compared, Fact};
pub use hosts::{Hosts, PlainHosts};
pub use interconnect::MessageCosts;
pub use job_record::JobTimes;
pub use machine::{
    Configuration, ConfiguredNode, ConfiguredPartition, JobRequest, Machine, MachineConfig,
    MachineError, NodeManagerEnd, RunError, UnfinishedJob, UnfinishedJobs,
};
pub use report::{HistogramSummary, JobReport, Report};
