//! The help of Slurm's commands, which comes from the table of options.

use crate::failure::{EXIT_USAGE, Failure};
use std::ffi::OsStr;
use storm_slurm::Verb;
use storm_slurm::options::{self, Meaning, SlurmOption, Value};

/// The text of `--help`: the options that are accepted.
pub(super) fn of(verb: Verb) -> String {
    let operands = match verb {
        Verb::Sbatch => " script [args...]",
        Verb::Srun | Verb::Salloc => " [command [args...]]",
        Verb::Scancel => " [job_id[_array_id][.step_id]]",
        Verb::Scontrol | Verb::Sacctmgr | Verb::Sreport => " [command]",
        Verb::Sbcast => " SOURCE DEST",
        Verb::Sattach => " <jobid.stepid>",
        _ => "",
    };
    let mut text = format!("Usage: {verb} [OPTIONS...]{operands}\n\nOptions that count here:\n");
    let counts = |option: &&SlurmOption| {
        matches!(option.meaning, Meaning::Acts | Meaning::ActsAs(_) | Meaning::Only(..))
    };
    for option in options::of(verb).filter(counts) {
        text += &format!("  {}\n", spelling(option));
    }
    text + &format!(
        "\n`storm slurm options {verb}` lists all options, and why some are refused. The same by\n\
         storm: `{} --help`.\n",
        verb.of_storm()
    )
}

/// An option as in a manual.
pub(super) fn spelling(option: &SlurmOption) -> String {
    let letter = option.letter.map_or_else(|| "    ".to_owned(), |letter| format!("-{letter}, "));
    let name = option.names().next().map(|name| format!("--{name}")).unwrap_or_default();
    let letter = if name.is_empty() { letter.trim_end_matches(", ").to_owned() } else { letter };
    let value = match option.value {
        Value::No => String::new(),
        Value::Needed(kind) => format!("={}", kind.placeholder()),
        Value::Optional(kind) => format!("[={}]", kind.placeholder()),
    };
    format!("{letter}{name}{value}")
}

/// No command of Slurm's has this name.
pub(super) fn no_such_verb(name: &OsStr) -> Failure {
    let names: Vec<&str> = Verb::ALL.iter().map(|verb| verb.name()).collect();
    Failure::new("usage", format!("{} is no command of Slurm's that storm has", name.display()))
        .hint(format!("there are {}", names.join(", ")))
        .exit(EXIT_USAGE)
}
