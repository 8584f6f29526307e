//! The command `storm` as a library: whoever has policies of his own builds the same
//! command with them ([`run`]), command line, embedded cluster and daemons.
//!
//! A command parses its options (`cli`), finds the cluster that is meant
//! (`target`) or makes one (`local_cluster`), asks its Machine Manager over
//! the client API, and prints the answer (`output`). It keeps no state but
//! the record of the cluster that `storm up` started.
//!
//! Nothing but [`run`] is meant for others: those who want a part take the crates.

mod attach;
mod begin_time;
mod cli;
mod command;
mod config;
mod daemon;
mod duration;
mod failure;
mod job_request;
mod key_file;
mod local_cluster;
mod manager;
mod memory;
mod output;
mod own_cluster;
mod size;
mod standard_streams;
mod target;

use std::process::ExitCode;
use storm_sched::Registry;

/// Does what the command line of this process says, with these policies: partitions are
/// configured with them by name and switched to them, `storm replay --sched` knows them.
/// The daemons that a command starts are this program again, so they know them too.
///
/// It is a program's `main`; called again it keeps the policies of the first call.
///
/// ```no_run
/// use storm_sched::{Machine, Policy, PolicyParams, Registry, policies::Fcfs};
///
/// fn mine(machine: Machine, params: &PolicyParams) -> Box<dyn Policy> {
///     Fcfs::boxed(machine, params)
/// }
///
/// fn main() -> std::process::ExitCode {
///     let mut policies = Registry::standard();
///     policies.register("mine", mine).expect("no other policy has the name");
///     storm::run(policies)
/// }
/// ```
pub fn run(policies: Registry) -> ExitCode {
    config::offer(policies);
    ExitCode::from(match cli::Cli::of(std::env::args_os().collect()) {
        Ok(cli) => command::run(cli),
        Err(error) => command::refuse(error),
    })
}
