//! Translates options of LSF's bsub(1) in a script to options of `storm submit`.

use super::asked::Asked;

/// Options without a value.
const BARE: &[&str] = &["-x", "-H", "-r", "-rn", "-B", "-N", "-I", "-Is", "-Ip", "-K"];

/// The options in these lines, each line without its `#BSUB`.
pub(super) fn asked<'a>(lines: impl IntoIterator<Item = &'a str>) -> Asked {
    Asked::read(lines, |asked, word, words| match word.as_str() {
        "-x" => asked.take_bare("--exclusive"),
        "-H" => asked.take_bare("-H"),
        "-r" => asked.take_bare("--requeue"),
        "-rn" => {}
        "-K" => asked.take_bare("--wait"),
        option if BARE.contains(&option) => asked.leave(option),
        option => match words.next() {
            Some(value) => with_value(asked, option, &value),
            None => asked.leave(option),
        },
    })
}

fn with_value(asked: &mut Asked, option: &str, value: &str) {
    let written = format!("{option} {value}");
    match option {
        "-J" => name(asked, value),
        "-n" => asked.take_value("-n", value, &written),
        "-W" => asked.take_value("-t", time(value), &written),
        "-q" => asked.take_value("-p", value, &written),
        "-P" => asked.take_value("-A", value, &written),
        "-o" | "-oo" => asked.take_value("-o", pattern(value), &written),
        "-e" | "-eo" => asked.take_value("-e", pattern(value), &written),
        "-cwd" => asked.take_value("-D", value, &written),
        "-w" => match dependency(value) {
            Some(dependency) => asked.take_value("-d", dependency, &written),
            None => asked.leave(&written),
        },
        "-R" => match value.strip_prefix("span[").and_then(|span| span.strip_suffix(']')) {
            Some("hosts=1") => asked.take_value("-N", "1", &written),
            Some(span) if span.starts_with("ptile=") => {
                asked.take_value("--ntasks-per-node", &span["ptile=".len()..], &written);
            }
            _ => asked.leave(&written),
        },
        _ => asked.leave(&written),
    }
}

/// Takes a name, for an array with its indices: `wave[1-10]%4`.
fn name(asked: &mut Asked, value: &str) {
    let written = format!("-J {value}");
    let Some((name, array)) = value.split_once('[') else {
        return asked.take_value("-J", value, &written);
    };
    if !name.is_empty() {
        asked.take_value("-J", name, &written);
    }
    asked.take_value("-a", array.replacen(']', "", 1), &written);
}

/// Hours and minutes, perhaps followed by a host.
fn time(value: &str) -> String {
    let value = value.split('/').next().unwrap_or_default();
    if value.contains(':') { format!("{value}:00") } else { value.to_owned() }
}

/// A file of output; in LSF `%J` is the job and `%I` the index.
fn pattern(value: &str) -> String {
    value.replace("%J", "%A").replace("%I", "%a")
}

/// Conditions on jobs by number, combined by "all" or by "any": `done(7) && ended(8)`.
fn dependency(value: &str) -> Option<String> {
    let (parts, separator): (Vec<&str>, _) = match value.contains("||") {
        true => (value.split("||").collect(), "?"),
        false => (value.split("&&").collect(), ","),
    };
    let condition = |part: &str| {
        let (word, job) = part.trim().strip_suffix(')')?.split_once('(')?;
        let ours = match word {
            "done" => "afterok",
            "ended" => "afterany",
            "exit" => "afternotok",
            "started" => "after",
            _ => return None,
        };
        Some(format!("{ours}:{job}"))
    };
    let conditions: Option<Vec<String>> = parts.into_iter().map(condition).collect();
    Some(conditions?.join(separator))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_options_become_ours() {
        let asked = asked([
            "-J \"wave[1-10]%4\" -n 64 -W 4:30 -q batch",
            "-R \"span[ptile=8]\" -oo out.%J.%I -x -H",
            "-w \"done(7) && ended(8)\" -P chem",
        ]);
        assert_eq!(
            asked.options().join(" "),
            "-J wave -a 1-10%4 -n 64 -t 4:30:00 -p batch --ntasks-per-node 8 -o out.%A.%a \
             --exclusive -H -d afterok:7,afterany:8 -A chem"
        );
        assert_eq!(asked.left, Vec::<String>::new());
    }

    #[test]
    fn options_that_storm_lacks_are_named_as_written() {
        let asked = asked(["-R rusage[mem=4] -M 4GB -W 90/h1 -N", "-w done(wave)", "-n 2,4"]);
        assert_eq!(asked.options(), ["-t", "90"]);
        assert_eq!(asked.left.join(", "), "-R rusage[mem=4], -M 4GB, -N, -w done(wave), -n 2,4");
    }
}
