//! File names with `%j`, `%r`, `%n` and `%%`, as `--output` takes them.

use storm_rm::{JobId, OsBytes, Rank};

/// Expands the pattern of an output file: `%j` is the job, `%r` the rank, `%n`
/// the node's name, `%%` a percent sign. Anything else stays as it is.
pub fn expand_pattern(pattern: &OsBytes, job: JobId, rank: Rank, node_name: &str) -> OsBytes {
    let mut name = Vec::with_capacity(pattern.as_bytes().len() + 16);
    let mut bytes = pattern.as_bytes().iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        let replacement = match (byte, bytes.peek()) {
            (b'%', Some(b'j')) => job.to_string(),
            (b'%', Some(b'r')) => rank.to_string(),
            (b'%', Some(b'n')) => node_name.to_owned(),
            (b'%', Some(b'%')) => "%".to_owned(),
            (other, _) => {
                name.push(other);
                continue;
            }
        };
        bytes.next();
        name.extend_from_slice(replacement.as_bytes());
    }
    OsBytes::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(pattern: &str) -> String {
        let name = expand_pattern(&pattern.into(), JobId(7), Rank(12), "n3");
        name.to_string_lossy().into_owned()
    }

    #[test]
    fn the_letters_and_the_percent_sign_are_replaced() {
        assert_eq!(expand("job-%j-%r.txt"), "job-7-12.txt");
        assert_eq!(expand("%n/%j.%%r"), "n3/7.%r");
        assert_eq!(expand("%%%j%"), "%7%");
        assert_eq!(expand("50%x"), "50%x");
    }
}
