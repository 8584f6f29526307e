//! `storm slurm options`: what becomes of each option of Slurm's commands.

use super::help::{no_such_verb, spelling};
use crate::command::print;
use crate::failure::Failure;
use crate::output::{Output, Sheet};
use serde::Serialize;
use storm_slurm::Verb;
use storm_slurm::options::{self, Meaning, SlurmOption, Value};

/// An option, for programs.
#[derive(Serialize)]
struct Row {
    verb: &'static str,
    letter: Option<char>,
    names: Vec<&'static str>,
    /// Whether it has a value.
    value: &'static str,
    /// `acts`, `accepted`, `some-values` or `refused`.
    here: &'static str,
    /// Storm's option of the same meaning.
    storm: Option<&'static str>,
    /// The values that are accepted, if others are not.
    values: Option<&'static [&'static str]>,
    /// Why it is accepted without effect, or refused.
    why: Option<&'static str>,
}

impl Row {
    fn of(verb: Verb, option: &SlurmOption) -> Row {
        let (here, storm, values, why) = match option.meaning {
            Meaning::Acts => ("acts", None, None, None),
            Meaning::ActsAs(ours) => ("acts", Some(ours), None, None),
            Meaning::Only(values, why) => ("some-values", None, Some(values), Some(why)),
            Meaning::Harmless(why) => ("accepted", None, None, Some(why)),
            Meaning::Refused(why) => ("refused", None, None, Some(why)),
        };
        let value = match option.value {
            Value::No => "no",
            Value::Needed(_) => "yes",
            Value::Optional(_) => "optional",
        };
        let names = option.names().collect();
        Row { verb: verb.name(), letter: option.letter, names, value, here, storm, values, why }
    }

    fn told(&self) -> String {
        let values = || self.values.unwrap_or_default().iter().filter(|value| !value.is_empty());
        match (self.storm, self.why) {
            (Some(ours), _) => format!("as {ours} of storm"),
            (None, Some(why)) if values().count() > 0 => {
                let values: Vec<&str> = values().copied().collect();
                format!("only {}: {why}", values.join(", "))
            }
            (None, Some(why)) => why.to_owned(),
            (None, None) => String::new(),
        }
    }
}

/// Lists the options of a command, or of all.
pub(super) fn list(verb: Option<&str>, output: &dyn Output) -> Result<u8, Failure> {
    let verbs = match verb {
        None => Verb::ALL.to_vec(),
        Some(name) => vec![Verb::named(name).ok_or_else(|| no_such_verb(name.as_ref()))?],
    };
    let of_verb = |verb: Verb| options::of(verb).map(move |option| (verb, option));
    let all: Vec<(Verb, &SlurmOption)> = verbs.into_iter().flat_map(of_verb).collect();
    let rows: Vec<Row> = all.iter().map(|(verb, option)| Row::of(*verb, option)).collect();
    let lines = all.iter().zip(&rows).map(|((verb, option), row)| {
        vec![verb.name().to_owned(), spelling(option), row.here.to_owned(), row.told()]
    });
    let lines: Vec<Vec<String>> = lines.collect();
    print(&output.sheet(&Sheet::new(&rows).table(["VERB", "OPTION", "HERE", "WHY"], lines)))?;
    Ok(0)
}
