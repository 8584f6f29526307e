//! Slurm's commands: this program under the names sbatch, squeue, ..., or as `storm slurm VERB`.
//!
//! The texts and the options are those of the crate `storm-slurm`. This module asks the manager.
//! Nothing is decided here: each command makes the same requests as a command of storm.

mod accounts;
mod asking;
mod complaint;
mod help;
mod job_facts;
mod links;
mod node_counts;
mod node_facts;
mod option_table;
mod queue_options;
mod sacct;
mod sacct_options;
mod sbatch;
mod scancel;
mod scontrol;
mod scontrol_jobs;
mod scontrol_show;
mod scontrol_update;
mod scontrol_write;
mod sdiag;
mod sinfo;
mod source;
mod squeue;
mod sreport;
mod srun;
mod srun_step;
mod sstat;
mod step_shape;
mod users;

use crate::cli::{SlurmCommand, SlurmOptions};
use crate::command::{note, print};
use crate::failure::Failure;
use crate::output::Output;
use complaint::Complaint;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use storm_slurm::options::CommandLine;
use storm_slurm::{VERSION, Verb};

/// The command of Slurm's whose name this process was started by.
pub(crate) fn verb_of_process(name: Option<&OsStr>) -> Option<Verb> {
    Verb::named(Path::new(name?).file_name()?.to_str()?)
}

/// `storm slurm ...`.
pub(crate) fn command(options: SlurmOptions, output: &dyn Output) -> Result<u8, Failure> {
    match options.command {
        SlurmCommand::Links(options) => links::make(&options, output),
        SlurmCommand::Options(options) => option_table::list(options.verb.as_deref(), output),
        SlurmCommand::Verb(words) => {
            let (name, words) = words.split_first().unzip();
            let name: OsString = name.cloned().unwrap_or_default();
            let verb = verb_of_process(Some(&name)).ok_or_else(|| help::no_such_verb(&name))?;
            Ok(run(verb, words.unwrap_or_default().to_vec()))
        }
    }
}

/// Runs a command of Slurm's with the words behind its name, and returns the exit status.
pub(crate) fn run(verb: Verb, words: Vec<OsString>) -> u8 {
    let result = match CommandLine::read(verb, words) {
        Ok(line) if line.has("version") => print(&format!("{VERSION}\n")).map_err(Complaint::from),
        Ok(line) if line.has("help") || line.has("usage") => {
            print(&help::of(verb)).map_err(Complaint::from)
        }
        Ok(line) => return asked(verb, &line),
        Err(error) => Err(Complaint::of_usage(verb, &error)),
    };
    ended(verb, result.map(|()| 0))
}

/// Carries out a command that asks a manager.
fn asked(verb: Verb, line: &CommandLine) -> u8 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return ended(verb, Err(Failure::of("runtime", &error).into())),
    };
    let result = runtime.block_on(carried_out(verb, line));
    // A blocked read of our standard input must not delay the end.
    runtime.shutdown_background();
    ended(verb, result)
}

async fn carried_out(verb: Verb, line: &CommandLine) -> Result<u8, Complaint> {
    match verb {
        Verb::Sbatch => sbatch::run(line).await,
        Verb::Srun => srun::run(line).await,
        Verb::Salloc => Err(srun::no_allocations()),
        Verb::Scancel => scancel::run(line).await,
        Verb::Scontrol => scontrol::run(line).await,
        Verb::Squeue => squeue::run(line).await,
        Verb::Sinfo => sinfo::run(line).await,
        Verb::Sacct => sacct::run(line).await,
        Verb::Sacctmgr => accounts::sacctmgr(line).await,
        Verb::Sshare => accounts::sshare(line).await,
        Verb::Sprio => accounts::sprio(line).await,
        Verb::Sdiag => sdiag::run().await,
        Verb::Sstat => sstat::run(line).await,
        Verb::Sreport => sreport::run(line).await,
        Verb::Sbcast | Verb::Sattach => Err(Complaint::not_built(verb)),
    }
}

fn ended(verb: Verb, result: Result<u8, Complaint>) -> u8 {
    result.unwrap_or_else(|complaint| {
        note(&complaint.shown(verb));
        complaint.status
    })
}
