//! Translates options of sbatch(1) in a script to options of `storm submit`.
//!
//! The table of options is that of `storm-slurm`. This module does not apply them. The user does,
//! and sees which ones have no counterpart.

use super::asked::{Asked, words};
use std::ffi::OsString;
use storm_slurm::Verb;
use storm_slurm::options::{Given, Item, Meaning, OptionReader, UsageError, job_words};

/// The options in these lines, each line without its `#SBATCH`.
pub(super) fn asked<'a>(lines: impl IntoIterator<Item = &'a str>) -> Asked {
    let mut asked = Asked::default();
    for line in lines {
        let words = words(line).into_iter().map(OsString::from);
        let mut reader = OptionReader::new(Verb::Sbatch, words);
        while let Some(item) = reader.next_item() {
            match item {
                Ok(Item::Option(given)) => {
                    let written = given.written.clone();
                    match given.checked().ok().and_then(|given| counterpart(&given)) {
                        Some(option) => asked.take(option, &written),
                        None => asked.leave(&written),
                    }
                }
                Ok(Item::Operand(word)) => asked.leave(&word.to_string_lossy()),
                Err(error) => asked.leave(&typed(&error)),
            }
        }
    }
    asked
}

/// The words of storm's equivalent option, if there is one.
pub(super) fn counterpart(given: &Given) -> Option<Vec<String>> {
    if given.option.is("wait") {
        return Some(vec!["--wait".to_owned()]);
    }
    let words = job_words(Verb::Sbatch, given);
    let words = words.into_iter().map(|word| word.to_string_lossy().into_owned());
    let words: Vec<String> = words.collect();
    (!words.is_empty()).then_some(words)
}

/// Whether an option says how to run or to report, not what to run: the job is right without it.
pub(super) fn is_harmless(given: &Given) -> bool {
    match given.option.meaning {
        Meaning::Harmless(_) | Meaning::Only(..) => true,
        // A time without limit is what a job has without the option.
        Meaning::ActsAs(_) => true,
        Meaning::Acts => ["quiet", "parsable"].iter().any(|name| given.option.is(name)),
        Meaning::Refused(_) => false,
    }
}

/// The word that is wrong.
fn typed(error: &UsageError) -> String {
    match error {
        UsageError::UnknownName(word) | UsageError::NotAnOption(word) => word.clone(),
        UsageError::Ambiguous { typed, .. } => typed.clone(),
        UsageError::UnknownLetter(letter) | UsageError::LetterWithoutValue(letter) => {
            format!("-{letter}")
        }
        UsageError::NameWithoutValue(name) | UsageError::ValueNotAllowed(name) => {
            format!("--{name}")
        }
        UsageError::Refused { written, .. } => written.clone(),
        UsageError::WrongValue(wrong) => wrong.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_options_become_ours() {
        let asked = asked([
            " --job-name=\"a b\" -N 2   # two nodes",
            "--ntasks=64 --time=1-12:00:00",
            "-c4 --mem=16G -p batch",
            "--exclusive",
            "-q high -o out-%j.txt --array=0-9%2",
        ]);
        assert_eq!(
            asked.options().join(" "),
            "-J 'a b' -N 2 -n 64 -t 1-12:00:00 -c 4 --mem 16G -p batch --exclusive --qos high \
             -o out-%j.txt -a 0-9%2"
        );
        assert_eq!(asked.left, Vec::<String>::new());
    }

    #[test]
    fn options_that_storm_lacks_are_named_as_written() {
        let asked = asked([
            "--gres=gpu:2 --nice -G 1 -n 4",
            "--nodes=4-2",
            "--output=%b.out -N 4-2",
            "--mail-type=END",
            "-n",
            "--exclusive=user",
        ]);
        assert_eq!(asked.options(), ["--nice", "100", "-n", "4"]);
        let left = "--gres=gpu:2, -G 1, --nodes=4-2, --output=%b.out, -N 4-2, --mail-type=END, \
                    -n, --exclusive=user";
        assert_eq!(asked.left.join(", "), left);
    }

    #[test]
    fn nothing_is_asked_of_lines_without_options() {
        assert_eq!(asked(["", "  # a comment"]), Asked::default());
    }
}
