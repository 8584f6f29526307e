//! Options of Slurm, and of `mpiexec`, that storm has not: what to use in their place. The parser would propose
//! whatever is spelt like them.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Of `submit` and `run`: the names of an option, and what to do without it.
const OF_JOBS: &[(&[&str], &str)] = &[
    (
        &["--nodelist", "-w"],
        "nodes are not asked for by name: `--constraint` asks for their features, `--reservation` \
         for those that are reserved",
    ),
    (
        &["--exclude", "-x"],
        "nodes are not left out by name: `--constraint` asks for features; an administrator can \
         `storm drain` a node",
    ),
    (
        &["--gres", "--gpus", "-G", "--gpus-per-node", "--gpus-per-task"],
        "devices are not counted: `--constraint` asks for nodes that have some, `--exclusive` has \
         no other job there",
    ),
    (
        &["--pty"],
        "a job gets no terminal: `storm run` brings its output here and takes input there",
    ),
    (
        &["--signal"],
        "no signal comes before the time limit: `storm cancel JOB --signal USR1` sends one",
    ),
    (&["-i"], "`storm run ... < FILE`, and `--input` says which processes read it"),
    (&["--open-mode"], "%j in the name of a file of output gives each job its own"),
    (&["--mail-type", "--mail-user"], "no mail is sent: `storm wait JOB; mail ...`"),
    (&["--parsable"], "`--quiet` prints the number alone, `--json` has it as `id`"),
    (
        &["--test-only"],
        "nothing is tried out: `storm explain JOB` has when a job that waits should start",
    ),
    (&["--comment"], "a job has no comment: `--name` says what it is"),
    (
        &["--licenses", "-L"],
        "licenses are not counted: `--dependency singleton` has your jobs of one name run one at a \
         time, `--array 0-99%4` four at once",
    ),
    (&["--cpu-bind", "--bind-to"], "`--bind core` gives each process a core of its own"),
    (&["--np", "--n"], "`-n 4` is four processes"),
    (
        &["--ppn", "--npernode", "--map-by", "--distribution"],
        "`--ntasks-per-node 2` has two processes on each node",
    ),
    (
        &["--host", "--hosts", "--hostfile", "--machinefile"],
        "the cluster has nodes of its own: `storm nodes` lists them, `--constraint` asks for their features",
    ),
    (&["--oversubscribe"], "it is not needed: jobs take turns as their policy has it"),
    (&["--unbuffered", "-u"], "it is not needed: output comes here as it is written"),
    (
        &["--kill-on-bad-exit", "-K"],
        "a process that dies amid MPI ends its job; processes without it run on, and the highest status is the job's",
    ),
    (&["--env", "--genv", "-genv"], "`--export NAME=VALUE,ALL` sets variables"),
];

/// Of `hist`.
const OF_HISTORY: &[(&[&str], &str)] = &[(
    &["--since", "--starttime", "-S", "--until", "--endtime", "-E"],
    "there is no range of times: `--limit N` has the latest, `--json` has when each began and ended",
)];

/// Commands of other resource managers, and what does the same.
const VERBS: &[(&[&str], &str)] = &[
    (&["sbatch", "qsub", "bsub", "batch"], "`storm submit`"),
    (&["srun", "salloc", "mpirun", "mpiexec", "qrsh"], "`storm run`"),
    (&["squeue", "qstat", "bjobs", "list", "ls", "ps"], "`storm queue`"),
    (&["scancel", "qdel", "bkill", "kill"], "`storm cancel`"),
    (&["sinfo", "pbsnodes", "bhosts"], "`storm nodes`, and `storm partition` for partitions"),
    (&["sacct", "history"], "`storm hist`, and `storm show JOB` for one job"),
    (&["scontrol", "sstat", "status"], "`storm show JOB`, `storm nodes`, `storm partition`"),
    (&["sprio"], "`storm priority`"),
    (&["sshare"], "`storm shares`"),
];

/// The parser's error with the tip that belongs there, if it is about such an option of `verb`.
pub(crate) fn with_tip(mut error: clap::Error, verb: Option<&str>) -> clap::Error {
    if error.kind() == ErrorKind::InvalidSubcommand {
        let meant = |(names, _): &&(&[&str], &str)| verb.is_some_and(|verb| names.contains(&verb));
        if let Some((_, ours)) = VERBS.iter().find(meant) {
            error.remove(ContextKind::SuggestedSubcommand);
            let tip = vec![format!("{ours} does that").into()];
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tip));
        }
        return error;
    }
    let table = match verb {
        Some("submit" | "run") => OF_JOBS,
        Some("hist") => OF_HISTORY,
        Some(_) | None => return error,
    };
    let tip = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(typed)) if error.kind() == ErrorKind::UnknownArgument => {
            let meant = |(names, _): &&(&[&str], &str)| names.contains(&typed.as_str());
            table.iter().find(meant).map(|(_, tip)| *tip)
        }
        Some(_) | None => None,
    };
    if let Some(tip) = tip {
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}
