//! Options of `batch`, and the options that a script's lines add to a command line.

use super::{Cli, JobOptions};
use clap::Args;
use std::ffi::OsString;

const AFTER_HELP: &str = "\
The script runs once, on the first of the job's nodes. -n, -N and -c say how much the job
has: all of it is the job's until the script ends. `-` reads the script from standard input,
and --wrap takes a shell command instead. The file need not be executable, and later changes
of it do not matter. The job's status is that of the script.

Lines of the script before its first command may have options: those after #STORM as here,
those after #SBATCH as in Slurm. The command line counts before SBATCH_* variables, and those
before the lines. A line that storm cannot follow is refused.

The script finds its job in STORM_* and SLURM_* variables: SLURM_JOB_ID, SLURM_JOB_NODELIST,
SLURM_NNODES, SLURM_NTASKS, SLURM_TASKS_PER_NODE, SLURM_CPUS_ON_NODE, SLURM_ARRAY_TASK_ID...

Examples:
  storm batch -N 2 --ntasks-per-node 4 --time 1h job.sh input.dat
  storm batch --array 0-99%4 - < job.sh
  storm batch -n 8 --wrap './prepare && ./compute'

Exit status: 0 when the job is submitted; with --wait that of the script.";

/// The script to run, and the place in which it runs.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = AFTER_HELP,
    override_usage = "storm batch [OPTIONS] SCRIPT [ARGS]...\n       \
                      storm batch [OPTIONS] - [ARGS]... < SCRIPT\n       \
                      storm batch [OPTIONS] --wrap 'COMMAND | COMMAND'"
)]
pub(crate) struct BatchOptions {
    #[command(flatten)]
    pub(crate) job: JobOptions,
}

impl Cli {
    /// Parses a command line with further options, each of which counts if the command line does
    /// not have it. The later of two further options counts.
    ///
    /// # Errors
    /// The options contradict each other.
    pub(crate) fn with_further(
        words: &[OsString],
        further: impl IntoIterator<Item = OsString>,
    ) -> Result<Cli, clap::Error> {
        // Options before the verb take no value.
        let is_verb = |word: &OsString| !word.as_encoded_bytes().starts_with(b"-");
        let verb = words.iter().skip(1).position(is_verb).map_or(words.len(), |at| at + 2);
        let (before, behind) = words.split_at(verb);
        let all = before.iter().cloned().chain(further).chain(behind.iter().cloned());
        super::one_verb::overriding(all.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Command;
    use super::*;

    #[test]
    fn the_command_line_counts_before_further_options() {
        let words = |line: &str| line.split_whitespace().map(OsString::from).collect::<Vec<_>>();
        let line = words("storm --quiet batch -n 2 job.sh -n 9");
        let cli = Cli::with_further(&line, words("-n 4 -t 5 -t 6 --requeue")).expect("it is right");
        assert!(cli.display.quiet);
        let Command::Batch(batch) = cli.command else { panic!("another verb") };
        assert_eq!((batch.job.procs, batch.job.requeue), (Some(2), true));
        assert_eq!(batch.job.time, Some(std::time::Duration::from_secs(360)));
        assert_eq!(batch.job.program, words("job.sh -n 9"));
        let line = words("storm batch --no-requeue job.sh");
        let cli = Cli::with_further(&line, words("--requeue")).expect("it is right");
        let Command::Batch(batch) = cli.command else { panic!("another verb") };
        assert!(!batch.job.requeue);
    }
}
