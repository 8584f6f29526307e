//! The names of a job's options in storm: words for the command line of `storm batch` and
//! `storm run`.

use super::file_pattern::in_storm;
use super::values::{Length, seconds};
use super::{Given, Kind, Meaning, Value};
use crate::Verb;
use std::ffi::OsString;

/// In Slurm, `--nice` without a value means 100.
const DEFAULT_NICE: &str = "100";

/// Options that mean nothing with an empty value, as a script has it from a variable that is not
/// set.
const MAY_BE_EMPTY: &[&str] = &[
    "account",
    "array",
    "constraint",
    "dependency",
    "error",
    "exclude",
    "job-name",
    "output",
    "qos",
];

/// The words of storm for an option; none if storm needs none.
pub fn job_words(verb: Verb, given: &Given) -> Vec<OsString> {
    let ours = match given.option.meaning {
        Meaning::ActsAs(ours) => ours,
        // Only the value with the meaning of storm's option is accepted.
        Meaning::Only(..) if given.option.is("exclusive") => return vec!["--exclusive".into()],
        Meaning::Acts | Meaning::Only(..) | Meaning::Harmless(_) | Meaning::Refused(_) => {
            return Vec::new();
        }
    };
    let value = match given.option.value {
        Value::No => return vec![ours.into()],
        Value::Optional(_) | Value::Needed(_) if is_nothing(given) => return Vec::new(),
        Value::Optional(kind) | Value::Needed(kind) => value_in_storm(verb, given, kind),
    };
    match value {
        Words::Nothing => Vec::new(),
        // A value that begins with a dash must not be taken for an option.
        Words::With(value) if value.as_encoded_bytes().starts_with(b"-") => {
            let mut word = OsString::from(ours);
            word.push("=");
            word.push(value);
            vec![word]
        }
        Words::With(value) => vec![ours.into(), value],
    }
}

/// Whether Slurm takes the option with this value as not given.
fn is_nothing(given: &Given) -> bool {
    let name = given.option.name();
    given.text().is_empty() && MAY_BE_EMPTY.contains(&name.as_str())
}

/// How storm writes an option.
enum Words {
    /// Not at all.
    Nothing,
    With(OsString),
}

fn value_in_storm(verb: Verb, given: &Given, kind: Kind) -> Words {
    let text = given.text();
    let as_given = || Words::With(given.value.clone().unwrap_or_default());
    match (given.option.name().as_str(), kind) {
        ("nice", _) if given.value.is_none() => Words::With(DEFAULT_NICE.into()),
        ("mpi", _) => match &*text {
            "none" => Words::With("pmi1".into()),
            "openmpi" | "pmi2" | "cray_shasta" => Words::With("auto".into()),
            mpi if mpi.starts_with("pmix") => Words::With("pmix".into()),
            _ => as_given(),
        },
        ("cpu-bind", _) => match text.split(',').next_back() {
            Some("cores" | "rank") => Words::With("core".into()),
            _ => Words::With("none".into()),
        },
        ("export", _) if text == "NIL" || text.is_empty() => Words::With("NONE".into()),
        // The form of old: after the end of a job.
        ("dependency", _) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Words::With(format!("afterany:{text}").into())
        }
        // No bound on the jobs that run at once.
        ("array", _) => Words::With(text.strip_suffix("%0").unwrap_or(&text).into()),
        ("input", _) if text == "none" => Words::Nothing,
        ("output" | "error" | "input", _) => {
            Words::With(in_storm(verb, given.value.as_deref().unwrap_or_default()))
        }
        (_, Kind::Time) => match seconds(&text) {
            Some(Length::Unlimited) => Words::Nothing,
            // Slurm counts time limits in minutes, and rounds them up.
            Some(Length::Seconds(seconds)) if seconds % 60 != 0 => {
                Words::With(seconds.div_ceil(60).to_string().into())
            }
            Some(Length::Seconds(_)) | None => as_given(),
        },
        // storm has no `GB` of 2^30 bytes.
        (_, Kind::Memory) => Words::With(text.trim_end_matches(['b', 'B']).into()),
        (_, Kind::Nodes) => match text.split_once('-') {
            Some((least, most)) if least == most => Words::With(least.into()),
            _ => as_given(),
        },
        (_, Kind::Text | Kind::Count) => as_given(),
    }
}

#[cfg(test)]
mod tests {
    use crate::Verb;
    use crate::options::CommandLine;

    #[test]
    fn options_of_a_job_are_written_as_storm_wants_them() {
        let words = |line: &str| {
            let words = line.split_whitespace().map(str::to_owned).collect();
            let given = CommandLine::of_directive(words).expect("right");
            let words = given.iter().flat_map(|given| super::job_words(Verb::Sbatch, given));
            words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words("--ntasks=4 -N2 -t 1-12 --mem=1GB"), "-n 4 -N 2 -t 1-12 --mem 1G");
        assert_eq!(words("--nice --nice=-7 --exclusive"), "--nice 100 --nice=-7 --exclusive");
        assert_eq!(words("-i in-%4j --input=none"), "--stdin in-%4j");
        assert_eq!(words("-t 00:00:30 -t 1:30 -t 0:60"), "-t 1 -t 2 -t 0:60");
        assert_eq!(words("--dependency= --account= --job-name= --output= -n 2"), "-n 2");
        assert_eq!(words("-d 7 -a 1-5%0 --export="), "-d afterany:7 -a 1-5 --export NONE");
        assert_eq!(words("-t 0 --hint=x -p a --job-name=b -J -x -o %t"), "-p a -J b -J=-x -o 0");
    }
}
