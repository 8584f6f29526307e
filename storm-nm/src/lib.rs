//! The Node Manager, one per node. A Node Manager carries out the commands in the Machine Manager's
//! heartbeats (paper, Algorithm 5), and reports the results.
//!
//! | part | where |
//! |---|---|
//! | effects of commands and events: pure `(state, event) -> actions` | [`NodeCore`] |
//! | slices that the node begins by its own clock: pure | `SliceOrder` |
//! | which processes flexible coscheduling schedules together: pure | [`classes`] |
//! | the loop that feeds it from the network and the node | [`run`] |
//! | everything on the node outside the network | the [`Host`] trait |
//! | the host of a real node: storm-pl, files, pipes | [`live`] |
//! | the host of a simulated node, in virtual time | [`modelled`] |
//!
//! # The strobe's path
//!
//! From a heartbeat's arrival to the last freeze and resume there is no await. Therefore a strobe
//! never waits for a file, an output stream or another job's launch. For slices that the node
//! begins by its own clock, the switches are ordered from the host ahead. [`SwitchLog`] holds their
//! times.
//!
//! This crate does not decide where and when jobs run: the Machine Manager does. The crate names no
//! network backend, and touches no process: storm-pl does.

mod ahead;
mod boost_turns;
mod class_rules;
pub mod classes;
mod config;
mod core;
mod environment;
mod host;
mod job_classes;
mod job_key;
mod job_task;
mod leases;
pub mod live;
pub mod modelled;
mod node_manager;
mod outbox;
mod output_pattern;
mod reason;
mod script_environment;
mod slice_order;
mod step_environment;
mod switch_log;
mod task_set;

pub use ahead::{SwitchAhead, SwitchDone, SwitchedJobs};
pub use config::{DEFAULT_BOOST_PERIOD, NmConfig};
pub use core::{Action, CoreConfig, Event, JobPhase, NodeCore};
pub use environment::{
    CLUSTER_GIVEN_VARIABLE, CLUSTER_VARIABLES, MPI_TYPE_PMIX, MPI_TYPE_VARIABLE,
    NTASKS_UNASKED_VARIABLE, NodeNames, boosted_waiting, environment_of_step,
    environment_to_submit, implicit_waiting, rank_environment,
};
pub use host::{
    Content, Flaw, Host, HostEvent, Inherited, InheritedInput, LaunchRefused, PmiStep, SlicesLeft,
    Whom,
};
pub use job_key::JobKey;
pub use job_task::JobTask;
pub use node_manager::{ExitReason, Life, NmExit, run, run_and_return};
pub use output_pattern::{
    FileNameParts, PatternError, check_pattern, expand_pattern, names_one_file,
};
pub use storm_mpi::RDMA_DEVICE_VARIABLE;
pub use switch_log::{SwitchLog, SwitchRecord};
