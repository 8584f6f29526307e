//! Names of files of output, as sbatch(1) and srun(1) write them.

use crate::Verb;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The widest number that Slurm pads.
const MAX_WIDTH: usize = 10;

/// The pattern in storm's letters. A batch script is task 0 of step `batch` on the first node.
///
/// `%x` and `%u` stay as they are. A percent sign without a meaning in Slurm is one here.
pub(super) fn in_storm(verb: Verb, pattern: &OsStr) -> OsString {
    let bytes = pattern.as_bytes();
    // A backslash has all letters stay as they are (sbatch(1), "filename pattern").
    if bytes.contains(&b'\\') {
        let plain = bytes.iter().filter(|byte| **byte != b'\\');
        let doubled = plain.flat_map(|byte| match byte {
            b'%' => vec![b'%', b'%'],
            other => vec![*other],
        });
        return OsString::from_vec(doubled.collect());
    }
    let mut name = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        if *byte != b'%' {
            name.push(*byte);
            continue;
        }
        let digits = behind.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (width, behind) = behind.split_at(digits);
        match behind.split_first().and_then(|(letter, after)| Some((of(verb, *letter)?, after))) {
            Some((part, after)) => {
                rest = after;
                name.extend(padded(&part, width));
            }
            None => name.extend(b"%%"),
        }
    }
    OsString::from_vec(name)
}

/// The meaning of a letter.
enum Part {
    /// A letter of storm's that has the same value.
    Letter(&'static [u8]),
    /// This text.
    Text(&'static [u8]),
    /// A number that is 0 here.
    Zero,
}

fn of(verb: Verb, letter: u8) -> Option<Part> {
    let is_script = verb == Verb::Sbatch;
    Some(match letter {
        b'%' => Part::Letter(b"%"),
        b'A' => Part::Letter(b"A"),
        b'a' => Part::Letter(b"a"),
        b'j' => Part::Letter(b"j"),
        b'J' if is_script => Part::Letter(b"j"),
        b'J' => Part::Letter(b"j.%s"),
        b'N' => Part::Letter(b"n"),
        b'u' => Part::Letter(b"u"),
        b'x' => Part::Letter(b"x"),
        // Not known at submission: storm refuses the letter.
        b'b' => Part::Letter(b"b"),
        b'n' if is_script => Part::Zero,
        b'n' => Part::Letter(b"i"),
        b't' if is_script => Part::Zero,
        b't' => Part::Letter(b"r"),
        b's' if is_script => Part::Text(b"batch"),
        b's' => Part::Letter(b"s"),
        _ => return None,
    })
}

fn padded(part: &Part, width: &[u8]) -> Vec<u8> {
    let digits = std::str::from_utf8(width).ok().and_then(|digits| digits.parse().ok());
    let digits: usize = digits.unwrap_or(0).min(MAX_WIDTH);
    match part {
        Part::Text(text) => text.to_vec(),
        Part::Zero => vec![b'0'; digits.max(1)],
        Part::Letter(letter)
            if digits > 0 && matches!(letter, [b'j' | b'A' | b'a' | b'r' | b'i' | b's']) =>
        {
            [format!("%{digits}").as_bytes(), letter].concat()
        }
        Part::Letter(letter) => [b"%", *letter].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_batch(pattern: &str) -> String {
        in_storm(Verb::Sbatch, pattern.as_ref()).to_string_lossy().into_owned()
    }

    /// The names that Slurm 22.05 gave to the files of such jobs.
    #[test]
    fn letters_become_ours() {
        for (slurm, storm) in [
            ("a-%A_%a", "a-%A_%a"),
            ("d-%4j", "d-%4j"),
            ("o-%12j", "o-%10j"),
            ("p-%03j", "p-%3j"),
            ("e-%J", "e-%j"),
            ("f-%N", "f-%n"),
            ("g-%n-%2t", "g-0-00"),
            ("h-%s", "h-batch"),
            ("j-%u-%x", "j-%u-%x"),
            ("l-%%", "l-%%"),
            ("m-%Q%", "m-%%Q%%"),
            ("q-%5", "q-%%5"),
            ("n-\\%j", "n-%%j"),
        ] {
            assert_eq!(of_batch(slurm), storm, "{slurm}");
        }
        assert_eq!(
            in_storm(Verb::Srun, "%j.%s-%t %J %n %2n %N".as_ref()),
            "%j.%s-%r %j.%s %i %2i %n"
        );
    }
}
