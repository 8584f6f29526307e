//! What a script asks of another resource manager, as options of `storm submit`.
//!
//! What this does not do: take them. The user does, and sees what has no counterpart.

use crate::cli::{Cli, Command};
use std::ffi::OsString;
use storm_nm::check_pattern;

/// What a script asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    /// As storm writes it, option by option.
    taken: Vec<Vec<String>>,
    /// As the script writes it: storm has nothing of the kind, or takes no such value.
    pub(super) left: Vec<String>,
}

impl Asked {
    /// Notes an option of storm, or that it does not take this one, which the script has `written`.
    /// An option that is there twice has its last value.
    pub(super) fn take(&mut self, option: Vec<String>, written: &str) {
        if is_taken(&option) {
            self.taken.retain(|earlier| earlier.first() != option.first());
            self.taken.push(option);
        } else {
            self.leave(written);
        }
    }

    /// As [`take`](Self::take), of an option with a value.
    pub(super) fn take_value(&mut self, name: &str, value: impl Into<String>, written: &str) {
        self.take(vec![name.to_owned(), value.into()], written);
    }

    /// As [`take`](Self::take), of an option without.
    pub(super) fn take_bare(&mut self, name: &str) {
        self.take(vec![name.to_owned()], name);
    }

    /// Notes what has no counterpart.
    pub(super) fn leave(&mut self, written: &str) {
        self.left.push(written.to_owned());
    }

    /// The value that an option of storm has by now.
    pub(super) fn value_of(&self, name: &str) -> Option<&str> {
        let option = self.taken.iter().find(|option| option[0] == name)?;
        option.get(1).map(String::as_str)
    }

    /// The words to type.
    pub(super) fn options(&self) -> Vec<String> {
        self.taken.iter().flatten().map(|word| quoted(word)).collect()
    }
}

/// Whether storm takes the option with this value.
fn is_taken(option: &[String]) -> bool {
    if let [name, pattern] = option
        && matches!(name.as_str(), "-o" | "-e")
    {
        return check_pattern(&OsString::from(pattern).into()).is_ok();
    }
    // There it is a choice of several, of which the first to start the job takes it.
    if let [name, partitions] = option
        && name == "-p"
        && partitions.contains(',')
    {
        return false;
    }
    // What another option has to go with is in the script, or the user will be told.
    let with: &[&str] = match option.first().map(String::as_str) {
        Some("--kill-on-invalid-dep") => &["-d", "singleton"],
        Some(_) | None => &[],
    };
    let words = ["storm", "submit"].into_iter().chain(option.iter().map(String::as_str));
    let words = words.chain(with.iter().copied()).chain(["--", "program"]);
    matches!(
        Cli::of(words.map(OsString::from).collect()),
        Ok(Cli { command: Command::Submit(_), .. })
    )
}

/// A word as a shell takes it.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+/.,:@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The words of a line up to a comment, with the quotes of a shell.
pub(super) fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if c == '#' && word.is_none() => break,
            None if c == '"' || c == '\'' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}
