//! The letters in names of output files that are known at submission. Nodes replace the others.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The name with `%x` as the job's name and `%u` as the submitter's. Slurm's `%N` (node) and `%t`
/// (task) become `%n` and `%r`.
pub(super) fn known_at_submission(name: &OsStr, job: &str, user: &str) -> OsString {
    let mut known = Vec::with_capacity(name.len());
    let mut bytes = name.as_bytes().iter().copied();
    // A slash would make a directory of the name's first part.
    let plain = |text: &str| text.replace('%', "%%").replace('/', "_").into_bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            known.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'x') => known.extend(plain(job)),
            Some(b'u') => known.extend(plain(user)),
            Some(b'N') => known.extend(b"%n"),
            Some(b't') => known.extend(b"%r"),
            Some(other) => known.extend([b'%', other]),
            None => known.push(b'%'),
        }
    }
    OsString::from_vec(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_put_in_and_the_letters_of_slurm_become_ours() {
        let known = |name: &str| known_at_submission(name.as_ref(), "a/b 5%", "ada");
        assert_eq!(known("%x-%j.%u"), "a_b 5%%-%j.ada");
        assert_eq!(known("%N_%t_%J%%x%"), "%n_%r_%J%%x%");
        assert_eq!(known("%A_%a.out"), "%A_%a.out");
    }
}
