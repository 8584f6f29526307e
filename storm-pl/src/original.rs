//! A program that was copied here, and stands here already.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::Path;

/// Compared at a time.
const BLOCK_BYTES: usize = 64 << 10;

/// Whether `original` has the bytes of the program `copy`, so that it can be executed in its place
/// and finds what lies beside it. False where one of them cannot be read.
///
/// To be asked as the user whose job it is: it opens what the user names.
pub fn has_same_content(original: &Path, copy: &Path) -> bool {
    is_same(original, copy).unwrap_or(false)
}

fn is_same(original: &Path, copy: &Path) -> io::Result<bool> {
    // Before it is opened: what is no file may make whoever opens it wait.
    let found = std::fs::metadata(original)?;
    let expected = std::fs::metadata(copy)?;
    if !is_candidate(&found, &expected) {
        return Ok(false);
    }
    let (mut original, mut copy) = (File::open(original)?, File::open(copy)?);
    let (mut ours, mut theirs) = (vec![0; BLOCK_BYTES], vec![0; BLOCK_BYTES]);
    let mut left = expected.len();
    while left > 0 {
        let length = left.min(BLOCK_BYTES as u64) as usize;
        original.read_exact(&mut ours[..length])?;
        copy.read_exact(&mut theirs[..length])?;
        if ours[..length] != theirs[..length] {
            return Ok(false);
        }
        left -= length as u64;
    }
    Ok(true)
}

fn is_candidate(found: &Metadata, expected: &Metadata) -> bool {
    found.is_file() && expected.is_file() && found.len() == expected.len()
}

#[cfg(test)]
mod tests {
    use super::has_same_content;
    use std::fs;

    #[test]
    fn only_the_same_bytes_are_the_same_program() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        let mut content = vec![7; 200_000];
        fs::write(path("copy"), &content).expect("written");
        fs::write(path("same"), &content).expect("written");
        content[199_999] = 8;
        fs::write(path("edited"), &content).expect("written");
        fs::write(path("shorter"), &content[..199_998]).expect("written");
        assert!(has_same_content(&path("same"), &path("copy")));
        for other in ["edited", "shorter", "nowhere", "."] {
            assert!(!has_same_content(&path(other), &path("copy")), "{other}");
        }
        let pipe = path("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        // That nobody writes to.
        assert!(!has_same_content(&pipe, &path("copy")));
    }
}
