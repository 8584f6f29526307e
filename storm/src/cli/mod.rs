//! The command line: every verb and option, and their help.
//!
//! This module does not access the system. Its values are what the user typed; [`crate::command`]
//! interprets them.

mod backend_options;
mod batch_options;
mod change_options;
mod cluster_options;
mod completion_options;
mod count;
mod daemon_options;
pub(crate) mod defaults;
mod export_argument;
mod job_name;
mod job_options;
mod key_options;
mod list_options;
mod model_options;
mod nap_options;
mod needs_options;
mod node_list;
mod one_verb;
mod partition_options;
mod pmix_options;
mod replay_options;
mod reproduce_options;
mod reservation_options;
mod service_options;
mod signal_argument;
mod sim_options;
mod slurm_options;
mod slurm_verb_options;
mod step_name;
mod wait_options;
mod workload_options;

pub(crate) use backend_options::{Backend, BackendOptions, RdmaMulticast};
pub(crate) use batch_options::BatchOptions;
pub(crate) use change_options::{
    NewDependency, NewLimit, RequeueOptions, SuspendOptions, UpdateOptions,
};
pub(crate) use cluster_options::{ClusterOptions, DownOptions, EmbeddedOptions, UpOptions};
pub(crate) use completion_options::CompletionOptions;
pub(crate) use count::NodeCount;
pub(crate) use daemon_options::{MmOptions, NmOptions, NodeAddress, RelayAt, RelayOptions};
pub(crate) use export_argument::ExportArgument;
pub(crate) use job_name::JobName;
pub(crate) use job_options::{
    BcastArgument, BindArgument, InputArgument, JobOptions, OpenModeArgument,
};
pub(crate) use key_options::{KeyCommand, KeyOptions};
pub(crate) use list_options::{
    CancelOptions, DrainOptions, HistOptions, JobArgument, NodesOptions, QueueOptions,
    ResumeOptions, WhichJobs,
};
pub(crate) use model_options::{
    CalibrateOptions, CompareOptions, FanOutArgument, ModelCommand, ModelOptions, PredictOptions,
    SizeOptions, TableArgument,
};
pub(crate) use nap_options::NapOptions;
pub(crate) use needs_options::{DependencyArgument, NeedsOptions, YesNo};
pub(crate) use node_list::parse_node_list;
pub(crate) use partition_options::{HoldOptions, PartitionCommand, PartitionOptions};
pub(crate) use pmix_options::{MpiArgument, PmixOptions};
pub(crate) use replay_options::{EventOrderArgument, ReplayOptions};
pub(crate) use reproduce_options::ReproduceOptions;
pub(crate) use reservation_options::{
    ReservationCommand, ReservationOptions, ReserveOptions, Start,
};
pub(crate) use service_options::{PriorityOptions, ServiceOptions, SharesOptions};
pub(crate) use signal_argument::parse_signal;
pub(crate) use sim_options::SimOptions;
pub(crate) use slurm_options::{instead_of, with_tip};
pub(crate) use slurm_verb_options::{LinksOptions, SlurmCommand, SlurmOptions};
pub(crate) use step_name::JobOrStep;
pub(crate) use wait_options::WaitOptions;
pub(crate) use workload_options::{LublinArguments, WorkloadModel, WorkloadOptions};

use clap::{Args, Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  storm submit -n 256 ./sweep3d      run on a cluster, or on an embedded one
  storm up --nodes 8                 keep a cluster of 8 nodes on this machine
  storm run -n 4 --label hostname    run on it and follow the output
  storm batch -N 2 job.sh            run a script once, on the first of 2 nodes
  storm queue                        what runs and waits
  storm explain 7                    why job 7 does not run
  storm wait 7                       until it has ended, with its exit status
  storm down                         end the kept cluster

Which cluster: --socket or --manager, else STORM_SOCKET, else STORM_MANAGER, else the
one kept by `storm up`, else /run/storm/mm.sock; `submit` and `run` without any of them
use an embedded one. From another host, with a key that `storm key client` made for you:
  storm run --manager head:7118 -n 4 hostname

Exit status:
  of a job that is followed or waited for: its highest, 128+N if signal N ended a process, 143 if
  it was cancelled, preempted or at its time limit
  0 done   1 refused or failed   2 wrong usage   130 interrupted
  124 `storm wait --timeout` was over
  125 storm itself failed while it followed a job, or its standard input cannot be read
  126 the program cannot be executed   127 it was not found";

/// Launches and gang-schedules parallel jobs on a cluster.
#[derive(Debug, Parser)]
#[command(name = "storm", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) display: DisplayOptions,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The help text with the names of the policies that this program was built with.
fn with_policies(help: &str) -> String {
    format!("{help} [policies: {}]", crate::config::policies().listing())
}

/// How results are shown.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct DisplayOptions {
    /// Print results and errors as JSON
    #[arg(long, global = true, display_order = 900)]
    pub(crate) json: bool,
    /// Print only what is needed: ids and states, no headers, no progress; --json counts before it
    #[arg(long, short, global = true, display_order = 901)]
    pub(crate) quiet: bool,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Submit a job; without a cluster, run it on an embedded one
    Submit(Box<JobOptions>),
    /// Run a job and follow it until it ends
    Run(Box<JobOptions>),
    /// Submit a script that runs once, on the first node of its job
    Batch(Box<BatchOptions>),
    /// Wait until jobs have ended
    Wait(WaitOptions),
    /// List jobs that wait or run
    Queue(QueueOptions),
    /// Show everything about a job
    Show(JobArgument),
    /// Tell why a job is not running
    Explain(JobArgument),
    /// End jobs, or send them a signal
    Cancel(CancelOptions),
    /// Keep jobs that wait from starting
    Hold(HoldOptions),
    /// Let held jobs go
    Release(HoldOptions),
    /// Have running jobs wait again, and run from their beginning
    Requeue(RequeueOptions),
    /// Stop the processes of running jobs; for administrators
    Suspend(SuspendOptions),
    /// Let suspended jobs continue; for administrators
    ResumeJob(SuspendOptions),
    /// Change jobs that wait or run
    Update(UpdateOptions),
    /// Show how urgent the jobs that wait are, and why
    Priority(PriorityOptions),
    /// Show the shares of accounts and users, and what they have used
    Shares(SharesOptions),
    /// List the nodes
    Nodes(NodesOptions),
    /// List the partitions, or change one while it is at work
    Partition(PartitionOptions),
    /// Reserve nodes for some time, or list what is reserved
    Reservation(ReservationOptions),
    /// Stop nodes from taking further jobs
    Drain(DrainOptions),
    /// Let drained nodes take jobs again
    Resume(ResumeOptions),
    /// List jobs that have ended
    Hist(HistOptions),
    /// Start a cluster on this machine and keep it
    Up(UpOptions),
    /// End the cluster that `up` keeps, and all of its jobs
    Down(DownOptions),
    /// Make the key of a cluster or of a user, or show which key a file holds
    Key(KeyOptions),
    /// Ask the analytic model: predict, size and compare machines
    Model(Box<ModelOptions>),
    /// Run a scenario on a simulated machine, under one seed or many
    Sim(SimOptions),
    /// Reproduce the paper's tables and figures, beside what the paper prints
    Reproduce(ReproduceOptions),
    /// Replay a machine's log of jobs in virtual time, and measure how well they are served
    Replay(Box<ReplayOptions>),
    /// Generate a log from a workload model
    Workload(WorkloadOptions),
    /// Run a Machine Manager: the daemon of a cluster
    Mm(MmOptions),
    /// Run a Node Manager: the daemon of a node
    Nm(NmOptions),
    /// Run a relay: the daemon of a login host
    Relay(RelayOptions),
    /// Be one of Slurm's commands, make their names, or list their options
    Slurm(SlurmOptions),
    /// Do nothing, as a job of a live replay
    #[command(hide = true)]
    Nap(NapOptions),
    /// Become a rank of a job that joins it through PMIx
    #[command(hide = true, name = "__pmix")]
    Pmix(PmixOptions),
    /// Print a script that lets a shell complete command lines
    Completion(CompletionOptions),
    /// Print the version
    Version,
}

#[cfg(test)]
mod documented;
#[cfg(test)]
mod tests;
