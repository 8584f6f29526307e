//! Options of `submit` and `run`.

use super::count::{NodeCount, parse_count, parse_nodes, parse_procs};
use super::job_name::visible_name;
use super::node_list::{NodeList, parse_node_file, parse_node_list};
use super::signal_argument::parse_early_signal;
use super::{
    ClusterOptions, EmbeddedOptions, ExportArgument, MpiArgument, NeedsOptions, ServiceOptions,
};
use crate::job_request::ScriptText;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum, ValueHint};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;
use storm_rm::EarlySignal;
use storm_sched::Constraint;

const AFTER_HELP: &str = "\
A PROGRAM with a slash is a path. Without a slash, storm looks for it in the current
directory, then in PATH. It is copied to every node unless --no-bcast is given. Put options
of storm before PROGRAM: all arguments after it go to the program. `-` reads a script from
standard input; the job then has no other input. Each process runs the whole script, or the
whole command of --wrap. `storm batch` runs it once, and so does `submit` if the script has
#STORM or #SBATCH lines.

On a cluster, `submit` prints the job's number and returns; the jobs of an array also have the
numbers after it. Output goes to storm-JOB.out in the current directory. With --wait, `submit`
returns when the job has ended, like `storm wait JOB`; Ctrl-C leaves the job alone.

`run` follows the job, and so do both commands on an embedded cluster: output comes here, and
Ctrl-C cancels the job. A second Ctrl-C, at least a second later, ends storm at once. Storm
prints the job's result on standard error.

In output names %j is the job, %A the array (or the job), %a the index in it, %s the step,
%r the rank, %n the node, %i its number from 0, %x the job's name, %u its user, %% a percent
sign. Each job of an array finds STORM_ARRAY_JOB_ID, STORM_ARRAY_TASK_ID, _COUNT, _MIN and
_MAX in its environment.

--export LIST passes only the variables in LIST and storm's own. If LIST contains ALL, the
whole environment is passed, and LIST adds to it. A value in quotes may hold commas: 'a,b'.

Examples:
  storm submit -n 256 --sched gang ./sweep3d
  storm run -n 4 --label --time 10m ./solver input.dat
  storm run -N 2 --ntasks-per-node 2 -c 4 --mem 16G -C 'gpu&fast' ./solver
  storm submit -n 64 --output 'out-%j-%r.txt' --bcast mesh.bin ./solver
  storm submit --array 0-99%4 ./solve.sh
  storm submit --wrap 'zcat big.gz | sort -u > /scratch/sorted'
  storm submit -n 4 - input.dat < solve.sh
  storm submit --dependency afterok:7:8 --begin now+1hour ./reduce
  storm run --manager head:7118 -n 4 --chdir /scratch ./solver    from another host

Exit status: that of the job when it is followed (`storm help`).";

/// The program to run, and how to run it.
#[derive(Clone, Debug, Default, Args)]
#[command(
    after_help = AFTER_HELP,
    override_usage = "storm submit|run [OPTIONS] PROGRAM [ARGS]...\n       \
                      storm submit|run [OPTIONS] - [ARGS]... < SCRIPT\n       \
                      storm submit|run [OPTIONS] --wrap 'COMMAND | COMMAND'"
)]
pub(crate) struct JobOptions {
    /// Number of processes [default: 1; with -N one per node, or --ntasks-per-node]
    #[arg(short = 'n', long = "ntasks", value_name = "N", allow_negative_numbers = true,
          value_parser = parse_procs)]
    pub(crate) procs: Option<u32>,
    /// Number of nodes to spread them over, or a range as 2-4: the smallest that can run the job
    #[arg(short = 'N', value_name = "NODES", allow_negative_numbers = true,
          value_parser = parse_nodes)]
    pub(crate) on_nodes: Option<NodeCount>,
    /// Processes on each node: at most N with -n, else N on -N nodes or one
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = parse_count)]
    pub(crate) ntasks_per_node: Option<u32>,
    /// Processing elements of each process, all on one node [default: 1]
    #[arg(long, short, value_name = "N", allow_negative_numbers = true,
          value_parser = parse_count)]
    pub(crate) cpus_per_task: Option<u32>,
    /// Memory on each node, as 512M or 16G; in MiB without a unit; 0 is all that the node has
    #[arg(long, value_name = "SIZE", value_parser = crate::memory::parse_memory)]
    pub(crate) mem: Option<u64>,
    /// Memory for each processing element
    #[arg(long, value_name = "SIZE", conflicts_with = "mem",
          value_parser = crate::memory::parse_memory)]
    pub(crate) mem_per_cpu: Option<u64>,
    /// No other job on its nodes
    #[arg(long)]
    pub(crate) exclusive: bool,
    /// Only nodes with these features: gpu&fast, or ib|opa
    #[arg(long, short = 'C', value_name = "FEATURES",
          value_parser = clap::value_parser!(Constraint))]
    pub(crate) constraint: Option<Constraint>,
    /// Run on these nodes, and others if they are not enough: n3, n[1-8,12], or a file with a
    /// slash in its name
    #[arg(long, short = 'w', value_name = "NODES", value_parser = parse_node_list)]
    pub(crate) nodelist: Option<NodeList>,
    /// The same, with the nodes in this file
    #[arg(long, short = 'F', value_name = "FILE", conflicts_with = "nodelist",
          value_parser = parse_node_file)]
    pub(crate) nodefile: Option<NodeList>,
    /// Run on none of these nodes
    #[arg(long, short = 'x', value_name = "NODES", value_parser = parse_node_list)]
    pub(crate) exclude: Option<NodeList>,
    #[arg(long, value_name = "NAME",
          help = super::with_policies("Scheduling policy: selects a partition that runs it"))]
    pub(crate) sched: Option<String>,
    /// Partition, or several with commas: the first that can start the job now, else the one with
    /// the fewest waiting jobs
    #[arg(long, short, value_name = "P")]
    pub(crate) partition: Option<String>,
    /// Time limit: 90s, 10m, 1h30m, or MM, MM:SS, HH:MM:SS, D-HH, D-HH:MM:SS
    #[arg(long, short, value_name = "T", value_parser = crate::duration::parse_time_limit)]
    pub(crate) time: Option<Duration>,
    /// Signal the processes before the time limit, 60 s or T seconds: USR1, USR2@90. With B: the
    /// script of `storm batch` gets it alone, else its steps do, not the script
    #[arg(long, value_name = "[B:]SIGNAL[@T]", value_parser = parse_early_signal)]
    pub(crate) signal: Option<EarlySignal>,
    /// Wait for this reservation, and run on its nodes
    #[arg(long, value_name = "NAME")]
    pub(crate) reservation: Option<String>,
    /// Name of the job [default: that of the program]
    #[arg(long, short = 'J', alias = "job-name", value_name = "NAME", value_parser = visible_name)]
    pub(crate) name: Option<String>,
    /// Comment that `storm show` and `storm hist --json` have
    #[arg(long, value_name = "TEXT")]
    pub(crate) comment: Option<String>,
    /// Key under which you count the job; kept as the comment is
    #[arg(long, value_name = "KEY")]
    pub(crate) wckey: Option<String>,
    /// Put the job back in the queue if one of its nodes dies, or if it is preempted and its
    /// quality of service says requeue
    #[arg(long, overrides_with = "no_requeue")]
    pub(crate) requeue: bool,
    /// Do not, whatever a line of the script says
    #[arg(long, overrides_with = "requeue")]
    pub(crate) no_requeue: bool,
    /// Working directory of the processes [default: the current one]
    #[arg(long, short = 'D', value_name = "DIR")]
    pub(crate) chdir: Option<PathBuf>,
    /// Variables the processes get: ALL, NONE, or a list of NAME and NAME=VALUE [default: ALL]
    #[arg(long, value_name = "ALL|NONE|LIST",
          value_parser = OsStringValueParser::new().try_map(ExportArgument::parse))]
    pub(crate) export: Option<ExportArgument>,
    /// End all processes as soon as one exits with another status than 0
    #[arg(long)]
    pub(crate) kill_on_bad_exit: bool,
    /// Bind each process to a core of its own while there are free cores [default: none]
    #[arg(long, value_name = "core|none", hide_possible_values = true)]
    pub(crate) bind: Option<BindArgument>,
    /// How the processes join their job: pmi1 (MPICH), pmix (Open MPI), or auto, which looks at
    /// the libraries of the program [default: auto]
    #[arg(long, value_name = "auto|pmi1|pmix", env = storm_nm::MPI_TYPE_VARIABLE,
          hide_env = true, hide_possible_values = true)]
    pub(crate) mpi: Option<MpiArgument>,

    /// Write standard output to files on the nodes
    #[arg(long, short, value_name = "F", help_heading = "Input and output")]
    pub(crate) output: Option<OsString>,
    /// Write standard error to other files than standard output
    #[arg(long, short, value_name = "F", help_heading = "Input and output")]
    pub(crate) error: Option<OsString>,
    /// Append to output files that exist, or empty them [default: empty those of one process]
    #[arg(
        long,
        value_name = "append|truncate",
        hide_possible_values = true,
        help_heading = "Input and output"
    )]
    pub(crate) open_mode: Option<OpenModeArgument>,
    /// Which processes read standard input [default: 0 when followed, else none]
    #[arg(long, value_name = "none|0|all", help_heading = "Input and output")]
    pub(crate) input: Option<InputArgument>,
    /// Have the processes read this file of their node [as --output: %j, %A, %a, %r, %n]
    #[arg(long, value_name = "FILE", conflicts_with = "input", help_heading = "Input and output")]
    pub(crate) stdin: Option<OsString>,
    /// Put the rank at the start of each line of output
    #[arg(long, short, conflicts_with = "output", help_heading = "Input and output")]
    pub(crate) label: bool,
    /// Return when the job has ended, with its exit status (submit)
    #[arg(long, short = 'W', help_heading = "Input and output")]
    pub(crate) wait: bool,

    /// Run this shell command by the nodes' /bin/sh, instead of a program
    #[arg(long, value_name = "LINE", conflicts_with_all = ["program", "no_bcast"],
          help_heading = "Files")]
    pub(crate) wrap: Option<OsString>,
    /// PROGRAM exists on every node: do not copy it
    #[arg(long, help_heading = "Files")]
    pub(crate) no_bcast: bool,
    /// Copy FILE to every node: into the job's directory there, or to DEST
    #[arg(long, value_name = "FILE[:DEST]", help_heading = "Files",
          value_parser = OsStringValueParser::new().try_map(BcastArgument::parse))]
    pub(crate) bcast: Vec<BcastArgument>,

    #[command(flatten)]
    pub(crate) needs: NeedsOptions,
    #[command(flatten)]
    pub(crate) service: ServiceOptions,
    #[command(flatten)]
    pub(crate) cluster: ClusterOptions,
    #[command(flatten)]
    pub(crate) embedded: EmbeddedOptions,

    /// Program and its arguments
    // Without `allow_hyphen_values`, which would take `-n4` for the program's name.
    #[arg(value_name = "PROGRAM [ARGS]", required_unless_present = "wrap", num_args = 1..,
          trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments)]
    pub(crate) program: Vec<OsString>,
    /// The script that was read for these options. Not an option itself.
    #[arg(skip)]
    pub(crate) script: Option<ScriptText>,
    /// Whether the program or the command runs once, not in each process. Not an option: the verb
    /// or the script says it.
    #[arg(skip)]
    pub(crate) once: bool,
}

impl JobOptions {
    /// An option that makes no sense in a line of a script, if there is one.
    pub(crate) fn of_command_line(&self) -> Option<&'static str> {
        let JobOptions { cluster, embedded, .. } = self;
        let given = [
            ("--socket", cluster.socket.is_some()),
            ("--manager", cluster.manager.is_some()),
            ("--key", cluster.key.is_some()),
            ("--nodes", embedded.nodes.is_some()),
            ("--pes", embedded.pes.is_some()),
            ("--quantum", embedded.quantum.is_some()),
            ("--param", !embedded.params.is_empty()),
            ("--wrap", self.wrap.is_some()),
            ("--no-bcast", self.no_bcast),
            ("--label", self.label),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }

    /// Takes a `--sched NAME` at the end of the command line as an option of ours. Applies only if
    /// NAME is a policy and no `--` separates the program's arguments. People write the option
    /// there, and no known program has one like it. The second value tells whether it was taken.
    pub(crate) fn with_trailing_sched(mut self) -> (JobOptions, bool) {
        let [_, .., option, name] = self.program.as_slice() else { return (self, false) };
        let known = |name: &&str| crate::config::policies().canonical(name).is_some();
        let policy = name.to_str().filter(known);
        let (Some(policy), None) = (policy, &self.sched) else { return (self, false) };
        if option != "--sched" || self.program.iter().any(|argument| argument == "--") {
            return (self, false);
        }
        self.sched = Some(policy.to_owned());
        self.program.truncate(self.program.len() - 2);
        (self, true)
    }
}

/// Which processes read standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputArgument {
    /// None of them.
    None,
    /// Rank 0.
    #[value(name = "0")]
    RankZero,
    /// All of them; each reads the whole input.
    All,
}

/// Treatment of output files that exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OpenModeArgument {
    /// All processes append.
    #[value(alias = "a")]
    Append,
    /// The files are emptied.
    #[value(alias = "t")]
    Truncate,
}

/// Where a process may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BindArgument {
    /// On one core.
    Core,
    /// Anywhere the kernel chooses.
    None,
}

/// A file to ship.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BcastArgument {
    /// The file here.
    pub(crate) file: PathBuf,
    /// The absolute path on the nodes, if given.
    pub(crate) destination: Option<OsString>,
}

/// The argument is not `FILE[:DEST]`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotABcast {
    #[error("a file is expected before the colon")]
    NoFile,
    #[error("the destination {} is not an absolute path", .0.display())]
    Relative(OsString),
}

impl BcastArgument {
    fn parse(text: OsString) -> Result<BcastArgument, NotABcast> {
        let bytes = text.as_bytes();
        // The last ":/" separates: a file's name may hold colons of its own.
        let colon = bytes.windows(2).rposition(|pair| pair == b":/");
        let (file, destination) = match colon {
            Some(at) => (&bytes[..at], Some(OsStr::from_bytes(&bytes[at + 1..]).to_owned())),
            None => (bytes, None),
        };
        if file.is_empty() {
            return Err(NotABcast::NoFile);
        }
        let file = PathBuf::from(OsStr::from_bytes(file));
        if destination.is_none()
            && !file.exists()
            && let Some(at) = bytes.iter().rposition(|&byte| byte == b':')
        {
            return Err(NotABcast::Relative(OsStr::from_bytes(&bytes[at + 1..]).to_owned()));
        }
        Ok(BcastArgument { file, destination })
    }
}
