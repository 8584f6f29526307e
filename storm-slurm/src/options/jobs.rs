//! The options of sbatch(1), srun(1) and salloc(1).

use super::Meaning::{Acts, ActsAs, Harmless, Only, Refused};
use super::{COUNT, Kind, MAY, NO, NONE, SlurmOption, TEXT, Value, row};
use crate::Verb;
use crate::Verb::{Salloc, Sbatch, Srun};

const JOBS: &[Verb] = &[Sbatch, Srun, Salloc];
const BATCH: &[Verb] = &[Sbatch];
const RUN: &[Verb] = &[Srun];
const ALLOC: &[Verb] = &[Salloc];
const STARTED: &[Verb] = &[Sbatch, Srun];
const FOLLOWED: &[Verb] = &[Srun, Salloc];
const TIME: Value = Value::Needed(Kind::Time);
const MEMORY: Value = Value::Needed(Kind::Memory);

const DEVICES: &str = "devices are not counted: --constraint asks for nodes that have some, \
                       --exclusive has no other job there";
const SHAPE: &str = "nodes are asked for by elements and memory, not by sockets and cores: \
                     --constraint asks for a kind of node";
const SYSTEM: &str = "all elements of a node are for jobs: the administrator says how many there \
                      are";
const MAIL: &str = "no mail is sent, and the submission says it: `storm wait JOB; mail ...`";
const ALLOCATION: &str =
    "an allocation without a script is not there yet: sbatch runs a script in one";
const USER: &str = "a job is its submitter's: submit it as that user";
const BURST: &str =
    "there are no burst buffers: --bcast of `storm batch` copies files to the nodes";
const ORDER: &str = "elements of a job are given out node by node: leave it out, or say block";
const SPEED: &str = "storm leaves the clocks of processors alone";
const HOOKS: &str = "programs around a task are not run: start them in the script";
const MEASURED: &str = "what a job uses is measured anyway";
const RANDOM: &str = "how processes lie on cores is left to the kernel";

/// The options, those of several commands first.
pub(super) const TABLE: &[SlurmOption] = &[
    row(JOBS, 'A', "account", TEXT, ActsAs("-A")),
    row(JOBS, 'b', "begin", TEXT, ActsAs("-b")),
    row(JOBS, 'c', "cpus-per-task", COUNT, ActsAs("-c")),
    row(JOBS, 'C', "constraint", TEXT, ActsAs("-C")),
    row(JOBS, 'd', "dependency", TEXT, ActsAs("-d")),
    row(JOBS, 'D', "chdir|workdir", TEXT, ActsAs("-D")),
    row(JOBS, 'H', "hold", NO, ActsAs("-H")),
    row(JOBS, 'J', "job-name", TEXT, ActsAs("-J")),
    row(JOBS, 'M', "clusters|cluster", TEXT, Acts),
    row(JOBS, 'n', "ntasks", COUNT, ActsAs("-n")),
    row(JOBS, 'N', "nodes", Value::Needed(Kind::Nodes), ActsAs("-N")),
    row(JOBS, 'p', "partition", TEXT, ActsAs("-p")),
    row(JOBS, 'q', "qos", TEXT, ActsAs("--qos")),
    row(JOBS, 'Q', "quiet", NO, Acts),
    row(JOBS, 't', "time", TIME, ActsAs("-t")),
    row(JOBS, 'w', "nodelist", TEXT, ActsAs("-w")),
    row(JOBS, 'x', "exclude", TEXT, ActsAs("-x")),
    row(JOBS, 'F', "nodefile", TEXT, ActsAs("-F")),
    row(JOBS, NONE, "signal", TEXT, ActsAs("--signal")),
    row(JOBS, NONE, "comment", TEXT, ActsAs("--comment")),
    row(JOBS, NONE, "wckey", TEXT, ActsAs("--wckey")),
    row(STARTED, NONE, "open-mode", TEXT, ActsAs("--open-mode")),
    row(
        JOBS,
        NONE,
        "exclusive",
        MAY,
        Only(
            // A variable that stands for the option has some value.
            &["", "exclusive", "1", "yes", "true"],
            "other jobs are kept away whosever they are: --exclusive without a value",
        ),
    ),
    row(JOBS, NONE, "kill-on-invalid-dep", TEXT, ActsAs("--kill-on-invalid-dep")),
    row(JOBS, NONE, "mem", MEMORY, ActsAs("--mem")),
    row(JOBS, NONE, "mem-per-cpu", MEMORY, ActsAs("--mem-per-cpu")),
    row(JOBS, NONE, "nice", MAY, ActsAs("--nice")),
    row(JOBS, NONE, "ntasks-per-node|tasks-per-node", COUNT, ActsAs("--ntasks-per-node")),
    row(JOBS, NONE, "reservation", TEXT, ActsAs("--reservation")),
    row(JOBS, 'h', "help", NO, Acts),
    row(JOBS, NONE, "usage", NO, Acts),
    row(JOBS, 'V', "version", NO, Acts),
    row(STARTED, 'o', "output", TEXT, ActsAs("-o")),
    row(STARTED, 'e', "error", TEXT, ActsAs("-e")),
    row(STARTED, NONE, "export", TEXT, ActsAs("--export")),
    row(BATCH, 'a', "array", TEXT, ActsAs("-a")),
    row(BATCH, 'i', "input", TEXT, ActsAs("--stdin")),
    row(BATCH, NONE, "requeue", NO, ActsAs("--requeue")),
    row(BATCH, NONE, "no-requeue", NO, ActsAs("--no-requeue")),
    row(BATCH, 'W', "wait", NO, Acts),
    row(BATCH, NONE, "wrap", TEXT, Acts),
    row(BATCH, NONE, "parsable", NO, Acts),
    row(RUN, 'l', "label", NO, ActsAs("--label")),
    row(RUN, NONE, "mpi", TEXT, ActsAs("--mpi")),
    row(RUN, NONE, "cpu-bind|cpu_bind", TEXT, ActsAs("--bind")),
    row(RUN, 'i', "input", TEXT, Acts),
    row(RUN, NONE, "jobid", TEXT, Acts),
    row(RUN, 'r', "relative", TEXT, Acts),
    row(RUN, 'I', "immediate", MAY, Acts),
    row(RUN, 'K', "kill-on-bad-exit", MAY, Acts),
    row(RUN, 'O', "overcommit", NO, Acts),
    row(RUN, NONE, "exact", NO, Acts),
    row(RUN, NONE, "overlap", NO, Acts),
    // Accepted: the job is right without them.
    row(JOBS, NONE, "contiguous", NO, Harmless("nodes of a job are near each other anyway")),
    row(JOBS, NONE, "hint", TEXT, Harmless(RANDOM)),
    row(JOBS, NONE, "threads-per-core", TEXT, Harmless(RANDOM)),
    row(JOBS, NONE, "mem-bind|mem_bind", TEXT, Harmless(RANDOM)),
    row(JOBS, NONE, "switches", TEXT, Harmless("it is a preference")),
    row(JOBS, NONE, "prefer", TEXT, Harmless("it is a preference")),
    row(JOBS, NONE, "use-min-nodes", NO, Harmless("the smallest number is taken anyway")),
    row(
        BATCH,
        NONE,
        "wait-all-nodes",
        TEXT,
        Harmless("a job begins when all of its nodes are ready"),
    ),
    row(JOBS, 's', "oversubscribe|share", NO, Harmless("jobs take turns as their policy has it")),
    row(JOBS, 'v', "verbose", NO, Harmless("there is nothing more to tell")),
    row(JOBS, NONE, "acctg-freq", TEXT, Harmless(MEASURED)),
    row(JOBS, NONE, "delay-boot", TEXT, Harmless("no node is started for a job")),
    row(JOBS, NONE, "power", TEXT, Harmless("no node is started for a job")),
    row(JOBS, NONE, "gres-flags", TEXT, Harmless("it is for devices only")),
    row(JOBS, NONE, "gpu-bind", TEXT, Harmless("it is for devices only")),
    row(JOBS, NONE, "time-min", TEXT, Harmless("the job gets all of --time")),
    row(JOBS, NONE, "mail-type", TEXT, Harmless(MAIL)),
    row(JOBS, NONE, "mail-user", TEXT, Harmless(MAIL)),
    row(BATCH, NONE, "ignore-pbs", NO, Harmless("such lines are never read")),
    row(ALLOC, NONE, "bell", NO, Harmless("it makes a sound only")),
    row(ALLOC, NONE, "no-bell", NO, Harmless("it makes a sound only")),
    row(RUN, 'u', "unbuffered", NO, Harmless("output comes as it is written")),
    row(RUN, 'E', "preserve-env", NO, Harmless("it is for steps only")),
    row(RUN, 'T', "threads", TEXT, Harmless("launches are sent down a tree")),
    row(RUN, 'X', "disable-status", NO, Harmless("Ctrl-C ends the job at once")),
    row(RUN, NONE, "quit-on-interrupt", NO, Harmless("Ctrl-C ends the job at once")),
    row(RUN, NONE, "slurmd-debug", TEXT, Harmless("there is nothing more to tell")),
    row(RUN, NONE, "msg-timeout", TEXT, Harmless("the cluster has times of its own")),
    row(RUN, NONE, "compress", MAY, Harmless("the file arrives all the same")),
    row(RUN, NONE, "send-libs", MAY, Harmless("the nodes' own libraries are used")),
    row(RUN, NONE, "bcast-exclude", TEXT, Harmless("libraries are not copied")),
    row(RUN, NONE, "resv-ports", MAY, Harmless("ports are those that the kernel gives")),
    // Values that say what storm does anyway.
    row(
        JOBS,
        'm',
        "distribution",
        TEXT,
        Only(
            &["block", "block:block", "block:block:block", "*", "*:*", "block:cyclic", "Pack"],
            ORDER,
        ),
    ),
    row(JOBS, NONE, "gres", TEXT, Only(&["none", "NONE", "gpu:0"], DEVICES)),
    row(JOBS, 'G', "gpus", TEXT, Only(&["0", "none"], DEVICES)),
    row(JOBS, NONE, "gpus-per-node", TEXT, Only(&["0", "none"], DEVICES)),
    row(JOBS, NONE, "gpus-per-task", TEXT, Only(&["0", "none"], DEVICES)),
    row(JOBS, NONE, "gpus-per-socket", TEXT, Only(&["0", "none"], DEVICES)),
    row(JOBS, NONE, "profile", TEXT, Only(&["none", "None", "NONE"], "no profile is written")),
    row(
        STARTED,
        NONE,
        "propagate",
        MAY,
        Only(
            &["", "ALL"],
            "a job has all limits of the shell that submits it: change them with `ulimit` first",
        ),
    ),
    row(
        JOBS,
        NONE,
        "ntasks-per-core",
        TEXT,
        Only(&["1"], "each task has the elements of --cpus-per-task"),
    ),
    row(RUN, 'W', "wait", TEXT, Only(&["0"], "a job runs until all of its processes have ended")),
    row(
        RUN,
        NONE,
        "bcast",
        MAY,
        Only(
            &[""],
            "the program is copied to the job's own directory: `storm run --bcast FILE:DEST`",
        ),
    ),
    // Refused: the job would be another.
    row(
        JOBS,
        'L',
        "licenses",
        TEXT,
        Refused(
            "licenses are not counted: --dependency=singleton has your jobs of one name run one at a \
         time, --array=0-99%4 four at once",
        ),
    ),
    row(
        JOBS,
        'k',
        "no-kill",
        MAY,
        Refused("a job that loses a node ends: --requeue puts it back in the queue"),
    ),
    row(
        &[Sbatch, Salloc],
        'O',
        "overcommit",
        NO,
        Refused("each task has an element: ask for fewer tasks"),
    ),
    row(JOBS, 'S', "core-spec", TEXT, Refused(SYSTEM)),
    row(JOBS, NONE, "thread-spec", TEXT, Refused(SYSTEM)),
    row(JOBS, 'B', "extra-node-info", TEXT, Refused(SHAPE)),
    row(JOBS, NONE, "sockets-per-node", TEXT, Refused(SHAPE)),
    row(JOBS, NONE, "cores-per-socket", TEXT, Refused(SHAPE)),
    row(JOBS, NONE, "ntasks-per-socket", TEXT, Refused(SHAPE)),
    row(JOBS, NONE, "ntasks-per-gpu", TEXT, Refused(DEVICES)),
    row(JOBS, NONE, "mincpus", TEXT, Refused(SHAPE)),
    row(JOBS, NONE, "tmp", TEXT, Refused("room on disks is not counted: --constraint asks for it")),
    row(JOBS, NONE, "cpus-per-gpu", TEXT, Refused(DEVICES)),
    row(JOBS, NONE, "mem-per-gpu", TEXT, Refused(DEVICES)),
    row(JOBS, NONE, "gpu-freq", TEXT, Refused(SPEED)),
    row(JOBS, NONE, "cpu-freq", TEXT, Refused(SPEED)),
    row(JOBS, NONE, "tres-per-task", TEXT, Refused(DEVICES)),
    row(
        JOBS,
        NONE,
        "priority",
        TEXT,
        Refused("a priority is computed: --nice lowers it, --qos is for urgent jobs"),
    ),
    row(
        JOBS,
        NONE,
        "deadline",
        TEXT,
        Refused(
            "a job has a time limit, no deadline: `storm explain JOB` says when it should start",
        ),
    ),
    row(JOBS, NONE, "reboot", NO, Refused("no node is started for a job")),
    row(JOBS, NONE, "spread-job", NO, Refused("-N asks for a number of nodes")),
    row(JOBS, NONE, "bb", TEXT, Refused(BURST)),
    row(JOBS, NONE, "bbf", TEXT, Refused(BURST)),
    row(
        JOBS,
        NONE,
        "container",
        TEXT,
        Refused("containers are started in the script, by apptainer or podman"),
    ),
    row(
        JOBS,
        NONE,
        "container-id",
        TEXT,
        Refused("containers are started in the script, by apptainer or podman"),
    ),
    row(JOBS, NONE, "mcs-label", TEXT, Refused("jobs have no labels of security")),
    row(JOBS, NONE, "cluster-constraint", TEXT, Refused("there is one cluster")),
    row(JOBS, NONE, "uid", TEXT, Refused(USER)),
    row(JOBS, NONE, "gid", TEXT, Refused(USER)),
    row(JOBS, NONE, "x11", MAY, Refused("no display is passed on: `ssh -X` to the node does that")),
    row(JOBS, NONE, "network", TEXT, Refused("networks are not given to jobs")),
    row(JOBS, NONE, "segment", TEXT, Refused("nodes have no segments")),
    row(BATCH, NONE, "test-only", NO, Acts),
    row(BATCH, NONE, "export-file", TEXT, Refused("--export=NAME=VALUE,... sets variables")),
    row(
        &[Sbatch, Salloc],
        NONE,
        "get-user-env",
        MAY,
        Refused(
            "a job has the environment of the shell that submits it: source the profile in the script",
        ),
    ),
    row(BATCH, NONE, "batch", TEXT, Refused("the script runs on the first node of the job")),
    row(
        ALLOC,
        'I',
        "immediate",
        MAY,
        Refused(
            "a job waits until it can run: `storm submit` and `storm wait --timeout` bound that",
        ),
    ),
    row(
        RUN,
        NONE,
        "test-only",
        NO,
        Refused("nothing is tried out: `storm explain JOB` says when a waiting job should start"),
    ),
    row(
        RUN,
        NONE,
        "pty",
        MAY,
        Refused("a job gets no terminal: `storm run` brings its output here and takes input there"),
    ),
    row(
        RUN,
        NONE,
        "multi-prog",
        NO,
        Refused("a job has one program: a script can choose by STORM_RANK"),
    ),
    row(FOLLOWED, NONE, "het-group", TEXT, Refused("a job has one part: submit several jobs")),
    row(RUN, 'Z', "no-allocate", NO, Refused("processes run in jobs only")),
    row(RUN, NONE, "epilog", TEXT, Refused(HOOKS)),
    row(RUN, NONE, "prolog", TEXT, Refused(HOOKS)),
    row(RUN, NONE, "task-epilog", TEXT, Refused(HOOKS)),
    row(RUN, NONE, "task-prolog", TEXT, Refused(HOOKS)),
    row(RUN, NONE, "debugger-test", NO, Refused("no debugger attaches to a step")),
    row(ALLOC, 'K', "kill-command", MAY, Refused(ALLOCATION)),
    row(ALLOC, NONE, "no-shell", NO, Refused(ALLOCATION)),
];
