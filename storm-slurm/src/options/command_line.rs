//! Command lines, read as getopt_long(3) does for Slurm's commands: bundled letters, values that
//! are attached or the next word, and names that are shortened as long as they are unambiguous.

use super::{Kind, Meaning, SlurmOption, Value, WrongValue};
use crate::Verb;
use lexopt::{Arg, Parser};
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use thiserror::Error;

/// An option that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The row of the table.
    pub option: &'static SlurmOption,
    /// Its value.
    pub value: Option<OsString>,
    /// The option and its value as typed.
    pub written: String,
}

impl Given {
    /// The value as text; empty if there is none.
    pub fn text(&self) -> Cow<'_, str> {
        self.value.as_deref().map(OsStr::to_string_lossy).unwrap_or_default()
    }

    /// Refuses the option if it is refused here with this value, or if the value has not the form
    /// that Slurm wants.
    ///
    /// # Errors
    /// The option cannot be followed.
    pub fn checked(self) -> Result<Given, UsageError> {
        let refused =
            |why: &'static str| UsageError::Refused { written: self.written.clone(), why };
        match self.option.meaning {
            Meaning::Refused(why) => return Err(refused(why)),
            Meaning::Only(values, why) if !values.contains(&&*self.text()) => {
                return Err(refused(why));
            }
            Meaning::Acts | Meaning::ActsAs(_) | Meaning::Only(..) | Meaning::Harmless(_) => {}
        }
        super::values::check(self.option, &self.text())?;
        Ok(self)
    }
}

/// A part of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// An option.
    Option(Given),
    /// A word that is no option.
    Operand(OsString),
}

/// The words of a command line are not right.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UsageError {
    /// A long name that the command lacks.
    #[error("unrecognized option '{0}'")]
    UnknownName(String),
    /// A letter that the command lacks.
    #[error("invalid option -- '{0}'")]
    UnknownLetter(char),
    /// A shortened name that means several options.
    #[error("option '{typed}' is ambiguous; possibilities: {}", quoted(.possible))]
    Ambiguous {
        /// The word.
        typed: String,
        /// The long names that begin with it.
        possible: Vec<&'static str>,
    },
    /// An option lacks its value.
    #[error("option '--{0}' requires an argument")]
    NameWithoutValue(String),
    /// An option lacks its value.
    #[error("option requires an argument -- '{0}'")]
    LetterWithoutValue(char),
    /// An option has a value that is not for it.
    #[error("option '--{0}' doesn't allow an argument")]
    ValueNotAllowed(String),
    /// The option exists in Slurm, and its meaning would be lost here.
    #[error("{written}: {why}")]
    Refused {
        /// The option as typed.
        written: String,
        /// Why, and what to do instead.
        why: &'static str,
    },
    /// The value of an option has the wrong form.
    #[error(transparent)]
    WrongValue(#[from] WrongValue),
    /// A line of a script has a word that is no option.
    #[error("Invalid directive found in batch script: {0}")]
    NotAnOption(String),
}

impl UsageError {
    /// Whether getopt_long(3) found it: Slurm's commands then point to their help.
    pub fn is_of_getopt(&self) -> bool {
        !matches!(
            self,
            UsageError::Refused { .. } | UsageError::WrongValue(_) | UsageError::NotAnOption(_)
        )
    }

    /// The exit status of the commands that make jobs.
    pub fn status_for_jobs(&self) -> u8 {
        match self {
            UsageError::Refused { .. } => 1,
            UsageError::WrongValue(wrong) => wrong.status(),
            _ => 255,
        }
    }
}

fn quoted(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("'--{name}'")).collect();
    names.join(" ")
}

/// Reads words one after another.
#[derive(Debug)]
pub struct OptionReader {
    verb: Verb,
    parser: Parser,
}

impl OptionReader {
    /// A reader of the words behind the command's name.
    pub fn new(verb: Verb, words: impl IntoIterator<Item = OsString>) -> OptionReader {
        let words: Vec<OsString> = words.into_iter().collect();
        OptionReader { verb, parser: Parser::from_args(words) }
    }

    /// The next option or operand. After an error, reading may go on.
    pub fn next_item(&mut self) -> Option<Result<Item, UsageError>> {
        let arg = match self.parser.next() {
            Ok(arg) => arg?,
            // A value that nobody took: next_item() takes the values of all long options.
            Err(_) => return self.next_item(),
        };
        Some(match arg {
            Arg::Value(word) => Ok(Item::Operand(word)),
            Arg::Short(letter) => self.of_letter(letter),
            Arg::Long(name) => {
                let name = name.to_owned();
                self.of_name(&name)
            }
        })
    }

    /// All words that are left, unread.
    pub fn rest(&mut self) -> Vec<OsString> {
        self.parser.raw_args().map(Iterator::collect).unwrap_or_default()
    }

    fn of_letter(&mut self, letter: char) -> Result<Item, UsageError> {
        let option = super::of(self.verb).find(|option| option.letter == Some(letter));
        let option = option.ok_or(UsageError::UnknownLetter(letter))?;
        let written = format!("-{letter}");
        match option.value {
            Value::No => Ok(Item::Option(Given { option, value: None, written })),
            Value::Optional(_) => {
                let value = self.parser.optional_value();
                let shown = value.as_deref().map(OsStr::to_string_lossy).unwrap_or_default();
                let written = format!("{written}{shown}");
                Ok(Item::Option(Given { option, value, written }))
            }
            Value::Needed(_) => {
                let attached = self.parser.optional_value();
                let between = if attached.is_some() { "" } else { " " };
                let value = match attached {
                    Some(value) => value,
                    None => self.next_word().ok_or(UsageError::LetterWithoutValue(letter))?,
                };
                let written = format!("{written}{between}{}", value.to_string_lossy());
                Ok(Item::Option(Given { option, value: Some(value), written }))
            }
        }
    }

    fn of_name(&mut self, typed: &str) -> Result<Item, UsageError> {
        let attached = self.parser.optional_value();
        let shown = attached.as_deref().map(OsStr::to_string_lossy);
        let word = match &shown {
            Some(value) => format!("--{typed}={value}"),
            None => format!("--{typed}"),
        };
        let (name, option) = self.named(typed, &word)?;
        let value = match (option.value, attached) {
            (Value::No, Some(_)) => return Err(UsageError::ValueNotAllowed(name.to_owned())),
            (Value::No | Value::Optional(_), value) => {
                return Ok(Item::Option(Given { option, value, written: word }));
            }
            (Value::Needed(_), Some(value)) => {
                return Ok(Item::Option(Given { option, value: Some(value), written: word }));
            }
            (Value::Needed(_), None) => self.next_word(),
        };
        let value = value.ok_or_else(|| UsageError::NameWithoutValue(name.to_owned()))?;
        let written = format!("{word} {}", value.to_string_lossy());
        Ok(Item::Option(Given { option, value: Some(value), written }))
    }

    /// The next word, even if it looks like an option, as for getopt_long(3).
    fn next_word(&mut self) -> Option<OsString> {
        self.parser.raw_args().ok()?.next()
    }

    /// The option of this name, or the only one whose name begins so.
    fn named(
        &self,
        typed: &str,
        word: &str,
    ) -> Result<(&'static str, &'static SlurmOption), UsageError> {
        let all = || super::of(self.verb).flat_map(|one| one.names().map(move |name| (name, one)));
        if let Some(exact) = all().find(|(name, _)| *name == typed) {
            return Ok(exact);
        }
        let mut found: Vec<_> = all().filter(|(name, _)| name.starts_with(typed)).collect();
        found.sort_by_key(|(name, _)| *name);
        let first = *found.first().ok_or_else(|| UsageError::UnknownName(word.to_owned()))?;
        // Two names of one option are no choice.
        if found.iter().all(|(_, option)| *option == first.1) {
            return Ok(first);
        }
        let possible = found.into_iter().map(|(name, _)| name).collect();
        Err(UsageError::Ambiguous { typed: word.to_owned(), possible })
    }
}

/// A whole command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// The options, in order.
    pub options: Vec<Given>,
    /// The other words. Those of a command that is started have all words behind its name.
    pub operands: Vec<OsString>,
}

impl CommandLine {
    /// Reads the words behind the command's name. Every option is one that the command has; whether
    /// it is refused here is checked as well.
    ///
    /// # Errors
    /// A word is not right, or an option is refused.
    pub fn read(
        verb: Verb,
        words: impl IntoIterator<Item = OsString>,
    ) -> Result<CommandLine, UsageError> {
        let mut reader = OptionReader::new(verb, words);
        let mut line = CommandLine::default();
        while let Some(item) = reader.next_item() {
            match item? {
                Item::Option(given) => line.options.push(given.checked()?),
                Item::Operand(word) => {
                    line.operands.push(word);
                    if verb.has_command() {
                        line.operands.extend(reader.rest());
                        break;
                    }
                }
            }
        }
        Ok(line)
    }

    /// Reads the options of a `#SBATCH` line, which has no operands.
    ///
    /// # Errors
    /// A word is not right, or an option is refused.
    pub fn of_directive(words: Vec<String>) -> Result<Vec<Given>, UsageError> {
        let mut reader = OptionReader::new(Verb::Sbatch, words.into_iter().map(OsString::from));
        let mut options = Vec::new();
        while let Some(item) = reader.next_item() {
            match item? {
                Item::Option(given) => options.push(given.checked()?),
                Item::Operand(word) => {
                    return Err(UsageError::NotAnOption(word.to_string_lossy().into_owned()));
                }
            }
        }
        Ok(options)
    }

    /// Whether the option of this long name was given; a letter, if it has no name.
    pub fn has(&self, name: &str) -> bool {
        self.options.iter().any(|given| given.option.is(name))
    }

    /// The number of times that the option was given.
    pub fn count(&self, name: &str) -> usize {
        self.options.iter().filter(|given| given.option.is(name)).count()
    }

    /// The value of the last option of this name.
    pub fn value(&self, name: &str) -> Option<&OsStr> {
        self.options.iter().rfind(|given| given.option.is(name))?.value.as_deref()
    }

    /// The value of the last option of this name, as text.
    pub fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        self.value(name).map(OsStr::to_string_lossy)
    }

    /// The values of all options of this name, split at commas.
    pub fn list(&self, name: &str) -> Vec<String> {
        let given = self.options.iter().filter(|given| given.option.is(name));
        let parts =
            given.flat_map(|given| given.text().split(',').map(str::to_owned).collect::<Vec<_>>());
        parts.filter(|part| !part.is_empty()).collect()
    }
}

impl Kind {
    /// The word for a value in a listing.
    pub fn placeholder(self) -> &'static str {
        match self {
            Kind::Text => "VALUE",
            Kind::Count => "N",
            Kind::Nodes => "N[-M]",
            Kind::Time => "TIME",
            Kind::Memory => "SIZE",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(verb: Verb, line: &str) -> Result<CommandLine, UsageError> {
        CommandLine::read(verb, line.split(' ').map(OsString::from))
    }

    fn told(verb: Verb, line: &str) -> String {
        read(verb, line).expect_err("it is wrong").to_string()
    }

    #[test]
    fn letters_may_be_bundled_and_names_shortened() {
        let line =
            read(Verb::Sbatch, "-Hn4 --part=a --time 5 -J -x job.sh -n 9 --what").expect("ok");
        let written: Vec<&str> = line.options.iter().map(|one| one.written.as_str()).collect();
        assert_eq!(written, ["-H", "-n4", "--part=a", "--time 5", "-J -x"]);
        assert_eq!(line.operands, ["job.sh", "-n", "9", "--what"]);
        assert_eq!(line.text("partition").as_deref(), Some("a"));
        let line = read(Verb::Scancel, "7 -u ada 8 -- -9").expect("ok");
        assert_eq!(line.operands, ["7", "8", "-9"]);
        assert_eq!(line.list("user"), ["ada"]);
    }

    /// The texts of Debian's Slurm 22.05.
    #[test]
    fn wrong_words_are_told_as_getopt_long_tells_them() {
        assert_eq!(told(Verb::Sbatch, "--frogs=3 x"), "unrecognized option '--frogs=3'");
        assert_eq!(
            told(Verb::Sbatch, "--no x"),
            "option '--no' is ambiguous; possibilities: '--no-kill' '--no-requeue' '--nodefile' \
             '--nodelist' '--nodes'"
        );
        assert_eq!(told(Verb::Sbatch, "-n"), "option requires an argument -- 'n'");
        assert_eq!(told(Verb::Sbatch, "--wrap"), "option '--wrap' requires an argument");
        assert_eq!(told(Verb::Sbatch, "--hold=3 x"), "option '--hold' doesn't allow an argument");
        assert_eq!(told(Verb::Sbatch, "-Z x"), "invalid option -- 'Z'");
    }

    #[test]
    fn wrong_values_are_told_as_slurm_tells_them() {
        let status = |line: &str| {
            let error = read(Verb::Sbatch, line).expect_err("it is wrong");
            (error.to_string(), error.status_for_jobs())
        };
        for (line, text, code) in [
            ("-n x j", "Invalid numeric value \"x\" for --ntasks.", 1),
            ("-n 0 j", "Invalid numeric value \"0\" for --ntasks.", 1),
            ("-t soon j", "Invalid --time specification", 255),
            ("--mem=x j", "Invalid --mem specification", 255),
            ("-N 2-x j", "\"x\" is not a valid node count", 255),
        ] {
            assert_eq!(status(line), (text.to_owned(), code), "{line}");
        }
    }

    #[test]
    fn a_lost_meaning_is_refused_and_a_harmless_option_is_not() {
        let error = read(Verb::Sbatch, "--container=x job.sh").expect_err("refused");
        assert!(matches!(error, UsageError::Refused { .. }), "{error}");
        assert!(error.to_string().starts_with("--container=x: "), "{error}");
        assert!(read(Verb::Sbatch, "--hint=nomultithread --contiguous job.sh").is_ok());
        assert!(read(Verb::Sbatch, "--gres=none job.sh").is_ok());
    }
}
