//! The number of the journal's next entry, kept in a file in the journal's directory and written
//! after each commit.
//!
//! A store whose header is damaged silently takes an older state of itself for the latest. This
//! file reveals the loss. It is not synced, for a second sync would double the time of a commit.
//! After a crash of the host the number may be too low, but never too high.

use super::redb_journal::{open_private, seal, unseal};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Sealed together with the number, so that it cannot be taken for an entry's number.
const NAME: &[u8] = b"next entry";
/// Appended to the name of the journal's file.
const SUFFIX: &str = ".next";
/// No file of ours is longer.
const READ_BYTES: usize = 64;

/// The file.
#[derive(Debug)]
pub(super) struct Latest {
    path: PathBuf,
    /// None where it cannot be written.
    file: Option<File>,
}

impl Latest {
    /// Opens the file of the journal at `path`; returns the file and its number. Failures are only
    /// logged, since the journal works without the file.
    pub(super) fn open(path: &Path) -> (Latest, Option<u64>) {
        let mut name = path.as_os_str().to_owned();
        name.push(SUFFIX);
        let path = PathBuf::from(name);
        match open_private(&path) {
            Ok(file) => {
                let next = read(&file);
                (Latest { path, file: Some(file) }, next)
            }
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "how far the journal is, is not noted");
                (Latest { path, file: None }, None)
            }
        }
    }

    /// The entries before `next` are durable.
    pub(super) fn note(&mut self, next: u64) {
        let Some(file) = &self.file else { return };
        let mut record = next.to_le_bytes().to_vec();
        record.extend(seal(next, NAME));
        if let Err(error) = file.write_all_at(&record, 0) {
            let path = self.path.display();
            tracing::warn!(%path, %error, "how far the journal is, is not noted any more");
            self.file = None;
        }
    }
}

/// The number; `None` if the file has none yet, or is damaged.
fn read(file: &File) -> Option<u64> {
    let mut bytes = [0; READ_BYTES];
    let length = file.read_at(&mut bytes, 0).ok()?;
    let (next, sealed) = bytes.get(..length)?.split_first_chunk()?;
    let next = u64::from_le_bytes(*next);
    (unseal(next, sealed)? == NAME).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_was_noted_last_and_nothing_that_was_not() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("journal");
        let (mut latest, before) = Latest::open(&path);
        assert_eq!(before, None);
        for next in [7, 1 << 40] {
            latest.note(next);
            assert_eq!(Latest::open(&path).1, Some(next));
        }
        let file = directory.path().join("journal.next");
        let whole = std::fs::read(&file).expect("it is there");
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&file, damaged).expect("written");
            assert_eq!(Latest::open(&path).1, None, "bit {bit}");
        }
    }
}
