//! Translates options of flux-batch(1) in a script (Flux RFC 36) to options of `storm submit`.

use super::asked::Asked;

/// Letter and name of a Flux option with a value, and storm's option.
const WITH_VALUE: &[(&str, &str, &str)] = &[
    ("-n", "--nslots", "-n"),
    ("", "--ntasks", "-n"),
    ("-N", "--nodes", "-N"),
    ("-c", "--cores-per-slot", "-c"),
    ("", "--cores-per-task", "-c"),
    ("", "--tasks-per-node", "--ntasks-per-node"),
    ("-t", "--time-limit", "-t"),
    ("-q", "--queue", "-p"),
    ("-B", "--bank", "-A"),
    ("", "--job-name", "-J"),
    ("", "--cwd", "-D"),
    ("", "--output", "-o"),
    ("", "--error", "-e"),
    ("", "--dependency", "-d"),
    ("", "--begin-time", "-b"),
];
/// Letters of options that have a value and no counterpart.
const FOREIGN_LETTERS: &[&str] = &["-g", "-o", "-S", "-O"];

/// The options in these lines, each line without its `#flux:`.
pub(super) fn asked<'a>(lines: impl IntoIterator<Item = &'a str>) -> Asked {
    Asked::read(lines, |asked, word, words| {
        if matches!(word.as_str(), "-x" | "--exclusive") {
            return asked.take_bare("--exclusive");
        }
        let (option, at_it) = split(&word);
        let known = WITH_VALUE
            .iter()
            .find(|(letter, name, _)| option == *name || !letter.is_empty() && option == *letter);
        let mut value = || at_it.map(str::to_owned).or_else(|| words.next());
        match known.map(|(_, _, ours)| (*ours, value())) {
            Some((ours, Some(value))) => {
                let written =
                    if word.ends_with(&value) { word.clone() } else { format!("{word} {value}") };
                asked.take_value(ours, converted(ours, &value), &written);
            }
            Some((_, None)) => asked.leave(&word),
            None if FOREIGN_LETTERS.contains(&word.as_str()) => {
                let value = words.next().unwrap_or_default();
                asked.leave(&format!("{word} {value}"));
            }
            None => asked.leave(&word),
        }
    })
}

/// An option and the value attached to it: `--nodes=2`, `-N2`.
fn split(word: &str) -> (&str, Option<&str>) {
    match word.split_once('=') {
        Some((name, value)) if name.starts_with("--") => (name, Some(value)),
        _ if !word.starts_with("--") && word.len() > 2 && word.is_char_boundary(2) => {
            let (letter, value) = word.split_at(2);
            (letter, Some(value))
        }
        _ => (word, None),
    }
}

fn converted(ours: &str, value: &str) -> String {
    match ours {
        "-o" | "-e" => value.replace("{{id}}", "%j"),
        _ => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_options_become_ours() {
        let asked = asked([
            "-N2 -n 8 --cores-per-slot=4 -t 30m",
            "--job-name=wave --output=out.{{id}}.txt -q batch -x",
            "--dependency=afterok:7 --setattr=user.a=1 -g 1",
        ]);
        assert_eq!(
            asked.options().join(" "),
            "-N 2 -n 8 -c 4 -t 30m -J wave -o out.%j.txt -p batch --exclusive -d afterok:7"
        );
        assert_eq!(asked.left.join(", "), "--setattr=user.a=1, -g 1");
    }
}
