//! The options of Slurm's commands: one table, the parser that follows it, and what the options
//! of a job are called in storm.

mod command_line;
mod control;
mod file_pattern;
mod job_words;
mod jobs;
mod lists;
mod merged;
mod values;
mod variables;

pub use command_line::{CommandLine, Given, Item, OptionReader, UsageError};
pub use job_words::job_words;
pub use merged::merged;
pub use values::{Length, WrongValue, seconds};
pub use variables::{NotAValue, of_variables};

use crate::Verb;

/// An option of one or several commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlurmOption {
    /// The commands that have it.
    pub verbs: &'static [Verb],
    /// Its letter.
    pub letter: Option<char>,
    /// Its long name, and further names after `|`; empty if it has only a letter.
    pub names: &'static str,
    /// Whether it has a value.
    pub value: Value,
    /// The effect here.
    pub meaning: Meaning,
}

/// Whether an option has a value, and of which kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// None.
    No,
    /// One, attached or as the next word.
    Needed(Kind),
    /// One, only if attached.
    Optional(Kind),
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Anything.
    Text,
    /// A number above zero.
    Count,
    /// Numbers of nodes, `N` or `MIN-MAX`.
    Nodes,
    /// A length of time, as `MM`, `HH:MM:SS` or `D-HH`.
    Time,
    /// An amount of memory, in MiB if it has no unit.
    Memory,
}

/// The effect of an option here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// As in Slurm.
    Acts,
    /// As in Slurm, for a job: storm's option of the same meaning.
    ActsAs(&'static str),
    /// Only these values, which change nothing here, are accepted; others are refused, because of
    /// the reason.
    Only(&'static [&'static str], &'static str),
    /// Accepted: why a job is right without it.
    Harmless(&'static str),
    /// Refused: why, and what to do in storm.
    Refused(&'static str),
}

impl SlurmOption {
    /// The long name, or the letter if there is none.
    pub fn name(&self) -> String {
        match (self.names().next(), self.letter) {
            (Some(name), _) => name.to_owned(),
            (None, letter) => letter.map(String::from).unwrap_or_default(),
        }
    }

    /// The long names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.names.split('|').filter(|name| !name.is_empty())
    }

    /// Whether this is its long name, or, without any, its letter.
    pub fn is(&self, name: &str) -> bool {
        self.name() == name
    }
}

/// The options of a command.
pub fn of(verb: Verb) -> impl Iterator<Item = &'static SlurmOption> {
    let all = jobs::TABLE.iter().chain(lists::TABLE).chain(control::TABLE);
    all.filter(move |option| option.verbs.contains(&verb))
}

/// Stands for no letter in the table.
const NONE: char = '\0';
const NO: Value = Value::No;
const TEXT: Value = Value::Needed(Kind::Text);
const COUNT: Value = Value::Needed(Kind::Count);
const MAY: Value = Value::Optional(Kind::Text);

/// A row of the table.
const fn row(
    verbs: &'static [Verb],
    letter: char,
    names: &'static str,
    value: Value,
    meaning: Meaning,
) -> SlurmOption {
    let letter = if letter == NONE { None } else { Some(letter) };
    SlurmOption { verbs, letter, names, value, meaning }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_letter_and_no_name_of_a_command_means_two_things() {
        for verb in Verb::ALL {
            let letters: Vec<char> = of(verb).filter_map(|option| option.letter).collect();
            let distinct: BTreeSet<char> = letters.iter().copied().collect();
            assert_eq!(letters.len(), distinct.len(), "{verb}: {letters:?}");
            let names: Vec<&str> = of(verb).flat_map(SlurmOption::names).collect();
            let distinct: BTreeSet<&str> = names.iter().copied().collect();
            assert_eq!(names.len(), distinct.len(), "{verb}: {names:?}");
            assert!(of(verb).any(|option| option.is("version")), "{verb}");
        }
    }
}
