//! The file of a cluster's or a user's key. Files that others than the owner can read are refused.
//!
//! `storm_session` uses the key.

use nix::unistd::geteuid;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use storm_session::{ClientKey, ClusterKey, DoorKey, NotAKey};
use thiserror::Error;
use zeroize::Zeroizing;

/// Longest file that is read: a key and a few lines of comment.
const MAX_FILE_BYTES: u64 = 64 << 10;
/// Mode bits that a key file must not have: those of group and others.
const OTHERS_BITS: u32 = 0o077;

/// A key file that cannot be used or made.
#[derive(Debug, Error)]
#[error("the key file {} cannot be used", file.display())]
pub(crate) struct KeyFileError {
    pub(crate) file: PathBuf,
    /// The problem.
    #[source]
    pub(crate) problem: KeyFileProblem,
}

/// Why a key file cannot be used or made.
#[derive(Debug, Error)]
pub(crate) enum KeyFileProblem {
    #[error("it cannot be read")]
    Read(#[source] io::Error),
    #[error("it is not a file")]
    NotAFile,
    #[error("its mode {mode:04o} gives access to other users; `chmod 600` keeps them out")]
    Exposed { mode: u32 },
    #[error("its owner is user {owner}, but must be root or user {us}, who runs this command")]
    Owner { owner: u32, us: u32 },
    #[error("it is longer than 64 KiB")]
    TooLong,
    #[error(transparent)]
    NotAKey(#[from] NotAKey),
    #[error("it exists; --force replaces it, and the old key is lost")]
    Exists,
    #[error("it cannot be written")]
    Write(#[source] io::Error),
}

/// A kind of key that is kept in a file.
pub(crate) trait Key: FromStr<Err = NotAKey> {
    /// The comment at the top of the file.
    const COMMENT: &str;
    /// The text of the key.
    fn text(&self) -> Zeroizing<String>;
}

impl Key for ClusterKey {
    const COMMENT: &str = "# The key of a STORM cluster. Anybody who has it can command every \
                           node.\n";
    fn text(&self) -> Zeroizing<String> {
        self.to_text()
    }
}

impl Key for ClientKey {
    const COMMENT: &str =
        "# A user's key for a STORM cluster. Anybody who has it can act as that user there.\n";
    fn text(&self) -> Zeroizing<String> {
        self.to_text()
    }
}

impl Key for DoorKey {
    const COMMENT: &str = "# A login host's key for a STORM cluster. Anybody who has it can act as \
                           every user but root there.\n";
    fn text(&self) -> Zeroizing<String> {
        self.to_text()
    }
}

/// Reads a key.
///
/// # Errors
/// [`KeyFileError`], above all when others can read the file.
pub(crate) fn read<K: Key>(path: &Path) -> Result<K, KeyFileError> {
    let us = geteuid().as_raw();
    let trusted = |owner| owner == us || owner == 0;
    read_checked(path, trusted).map_err(|problem| KeyFileError { file: path.to_owned(), problem })
}

/// Reads a key only to identify it. Root may identify a user's key, but not use it.
///
/// # Errors
/// See [`read`].
pub(crate) fn read_to_tell<K: Key>(path: &Path) -> Result<K, KeyFileError> {
    if !geteuid().is_root() {
        return read(path);
    }
    read_checked(path, |_| true).map_err(|problem| KeyFileError { file: path.to_owned(), problem })
}

fn read_checked<K: Key>(path: &Path, trusted: impl Fn(u32) -> bool) -> Result<K, KeyFileProblem> {
    // Opening a pipe without a writer must not block.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(path)
        .map_err(KeyFileProblem::Read)?;
    // Checks the opened file, as the path may name another file by now.
    let found = file.metadata().map_err(KeyFileProblem::Read)?;
    if !found.is_file() {
        return Err(KeyFileProblem::NotAFile);
    }
    if found.mode() & OTHERS_BITS != 0 {
        return Err(KeyFileProblem::Exposed { mode: found.mode() & 0o7777 });
    }
    if !trusted(found.uid()) {
        let (owner, us) = (found.uid(), geteuid().as_raw());
        return Err(KeyFileProblem::Owner { owner, us });
    }
    // Zeroized on drop. The capacity is right from the start, as growing would leave a copy behind.
    let room = found.len().min(MAX_FILE_BYTES) as usize + 1;
    let mut text = Zeroizing::new(String::with_capacity(room));
    let mut bounded = file.take(MAX_FILE_BYTES + 1);
    bounded.read_to_string(&mut text).map_err(KeyFileProblem::Read)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(KeyFileProblem::TooLong);
    }
    Ok(text.parse::<K>()?)
}

/// Writes a key to a new file. With `force`, replaces an existing file, completely or not at all.
///
/// # Errors
/// [`KeyFileError`].
pub(crate) fn write(path: &Path, key: &impl Key, force: bool) -> Result<(), KeyFileError> {
    let problem = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => KeyFileProblem::Exists,
        _ => KeyFileProblem::Write(error),
    };
    let written = if force { replace(path, key) } else { write_new(path, key) };
    written.map_err(|error| KeyFileError { file: path.to_owned(), problem: problem(error) })
}

fn write_new(path: &Path, key: &impl Key) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let written = store(&mut file, key);
    if written.is_err() {
        // A partial key is useless, and the file is ours.
        let _ = fs::remove_file(path);
    }
    written
}

fn store<K: Key>(file: &mut File, key: &K) -> io::Result<()> {
    file.write_all(K::COMMENT.as_bytes())?;
    file.write_all(key.text().as_bytes())?;
    file.sync_all()
}

fn replace(path: &Path, key: &impl Key) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    };
    // Created with mode 0600.
    let mut unfinished = tempfile::NamedTempFile::new_in(directory)?;
    store(unfinished.as_file_mut(), key)?;
    unfinished.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").mode() & 0o7777
    }

    fn new_key() -> ClusterKey {
        ClusterKey::generate().expect("random bytes")
    }

    #[test]
    fn a_key_is_read_as_it_was_written_and_nobody_else_may() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("cluster.key");
        let (first, second) = (new_key(), new_key());
        write(&path, &first, false).expect("written");
        assert_eq!(mode(&path), 0o600);
        assert_eq!(read::<ClusterKey>(&path).expect("as written").id(), first.id());
        let again = write(&path, &second, false).expect_err("never overwritten");
        assert!(matches!(again.problem, KeyFileProblem::Exists));
        assert_eq!(read::<ClusterKey>(&path).expect("as it was").id(), first.id());
        write(&path, &second, true).expect("replaced");
        assert_eq!(
            (mode(&path), read::<ClusterKey>(&path).expect("new").id()),
            (0o600, second.id())
        );
        assert_eq!(fs::read_dir(scratch.path()).expect("ours").count(), 1, "nothing is left");
    }

    #[test]
    fn a_file_that_others_can_use_is_refused() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("cluster.key");
        write(&path, &new_key(), false).expect("written");
        for wrong in [0o640, 0o604, 0o620, 0o601, 0o644] {
            fs::set_permissions(&path, fs::Permissions::from_mode(wrong)).expect("ours");
            let error = read::<ClusterKey>(&path).expect_err("exposed");
            assert!(
                matches!(error.problem, KeyFileProblem::Exposed { mode } if mode == wrong),
                "{error:?}"
            );
        }
    }

    /// Regression: root could not learn the serial number of a user's key, which `revoked-keys`
    /// needs.
    #[test]
    fn root_reads_which_key_a_user_has_and_does_not_use_it() {
        if !geteuid().is_root() {
            return;
        }
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("alice.key");
        let key = new_key();
        write(&path, &key, false).expect("written");
        std::os::unix::fs::chown(&path, Some(12_345), None).expect("root may");
        let error = read::<ClusterKey>(&path).expect_err("another's");
        assert!(matches!(error.problem, KeyFileProblem::Owner { owner: 12_345, us: 0 }));
        assert_eq!(read_to_tell::<ClusterKey>(&path).expect("told").id(), key.id());
    }

    #[test]
    fn every_malformed_key_is_refused() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("x");
        let missing = read::<ClusterKey>(&path).expect_err("missing");
        assert!(matches!(missing.problem, KeyFileProblem::Read(_)));
        let directory = read::<ClusterKey>(scratch.path()).expect_err("a directory");
        assert!(matches!(directory.problem, KeyFileProblem::NotAFile));
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRUSR).expect("made");
        let pipe = read::<ClusterKey>(&path).expect_err("a pipe");
        assert!(matches!(pipe.problem, KeyFileProblem::NotAFile));
        fs::remove_file(&path).expect("ours");
        let long = "#\n".repeat(MAX_FILE_BYTES as usize);
        fs::write(&path, long).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("ours");
        let long = read::<ClusterKey>(&path).expect_err("too long");
        assert!(matches!(long.problem, KeyFileProblem::TooLong));
        fs::write(&path, "secret").expect("written");
        let wrong = read::<ClusterKey>(&path).expect_err("no key");
        assert!(matches!(wrong.problem, KeyFileProblem::NotAKey(NotAKey::Format { .. })));
        assert!(!format!("{wrong:?} {}", wrong.problem).contains("secret"));
    }
}
