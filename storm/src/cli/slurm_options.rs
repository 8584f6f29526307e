//! Options of Slurm and `mpiexec` that storm lacks, each with what to use instead. Without this
//! table, the parser would propose the option with the most similar spelling.

use super::Cli;
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// For `submit` and `run`: the names of an option, and what to do instead.
const OF_JOBS: &[(&[&str], &str)] = &[
    (
        &["--gres", "--gpus", "-G", "--gpus-per-node", "--gpus-per-task"],
        "devices are not counted: `--constraint` asks for nodes that have some, `--exclusive` has \
         no other job there",
    ),
    (
        &["--pty"],
        "a job gets no terminal: `storm run` brings its output here and takes input there",
    ),
    (&["-i"], "`storm run ... < FILE`, and `--input` says which processes read it"),
    (&["--mail-type", "--mail-user"], "no mail is sent: `storm wait JOB; mail ...`"),
    (&["--parsable"], "`--quiet` prints the number alone, `--json` has it as `id`"),
    (
        &["--test-only"],
        "nothing is tried out: `storm explain JOB` says when a waiting job should start",
    ),
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
    (&["--env", "--genv", "-genv"], "`--export NAME=VALUE,ALL` sets variables"),
];

/// For `hist`.
const OF_HISTORY: &[(&[&str], &str)] = &[(
    &["--since", "--starttime", "-S", "--until", "--endtime", "-E"],
    "there is no range of times: `--limit N` lists the latest, `--json` has when each began and \
     ended",
)];

/// For `queue`.
const OF_QUEUE: &[(&[&str], &str)] = &[
    (&["--jobs", "--job", "-j"], "give jobs without an option: `storm queue 7 8`"),
    (
        &["--format", "--Format", "-o", "-O", "--long", "-l"],
        "the columns are fixed: `--json` has everything, `storm show JOB` all of one job",
    ),
    (&["--noheader"], "`--quiet` prints no header"),
    (&["--iterate", "-i"], "`watch storm queue` looks again and again, `storm wait JOB` waits"),
    (&["--start"], "`storm explain JOB` says when a waiting job should start"),
    (&["--sort", "-S"], "jobs are listed by number: use `--json` and jq for another order"),
    (
        &["--name", "-n", "--account", "-A", "--qos", "-q", "--nodelist", "-w"],
        "jobs are chosen by number, `--user`, `--state` and `--partition`; `--json` has the rest",
    ),
    (&["--states"], "`--state PENDING,RUNNING`; `--all` has those that have ended as well"),
];

/// For `model`.
const OF_MODEL: &[(&[&str], &str)] = &[(
    &["--quantum-cost", "--switch-cost"],
    "`--cost 2` says how much of a time slice its switch may take, in percent (size)",
)];

/// For `cancel`.
const OF_CANCEL: &[(&[&str], &str)] = &[
    (&["--jobs", "--job", "-j"], "give jobs without an option: `storm cancel 7 8`"),
    (
        &["--name", "--jobname", "-n", "--account", "-A", "--qos", "-q", "--nodelist", "-w"],
        "jobs are chosen by number, `--user`, `--state` and `--partition`; `storm queue --json` has the \
         rest",
    ),
    (
        &["--interactive", "-i"],
        "`storm cancel` asks no question: `storm queue` with the same options lists the jobs first",
    ),
    (&["--batch", "-b", "--full", "-f"], "it is not needed: all processes of the job are meant"),
    (&["-9", "-KILL", "-TERM", "-INT"], "`--signal 9` or `--signal INT` sends a signal"),
];

/// Commands of other resource managers, and the equivalent here.
const VERBS: &[(&[&str], &str)] = &[
    (&["sbatch", "qsub", "bsub"], "`storm batch SCRIPT`"),
    (&["srun", "salloc", "mpirun", "mpiexec", "qrsh"], "`storm run`"),
    (&["squeue", "qstat", "bjobs", "list", "ls", "ps"], "`storm queue`"),
    (&["scancel", "qdel", "bkill", "kill"], "`storm cancel`"),
    (&["sinfo", "pbsnodes", "bhosts"], "`storm nodes`, and `storm partition` for partitions"),
    (&["sacct", "history"], "`storm hist`, and `storm show JOB` for one job"),
    (
        &["scontrol", "sstat", "status"],
        "`storm show JOB`, `storm nodes`, `storm partition`, `storm update JOB`",
    ),
    (&["sprio"], "`storm priority`"),
    (&["sshare"], "`storm shares`"),
];

/// The advice for an option for jobs that storm lacks.
pub(crate) fn instead_of(option: &str) -> Option<&'static str> {
    OF_JOBS.iter().find(|(names, _)| names.contains(&option)).map(|(_, tip)| *tip)
}

/// Adds a tip to the parser's error if the error is about an option in the tables, or about an
/// option whose name is part of another's. `words` are the words after the program's name.
pub(crate) fn with_tip(mut error: clap::Error, words: &[String]) -> clap::Error {
    let verb = words.iter().map(String::as_str).find(|word| !word.starts_with('-'));
    if error.kind() == ErrorKind::InvalidSubcommand {
        let meant = |(names, _): &&(&[&str], &str)| verb.is_some_and(|verb| names.contains(&verb));
        if let Some((_, ours)) = VERBS.iter().find(meant) {
            error.remove(ContextKind::SuggestedSubcommand);
            let tip = vec![format!("{ours} does that").into()];
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tip));
        }
        return error;
    }
    if error.kind() == ErrorKind::MissingSubcommand {
        hide_internal_verbs(&mut error);
        return error;
    }
    let typed = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(typed)) if error.kind() == ErrorKind::UnknownArgument => {
            typed.clone()
        }
        Some(_) | None => return error,
    };
    let table = match verb {
        Some("submit" | "run" | "batch") => OF_JOBS,
        Some("queue") => OF_QUEUE,
        Some("cancel") => OF_CANCEL,
        Some("hist") => OF_HISTORY,
        Some("model") => OF_MODEL,
        Some(_) | None => &[],
    };
    if is_negative_number(&typed) {
        // The parser proposes `-- -5`, by which the number becomes the program.
        error.remove(ContextKind::Suggested);
        if let Some(option) = option_before(&typed, words) {
            let tip = vec![format!("{option} takes no negative value").into()];
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tip));
        }
        return error;
    }
    let meant = |(names, _): &&(&[&str], &str)| names.contains(&typed.as_str());
    let known = table.iter().find(meant).map(|(_, tip)| (*tip).to_owned());
    if let Some(tip) = known.or_else(|| akin(&error, &typed, words)) {
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Takes the verbs that only STORM itself uses out of the parser's list.
fn hide_internal_verbs(error: &mut clap::Error) {
    let shown =
        |name: &String| Cli::command().find_subcommand(name).is_none_or(|verb| !verb.is_hide_set());
    if let Some(ContextValue::Strings(verbs)) = error.get(ContextKind::ValidSubcommand) {
        let verbs = verbs.iter().filter(|name| shown(name)).cloned().collect();
        error.insert(ContextKind::ValidSubcommand, ContextValue::Strings(verbs));
    }
}

fn is_negative_number(typed: &str) -> bool {
    typed
        .strip_prefix('-')
        .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

/// The option whose value was to be the word that begins with `typed`.
fn option_before<'a>(typed: &str, words: &'a [String]) -> Option<&'a str> {
    let at = words.iter().position(|word| word.starts_with(typed))?;
    let before = words.get(at.checked_sub(1)?)?;
    before.starts_with('-').then_some(before.as_str())
}

/// Parts of names as short as this occur in too many options.
const SHORT_PART: usize = 3;

/// The options that share a part of their names with the typed one, and those that the parser finds
/// similar. The parser compares letters. By letters, `--quantum-cost` is far from `--cost`.
fn akin(error: &clap::Error, typed: &str, words: &[String]) -> Option<String> {
    let parts: Vec<&str> = typed.strip_prefix("--")?.split('-').collect();
    let mut command = Cli::command();
    for word in words.iter().filter(|word| !word.starts_with('-')) {
        match command.find_subcommand(word) {
            Some(verb) => command = verb.clone(),
            None => break,
        }
    }
    let shares =
        |long: &&str| long.split('-').any(|part| part.len() > SHORT_PART && parts.contains(&part));
    let options = command.get_arguments().filter(|option| !option.is_hide_set());
    let found = options.filter_map(|option| option.get_long()).filter(shares);
    let mut found: Vec<String> = found.map(|long| format!("--{long}")).collect();
    if found.is_empty() {
        return None;
    }
    let similar = match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(one)) => vec![one.clone()],
        Some(ContextValue::Strings(several)) => several.clone(),
        Some(_) | None => Vec::new(),
    };
    found.extend(similar.into_iter().filter(|one| !found.contains(one)).collect::<Vec<_>>());
    let found: Vec<String> = found.iter().map(|option| format!("'{option}'")).collect();
    Some(match &found[..] {
        [one] => format!("a similar argument exists: {one}"),
        several => format!("some similar arguments exist: {}", several.join(", ")),
    })
}
