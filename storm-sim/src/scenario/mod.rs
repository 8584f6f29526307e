//! Scenarios: a machine, a workload and its faults, read from TOML and run under
//! one seed.

mod bounds;
mod edit;
mod error;
mod fault;
mod file;
mod flexible;
mod random_edits;
mod random_faults;
mod rates;
mod restart;
mod run;
mod seeds;
pub(crate) mod written_time;

pub use error::ScenarioError;
pub use fault::{Fault, FaultKind};
pub use file::{GeneratedJobs, JobEntry, MachineEntry, Scenario};
pub use flexible::FlexibleEntry;
pub use random_edits::RandomEdits;
pub use random_faults::RandomFaults;
pub use run::{Outcome, RunOptions, ScenarioFailure, run};
pub use seeds::run_seeds;
