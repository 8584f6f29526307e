//! Parses the command line with only the options of its verb.
//!
//! Describing all verbs to the parser takes longer than parsing the options of one verb. This
//! module reports no errors and prints no help. If anything is unclear, the full definition parses
//! the words again, so that all messages come from it.

use super::{
    BatchOptions, CancelOptions, Cli, DisplayOptions, DownOptions, DrainOptions, HistOptions,
    HoldOptions, JobArgument, JobOptions, KeyOptions, MmOptions, ModelOptions, NapOptions,
    NmOptions, NodesOptions, PartitionOptions, PmixOptions, PriorityOptions, QueueOptions,
    RelayOptions, ReplayOptions, ReproduceOptions, RequeueOptions, ReservationOptions,
    ResumeOptions, SharesOptions, SimOptions, SlurmOptions, SuspendOptions, UpOptions,
    UpdateOptions, WaitOptions, WorkloadOptions,
};
use clap::{Args, Command, FromArgMatches, Parser};
use std::ffi::OsString;

/// Adds the arguments of a verb to it.
type Arguments = fn(Command) -> Command;

impl Cli {
    /// Parses these words, the first of which is the name of this program.
    ///
    /// # Errors
    /// The words are not understood, or ask for help.
    pub(crate) fn of(words: Vec<OsString>) -> Result<Cli, clap::Error> {
        match of_one_verb(&words) {
            Some(cli) => Ok(cli),
            None => Cli::try_parse_from(for_help(words)),
        }
    }
}

/// Drops the options of the output after `help`, which is a text in every case.
fn for_help(mut words: Vec<OsString>) -> Vec<OsString> {
    if words.get(1).is_some_and(|verb| verb == "help") {
        words.retain(|word| !["--json", "--quiet", "-q"].iter().any(|option| word == option));
    }
    words
}

/// Parses these words with their verb alone. If an option occurs twice, the later one counts.
pub(super) fn overriding(words: Vec<OsString>) -> Result<Cli, clap::Error> {
    let verb = words.iter().skip(1).find(|word| !word.as_encoded_bytes().starts_with(b"-"));
    let Some((name, command)) = verb
        .and_then(|verb| verb.to_str())
        .and_then(|verb| Some((verb.to_owned(), definition(verb)?)))
    else {
        return Cli::try_parse_from(words);
    };
    let command = command.mut_subcommand(name, |verb| verb.args_override_self(true));
    Cli::from_arg_matches_mut(&mut command.try_get_matches_from(words)?)
}

/// The result if the words are right for their verb, else `None`.
fn of_one_verb(words: &[OsString]) -> Option<Cli> {
    // Options before the verb take no value.
    let verb = words.iter().skip(1).find(|word| !word.as_encoded_bytes().starts_with(b"-"))?;
    let mut matches = definition(verb.to_str()?)?.try_get_matches_from(words).ok()?;
    Cli::from_arg_matches_mut(&mut matches).ok()
}

/// The command with this verb and no other.
fn definition(verb: &str) -> Option<Command> {
    // The names come from the table because the parser requires names that live as long as the
    // program.
    let (name, arguments) = VERBS.iter().find(|(name, _)| *name == verb)?;
    let command = DisplayOptions::augment_args(Command::new("storm"));
    Some(command.subcommand_required(true).subcommand(arguments(Command::new(*name))))
}

/// All verbs that have arguments.
const VERBS: [(&str, Arguments); 36] = [
    ("submit", JobOptions::augment_args),
    ("run", JobOptions::augment_args),
    ("batch", BatchOptions::augment_args),
    ("wait", WaitOptions::augment_args),
    ("queue", QueueOptions::augment_args),
    ("show", JobArgument::augment_args),
    ("explain", JobArgument::augment_args),
    ("cancel", CancelOptions::augment_args),
    ("hold", HoldOptions::augment_args),
    ("release", HoldOptions::augment_args),
    ("requeue", RequeueOptions::augment_args),
    ("suspend", SuspendOptions::augment_args),
    ("resume-job", SuspendOptions::augment_args),
    ("update", UpdateOptions::augment_args),
    ("priority", PriorityOptions::augment_args),
    ("shares", SharesOptions::augment_args),
    ("nodes", NodesOptions::augment_args),
    ("partition", PartitionOptions::augment_args),
    ("reservation", ReservationOptions::augment_args),
    ("drain", DrainOptions::augment_args),
    ("resume", ResumeOptions::augment_args),
    ("hist", HistOptions::augment_args),
    ("up", UpOptions::augment_args),
    ("down", DownOptions::augment_args),
    ("key", KeyOptions::augment_args),
    ("model", ModelOptions::augment_args),
    ("sim", SimOptions::augment_args),
    ("reproduce", ReproduceOptions::augment_args),
    ("replay", ReplayOptions::augment_args),
    ("workload", WorkloadOptions::augment_args),
    ("mm", MmOptions::augment_args),
    ("nm", NmOptions::augment_args),
    ("relay", RelayOptions::augment_args),
    ("slurm", SlurmOptions::augment_args),
    ("nap", NapOptions::augment_args),
    ("__pmix", PmixOptions::augment_args),
];

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// Verbs that are not in the table: they have at most one argument, or need all verbs.
    const OTHERS: [&str; 3] = ["completion", "version", "help"];

    #[test]
    fn a_verb_alone_has_the_help_that_it_has_among_all() {
        let mut whole = Cli::command().term_width(100);
        whole.build();
        let verbs: Vec<Command> = whole.get_subcommands().cloned().collect();
        assert_eq!(verbs.len(), VERBS.len() + OTHERS.len());
        for mut among_all in verbs {
            let name = among_all.get_name().to_owned();
            let Some(alone) = definition(&name) else {
                assert!(OTHERS.contains(&name.as_str()), "{name} is parsed the long way");
                continue;
            };
            let about = among_all.get_about().cloned().unwrap_or_default();
            let alone = alone.mut_subcommand(&name, |verb| verb.about(about).long_about(None));
            let mut alone = alone.term_width(100);
            alone.build();
            let alone = alone.find_subcommand_mut(&name).expect("it is its verb");
            for (said, wanted) in [
                (alone.render_help(), among_all.render_help()),
                (alone.render_long_help(), among_all.render_long_help()),
            ] {
                assert_eq!(said.to_string(), wanted.to_string(), "{name}");
            }
        }
    }

    #[test]
    fn valid_lines_mean_the_same_to_both_parsers() {
        let words = |line: &str| line.split_whitespace().map(OsString::from).collect::<Vec<_>>();
        for line in [
            "storm submit -n 4 -t1:30 --sched gang ./a --json -n 3 -- x",
            "storm --json run -N 2 --export NONE ./a",
            "storm -q submit --array 0-9%2 ./a",
            "storm queue --json -t PENDING --user 0",
            "storm cancel 7 8_3 --signal USR1 --quiet",
            "storm partition set-quantum main 10ms",
            "storm key show --json k",
            "storm model predict --nodes 64 --profile x.toml --bytes 12MB",
            "storm workload lublin --seed 4",
            "storm nap 5ms",
        ] {
            let Ok(whole) = Cli::try_parse_from(words(line)) else { panic!("{line} is not right") };
            let alone = of_one_verb(&words(line)).expect(line);
            assert_eq!(format!("{alone:?}"), format!("{whole:?}"), "{line}");
        }
    }

    #[test]
    fn all_else_is_left_to_the_whole_definition() {
        let words = |line: &str| line.split_whitespace().map(OsString::from).collect::<Vec<_>>();
        for line in [
            "storm",
            "storm help submit",
            "storm submit --help",
            "storm --version",
            "storm sbatch x",
            "storm submit --ntask 4 ./a",
            "storm --json=1 queue",
            "storm completion bash",
        ] {
            assert!(of_one_verb(&words(line)).is_none(), "{line}");
        }
        let told = |line: &str| Cli::of(words(line)).expect_err("it is wrong").to_string();
        assert!(told("storm submit --ntask 4 ./a").contains("--ntasks"));
        assert!(told("storm submit --help").contains("Examples:"));
    }
}
