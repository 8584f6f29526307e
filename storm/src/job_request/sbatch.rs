//! Translates options of sbatch(1) in a script to options of `storm submit`.
//!
//! Most are spelt alike. This module does not apply them. The user does, and sees which ones have
//! no counterpart.

use super::asked::Asked;

/// Letter and name of a Slurm option, and storm's option.
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
    ("-w", "--nodelist", "-w"),
    ("-F", "--nodefile", "-F"),
    ("-x", "--exclude", "-x"),
    ("", "--signal", "--signal"),
    ("", "--open-mode", "--open-mode"),
    ("", "--comment", "--comment"),
    ("", "--wckey", "--wckey"),
];
/// Options without a value.
const BARE: &[Known] = &[
    ("", "--exclusive", "--exclusive"),
    ("", "--requeue", "--requeue"),
    ("-H", "--hold", "--hold"),
    ("-W", "--wait", "--wait"),
];
/// Slurm options that have a value and no counterpart. The value must not be read as an option.
const FOREIGN_LETTERS: &[&str] = &["-G", "-L", "-i", "-k", "-M", "-S", "-m", "-B"];

/// The options in these lines, each line without its `#SBATCH`.
pub(super) fn asked<'a>(lines: impl IntoIterator<Item = &'a str>) -> Asked {
    Asked::read(lines, |asked, word, words| {
        let mut next = || words.next();
        match counterpart(&word, &mut next) {
            Some(option) => {
                // The value of `-N 2-4` is a word of its own.
                let written = match option.as_slice() {
                    [_, value] if !word.ends_with(value.as_str()) => format!("{word} {value}"),
                    _ => word,
                };
                asked.take(option, &written);
            }
            None => asked.leave(&as_written(word, &mut next)),
        }
    })
}

/// The words of storm's equivalent option. If there is one, takes its value from `next`.
pub(super) fn counterpart(
    word: &str,
    next: &mut dyn FnMut() -> Option<String>,
) -> Option<Vec<String>> {
    let named = |(letter, name, _): &&Known, typed: &str| typed == *letter || typed == *name;
    if let Some((_, _, ours)) = BARE.iter().find(|known| named(known, word)) {
        return Some(vec![(*ours).to_owned()]);
    }
    // In Slurm, a `--nice` without a value means 100, and the next word is another option.
    if word == "--nice" {
        return Some(vec!["--nice".to_owned(), "100".to_owned()]);
    }
    if let Some((_, _, ours)) = WITH_VALUE.iter().find(|known| named(known, word)) {
        return Some(vec![(*ours).to_owned(), next()?]);
    }
    let (name, value) = match word.split_once('=') {
        Some((name, value)) if name.starts_with("--") => (name, value),
        // A value attached to a letter, as in -n64.
        _ if !word.starts_with("--") && word.is_char_boundary(2) && word.len() > 2 => {
            word.split_at(2)
        }
        _ => return None,
    };
    let (_, _, ours) = WITH_VALUE.iter().find(|known| named(known, name))?;
    Some(vec![(*ours).to_owned(), value.to_owned()])
}

/// An option without a counterpart, with the value that follows it.
fn as_written(word: String, next: &mut impl FnMut() -> Option<String>) -> String {
    match FOREIGN_LETTERS.contains(&word.as_str()).then(next).flatten() {
        Some(value) => format!("{word} {value}"),
        None => word,
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
            "--output=%s.out -N 4-2",
            "--mail-type=END",
            "-n",
            "--exclusive=user",
        ]);
        assert_eq!(asked.options(), ["--nice", "100", "-n", "4"]);
        let left = "--gres=gpu:2, -G 1, --nodes=4-2, --output=%s.out, -N 4-2, --mail-type=END, \
                    -n, --exclusive=user";
        assert_eq!(asked.left.join(", "), left);
    }

    #[test]
    fn nothing_is_asked_of_lines_without_options() {
        assert_eq!(asked(["", "  # a comment"]), Asked::default());
    }
}
