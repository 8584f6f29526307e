//! Options of `storm slurm`.

use clap::{Args, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

/// Slurm's commands.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
This program is sbatch, squeue, scancel, ... when it has that name: `links` makes the names,
as symbolic links. Without links, each is `storm slurm NAME`.

Examples:
  storm slurm links ~/bin
  storm slurm options sbatch                  what is accepted, and what is refused and why
  storm slurm sbatch --parsable job.sh")]
pub(crate) struct SlurmOptions {
    #[command(subcommand)]
    pub(crate) command: SlurmCommand,
}

/// What to do with Slurm's commands.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum SlurmCommand {
    /// Make the names of Slurm's commands in a directory, as links to this program
    Links(LinksOptions),
    /// List the options of Slurm's commands, and what becomes of each
    Options(OptionTableOptions),
    /// A command of Slurm's with its words: sbatch, srun, salloc, squeue, scancel, sinfo, scontrol,
    /// sacct, ...
    #[command(external_subcommand)]
    Verb(Vec<OsString>),
}

/// Options of `storm slurm links`.
#[derive(Clone, Debug, Args)]
pub(crate) struct LinksOptions {
    /// Directory of the links
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Program that they name [default: this one]
    #[arg(long, value_name = "PATH")]
    pub(crate) target: Option<PathBuf>,
}

/// Options of `storm slurm options`.
#[derive(Clone, Debug, Args)]
pub(crate) struct OptionTableOptions {
    /// Only those of this command
    #[arg(value_name = "VERB")]
    pub(crate) verb: Option<String>,
}
