//! The command `storm` as a library. A crate with policies of its own builds the same command with
//! them by [`run`]: command line, embedded cluster and daemons.
//!
//! A command parses its options (`cli`), finds the addressed cluster (`target`) or makes one
//! (`local_cluster`), asks its Machine Manager over the client API, and prints the answer
//! (`output`). Its only state is the record of the cluster that `storm up` started.
//!
//! [`run`] is the only public item. To use a part, depend on its crate.

mod attach;
mod begin_time;
mod cli;
mod command;
mod config;
mod daemon;
mod duration;
mod event_loop;
mod failure;
mod job_request;
mod key_file;
mod local_cluster;
mod manager;
mod memory;
mod outcome;
mod output;
mod own_cluster;
mod size;
mod slurm;
mod standard_streams;
mod target;
mod variables;

use std::process::ExitCode;
use storm_sched::Registry;

/// Runs the command line of this process with these policies. Partitions are configured with them
/// by name and switched to them, and `storm replay --sched` knows them. Daemons that a command
/// starts run this same program, so they know the policies as well.
///
/// Call it as a program's `main`. A second call keeps the policies of the first.
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
    let mut words = std::env::args_os();
    let name = words.next();
    if let Some(verb) = slurm::verb_of_process(name.as_deref()) {
        return ExitCode::from(slurm::run(verb, words.collect()));
    }
    ExitCode::from(match cli::Cli::of(name.into_iter().chain(words).collect()) {
        Ok(cli) => command::run(cli),
        Err(error) => command::refuse(error),
    })
}
