//! File names with `%j`, `%A`, `%a`, `%s`, `%r`, `%n`, `%i` and `%%`, as in `--output`. A number
//! before the letter of a number, as in `%4j`, is its width, filled with zeros.

use storm_rm::{ArrayTask, JobId, OsBytes, Rank, StepId};
use thiserror::Error;

/// The values of the letters.
#[derive(Clone, Copy, Debug)]
pub struct FileNameParts<'a> {
    /// `%j`.
    pub job: JobId,
    /// `%A` is the number of its array, or of the job if there is none; `%a` is its index, or 0.
    pub task: Option<ArrayTask>,
    /// `%s`.
    pub step: StepId,
    /// `%r`.
    pub rank: Rank,
    /// `%n`.
    pub node_name: &'a str,
    /// `%i`, the number of the node among those of the step.
    pub node_index: u32,
}

impl<'a> FileNameParts<'a> {
    /// The parts of the only process of a job on this node.
    fn of_one(node_name: &'a str) -> FileNameParts<'a> {
        let (job, step) = (JobId(1), StepId::Number(0));
        FileNameParts { job, task: None, step, rank: Rank(0), node_name, node_index: 0 }
    }
}

/// The widest number.
const MAX_WIDTH: usize = 10;

/// Expands the pattern of an output file. `%%` is a percent sign, and other text stays as it is.
pub fn expand_pattern(pattern: &OsBytes, parts: &FileNameParts<'_>) -> OsBytes {
    let FileNameParts { job, task, step, rank, node_name, node_index } = *parts;
    let mut name = Vec::with_capacity(pattern.as_bytes().len() + 16);
    let mut rest = pattern.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        let (width, letter) = if *byte == b'%' { letter(behind) } else { (0, None) };
        let replacement = match letter {
            Some((b'j', _)) => format!("{:0>width$}", job.to_string()),
            Some((b'A', _)) => {
                format!("{:0>width$}", task.map_or(job, |task| task.array).to_string())
            }
            Some((b'a', _)) => format!("{:0>width$}", task.map_or(0, |task| task.index)),
            Some((b's', _)) => match step {
                StepId::Number(number) => format!("{number:0>width$}"),
                StepId::Batch => step.to_string(),
            },
            Some((b'i', _)) => format!("{node_index:0>width$}"),
            Some((b'r', _)) => format!("{:0>width$}", rank.to_string()),
            Some((b'n', _)) if width == 0 => node_name.to_owned(),
            Some((b'%', _)) if width == 0 => "%".to_owned(),
            Some(_) | None => {
                name.push(*byte);
                continue;
            }
        };
        name.extend_from_slice(replacement.as_bytes());
        rest = letter.map_or(rest, |(_, after)| after);
    }
    OsBytes::from(name)
}

/// The width and the letter behind a percent sign, and the text after the letter.
fn letter(behind: &[u8]) -> (usize, Option<(u8, &[u8])>) {
    let digits = behind.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (width, behind) = behind.split_at(digits);
    let width = std::str::from_utf8(width).ok().and_then(|digits| digits.parse().ok());
    let width = if digits == 0 { 0 } else { width.unwrap_or(MAX_WIDTH).min(MAX_WIDTH) };
    (width, behind.split_first().map(|(letter, after)| (*letter, after)))
}

/// Whether all jobs of an array get the same file by this pattern, and the file keeps data (unlike
/// `/dev/null`).
pub fn names_one_file(pattern: &OsBytes) -> bool {
    let of = |job, index| {
        let task = Some(ArrayTask { array: JobId(1), index });
        let parts = FileNameParts { job: JobId(job), task, ..FileNameParts::of_one("n") };
        expand_pattern(pattern, &parts)
    };
    pattern.as_bytes() != b"/dev/null" && of(2, 1) == of(3, 2)
}

/// Whether several ranks write to a file under this pattern. The job has `procs` ranks, of which
/// `here` are on this node. `/dev/null` keeps nothing and counts as no file.
pub(crate) fn names_file_of_ranks(pattern: &OsBytes, procs: u32, here: u32) -> bool {
    let of = |rank, node_name, node_index| {
        let parts =
            FileNameParts { rank: Rank(rank), node_index, ..FileNameParts::of_one(node_name) };
        expand_pattern(pattern, &parts)
    };
    let ranks = if of(0, "n1", 0) == of(0, "n2", 1) { procs } else { here };
    ranks > 1 && pattern.as_bytes() != b"/dev/null" && of(0, "n1", 0) == of(1, "n1", 0)
}

/// Why a name is not a pattern of output files.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PatternError {
    /// The name is empty.
    #[error("it is empty")]
    Empty,
    /// A percent sign is followed by something else than one of the letters.
    #[error("it contains {0}")]
    Unknown(String),
}

/// Checks that every percent sign of the pattern has a meaning.
///
/// # Errors
/// [`PatternError`] for the first that has none.
pub fn check_pattern(pattern: &OsBytes) -> Result<(), PatternError> {
    if pattern.as_bytes().is_empty() {
        return Err(PatternError::Empty);
    }
    let mut rest = pattern.as_bytes();
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        let behind = &rest[at + 1..];
        match letter(behind) {
            (_, Some((b'j' | b'A' | b'a' | b's' | b'r' | b'i', after))) => rest = after,
            (_, Some((b'n' | b'%', after))) if !behind[0].is_ascii_digit() => rest = after,
            (_, Some((other, _))) => {
                let digits = behind.iter().take_while(|byte| byte.is_ascii_digit()).count();
                let width = String::from_utf8_lossy(&behind[..digits]);
                return Err(PatternError::Unknown(format!("%{width}{}", other.escape_ascii())));
            }
            (_, None) => return Err(PatternError::Unknown("% at its end".to_owned())),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(pattern: &str) -> String {
        expand_task(pattern, None)
    }

    fn expand_task(pattern: &str, task: Option<ArrayTask>) -> String {
        let (rank, node_index) = (Rank(12), 2);
        let parts =
            FileNameParts { job: JobId(7), task, rank, node_index, ..FileNameParts::of_one("n3") };
        let name = expand_pattern(&pattern.into(), &parts);
        name.to_string_lossy().into_owned()
    }

    #[test]
    fn the_letters_and_the_percent_sign_are_replaced() {
        assert_eq!(expand("job-%j-%r.txt"), "job-7-12.txt");
        assert_eq!(expand("%n/%j.%%r"), "n3/7.%r");
        assert_eq!(expand("%%%j%"), "%7%");
        assert_eq!(expand("50%x"), "50%x");
        assert_eq!(expand("%j.%s-%i-%2i-%2s"), "7.0-2-02-00");
        assert_eq!(expand("%A_%a.out"), "7_0.out");
        assert_eq!(expand("%4j-%3r-%02a-%99j"), "0007-012-00-0000000007");
        assert_eq!(expand("%4n-%4"), "%4n-%4");
        let task = ArrayTask { array: JobId(4), index: 15 };
        assert_eq!(expand_task("%A_%a-%j.out", Some(task)), "4_15-7.out");
    }

    #[test]
    fn a_pattern_without_job_and_index_names_one_file() {
        for (pattern, one) in
            [("out", true), ("%A-%r.out", true), ("%j", false), ("%a", false), ("%%a", true)]
        {
            assert_eq!(names_one_file(&pattern.into()), one, "{pattern}");
        }
        assert!(!names_one_file(&"/dev/null".into()));
    }

    #[test]
    fn ranks_share_a_file_unless_each_or_its_node_has_its_own() {
        for (pattern, procs, here, shared) in [
            ("out-%j", 8, 4, true),
            ("out-%j", 8, 1, true),
            ("out-%j", 1, 1, false),
            ("out-%r", 8, 4, false),
            ("out-%n", 8, 4, true),
            ("out-%n", 8, 1, false),
            ("out-%i", 8, 4, true),
            ("out-%i", 8, 1, false),
            ("/dev/null", 8, 8, false),
        ] {
            let found = names_file_of_ranks(&pattern.into(), procs, here);
            assert_eq!(found, shared, "{pattern} {procs} {here}");
        }
    }

    #[test]
    fn meaningless_patterns_are_found() {
        let unknown = |text: &str| Err(PatternError::Unknown(text.to_owned()));
        for (pattern, verdict) in [
            ("%n/%j.%%r", Ok(())),
            ("%A_%a", Ok(())),
            ("", Err(PatternError::Empty)),
            ("a%", unknown("% at its end")),
            ("a%%%q", unknown("%q")),
            ("%é", unknown("%\\xc3")),
        ] {
            assert_eq!(check_pattern(&pattern.into()), verdict, "{pattern}");
        }
    }
}
