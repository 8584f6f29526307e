//! What options of sbatch(1) in a script are as options of `storm submit`.
//!
//! Most are written alike. What this does not do: take them; the user does, who sees what there is
//! no counterpart of.

use crate::cli::{Cli, Command};
use std::ffi::OsString;
use storm_nm::check_pattern;

/// What a script asks of Slurm.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// As storm writes it, ready to be typed.
    pub(crate) options: Vec<String>,
    /// As the script writes it: storm has nothing of the kind, or takes no such value.
    pub(crate) left: Vec<String>,
}

/// Letter and name of an option of Slurm, and what storm calls it.
type Known = (&'static str, &'static str, &'static str);

/// Options with a value.
const WITH_VALUE: &[Known] = &[
    ("-n", "--ntasks", "-n"),
    ("-N", "--nodes", "-N"),
    ("", "--ntasks-per-node", "--ntasks-per-node"),
    ("-c", "--cpus-per-task", "-c"),
    ("", "--mem", "--mem"),
    ("", "--mem-per-cpu", "--mem-per-cpu"),
    ("-C", "--constraint", "-C"),
    ("-p", "--partition", "-p"),
    ("-t", "--time", "-t"),
    ("", "--reservation", "--reservation"),
    ("-J", "--job-name", "-J"),
    ("-D", "--chdir", "-D"),
    ("", "--export", "--export"),
    ("-o", "--output", "-o"),
    ("-e", "--error", "-e"),
    ("-b", "--begin", "-b"),
    ("-d", "--dependency", "-d"),
    ("", "--kill-on-invalid-dep", "--kill-on-invalid-dep"),
    ("-a", "--array", "-a"),
    ("-A", "--account", "-A"),
    ("-q", "--qos", "--qos"),
    ("", "--nice", "--nice"),
];
/// Options without.
const BARE: &[Known] = &[
    ("", "--exclusive", "--exclusive"),
    ("", "--requeue", "--requeue"),
    ("-H", "--hold", "--hold"),
    ("-W", "--wait", "--wait"),
];
/// Options of Slurm that have a value and no counterpart: the value is not another option.
const FOREIGN_LETTERS: &[&str] =
    &["-w", "-x", "-G", "-L", "-i", "-k", "-M", "-S", "-m", "-B", "-F"];

/// What the lines ask for, each of them without its `#SBATCH`.
pub(super) fn asked<'a>(lines: impl IntoIterator<Item = &'a str>) -> Asked {
    let mut asked = Asked::default();
    // Of one that is there twice the last counts.
    let mut taken: Vec<Vec<String>> = Vec::new();
    for line in lines {
        let mut words = words(line).into_iter();
        while let Some(word) = words.next() {
            let mut next = || words.next();
            match counterpart(&word, &mut next) {
                Some(option) if is_taken(&option) => {
                    taken.retain(|earlier| earlier.first() != option.first());
                    taken.push(option);
                }
                // Of `-N 2-4` the value is taken already.
                Some(option) => asked.left.push(match option.as_slice() {
                    [_, value] if !word.ends_with(value.as_str()) => format!("{word} {value}"),
                    _ => word,
                }),
                None => asked.left.push(as_written(word, &mut next)),
            }
        }
    }
    asked.options = taken.iter().flatten().map(|word| quoted(word)).collect();
    asked
}

/// The words of an option of storm that does the same; takes its value from `next` where the
/// option is one of ours.
fn counterpart(word: &str, next: &mut impl FnMut() -> Option<String>) -> Option<Vec<String>> {
    let named = |(letter, name, _): &&Known, typed: &str| typed == *letter || typed == *name;
    if let Some((_, _, ours)) = BARE.iter().find(|known| named(known, word)) {
        return Some(vec![(*ours).to_owned()]);
    }
    // There without a value it means a hundred, and what follows is another option.
    if word == "--nice" {
        return Some(vec!["--nice".to_owned(), "100".to_owned()]);
    }
    if let Some((_, _, ours)) = WITH_VALUE.iter().find(|known| named(known, word)) {
        return Some(vec![(*ours).to_owned(), next()?]);
    }
    let (name, value) = match word.split_once('=') {
        Some((name, value)) if name.starts_with("--") => (name, value),
        // As in -n64.
        _ if !word.starts_with("--") && word.is_char_boundary(2) && word.len() > 2 => {
            word.split_at(2)
        }
        _ => return None,
    };
    let (_, _, ours) = WITH_VALUE.iter().find(|known| named(known, name))?;
    Some(vec![(*ours).to_owned(), value.to_owned()])
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

/// An option that is left, with the value that stands behind it.
fn as_written(word: String, next: &mut impl FnMut() -> Option<String>) -> String {
    match FOREIGN_LETTERS.contains(&word.as_str()).then(next).flatten() {
        Some(value) => format!("{word} {value}"),
        None => word,
    }
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
fn words(line: &str) -> Vec<String> {
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
            asked.options.join(" "),
            "-J 'a b' -N 2 -n 64 -t 1-12:00:00 -c 4 --mem 16G -p batch --exclusive --qos high \
             -o out-%j.txt -a 0-9%2"
        );
        assert_eq!(asked.left, Vec::<String>::new());
    }

    #[test]
    fn what_storm_has_not_is_named_as_it_is_written() {
        let asked = asked([
            "--gres=gpu:2 --nice -w n1 -n 4",
            "--nodes=2-4",
            "--output=%x.out -N 2-4",
            "--mail-type=END",
            "-n",
            "--exclusive=user",
        ]);
        assert_eq!(asked.options, ["--nice", "100", "-n", "4"]);
        let left = "--gres=gpu:2, -w n1, --nodes=2-4, --output=%x.out, -N 2-4, --mail-type=END, \
                    -n, --exclusive=user";
        assert_eq!(asked.left.join(", "), left);
    }

    #[test]
    fn nothing_is_asked_of_lines_without_options() {
        assert_eq!(asked(["", "  # a comment"]), Asked::default());
        assert_eq!(words("'it is' \"\" a'b'c"), ["it is", "", "abc"]);
    }
}
