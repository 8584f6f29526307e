//! Options in a script for another resource manager, translated to options of `storm submit`.
//!
//! This module does not apply them. The user does, and sees which ones have no counterpart.

use super::output_name::known_at_submission;
use crate::cli::{Cli, Command};
use std::ffi::OsString;
use storm_nm::check_pattern;

/// The options of a script.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    /// The options in storm's spelling, each with its value.
    taken: Vec<Vec<String>>,
    /// The options in the script's spelling for which storm has no option, or that value is not
    /// valid.
    pub(super) left: Vec<String>,
}

impl Asked {
    /// The options in these lines, each line without its marker. `each` gets the first word of an
    /// option and takes the option's values from the words that follow in the line.
    pub(super) fn read<'a>(
        lines: impl IntoIterator<Item = &'a str>,
        mut each: impl FnMut(&mut Asked, String, &mut dyn Iterator<Item = String>),
    ) -> Asked {
        let mut asked = Asked::default();
        for line in lines {
            let mut words = words(line).into_iter();
            while let Some(word) = words.next() {
                each(&mut asked, word, &mut words);
            }
        }
        asked
    }

    /// Adds an option of storm, or `written`, the script's spelling, if storm does not take the
    /// option with this value. A second value of an option replaces the first.
    pub(super) fn take(&mut self, option: Vec<String>, written: &str) {
        if is_taken(&option) {
            self.taken.retain(|earlier| earlier.first() != option.first());
            self.taken.push(option);
        } else {
            self.leave(written);
        }
    }

    /// Adds an option with a value; see [`take`](Self::take).
    pub(super) fn take_value(&mut self, name: &str, value: impl Into<String>, written: &str) {
        self.take(vec![name.to_owned(), value.into()], written);
    }

    /// Adds an option without a value; see [`take`](Self::take).
    pub(super) fn take_bare(&mut self, name: &str) {
        self.take(vec![name.to_owned()], name);
    }

    /// Adds an option without a counterpart.
    pub(super) fn leave(&mut self, written: &str) {
        self.left.push(written.to_owned());
    }

    /// The value that an option of storm has so far.
    pub(super) fn value_of(&self, name: &str) -> Option<&str> {
        let option = self.taken.iter().find(|option| option[0] == name)?;
        option.get(1).map(String::as_str)
    }

    /// The words that the user is to type.
    pub(super) fn options(&self) -> Vec<String> {
        self.taken.iter().flatten().map(|word| quoted(word)).collect()
    }
}

/// Whether storm takes the option with this value.
fn is_taken(option: &[String]) -> bool {
    if let [name, pattern] = option
        && matches!(name.as_str(), "-o" | "-e")
    {
        return check_pattern(&known_at_submission(pattern.as_ref(), "", "").into()).is_ok();
    }
    // An option that needs another is checked with it. If the script lacks the other option, the
    // user gets an error later.
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

/// A word, quoted for a shell if needed.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+/.,:@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The words of a line up to a comment, split and unquoted as by a shell.
pub(super) fn words(line: &str) -> Vec<String> {
    split(line).0
}

/// The words of a line as by [`words`], and the quote that is open at its end.
pub(super) fn split(line: &str) -> (Vec<String>, Option<char>) {
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
    (words, quote)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_unquoted() {
        assert_eq!(words("'it is' \"\" a'b'c"), ["it is", "", "abc"]);
    }
}
