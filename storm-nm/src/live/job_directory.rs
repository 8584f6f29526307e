//! A job's own directory on a node: `jobs/<job>.<run>/`, with its shipped files as hard links to
//! the cache.
//!
//! The directory belongs to the submitter, and only the submitter can enter it. The files belong to
//! the cache: the submitter can read and execute them but not change them.

use super::script_commands::ScriptCommands;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use storm_pl::remove_tree;
use storm_rm::{OsBytes, Owner};
use thiserror::Error;

/// A shipped file of a job.
#[derive(Clone, Debug)]
pub(super) struct JobFile {
    /// Its content in the cache.
    pub(super) content: PathBuf,
    /// Its name in the job's directory.
    pub(super) name: OsBytes,
}

/// Why a job has no directory.
#[derive(Debug, Error)]
pub(super) enum DirectoryError {
    #[error("{0:?} is not the name of a file")]
    Name(OsBytes),
    #[error("cannot make the job's directory {path}")]
    Make { path: PathBuf, source: io::Error },
    #[error("cannot put {name} into the job's directory {path}")]
    Put { name: String, path: PathBuf, source: io::Error },
}

/// Makes the directory with its files; blocking. If the call fails, it leaves nothing.
pub(super) fn make(
    path: &Path,
    owner: Owner,
    files: &[JobFile],
    commands: Option<&ScriptCommands>,
) -> Result<(), DirectoryError> {
    let made = fill(path, owner, files, commands);
    if made.is_err() {
        // The user must get the first failure, so this second failure is ignored.
        let _ = remove(path);
    }
    made
}

/// Removes the directory and everything that the job left in it; blocking.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match remove_tree(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn fill(
    path: &Path,
    owner: Owner,
    files: &[JobFile],
    commands: Option<&ScriptCommands>,
) -> Result<(), DirectoryError> {
    let failed = |source| DirectoryError::Make { path: path.to_owned(), source };
    remove(path).map_err(failed)?;
    fs::DirBuilder::new().mode(0o700).create(path).map_err(failed)?;
    for file in files {
        let name = plain_name(&file.name)?;
        link(&file.content, &path.join(name)).map_err(|source| {
            let name = file.name.to_string_lossy().into_owned();
            DirectoryError::Put { name, path: path.to_owned(), source }
        })?;
    }
    if let Some(commands) = commands {
        commands.make(path).map_err(failed)?;
    }
    if nix::unistd::geteuid().is_root() {
        chown(path, Some(owner.uid), Some(owner.gid)).map_err(failed)?;
    }
    Ok(())
}

/// The name as a path, if it stays in its directory.
pub(super) fn plain_name(name: &OsBytes) -> Result<&Path, DirectoryError> {
    let path = Path::new(name.as_os_str());
    let bytes = path.as_os_str().as_bytes();
    let plain = !bytes.is_empty() && bytes != b"." && bytes != b".." && !bytes.contains(&b'/');
    if plain { Ok(path) } else { Err(DirectoryError::Name(name.clone())) }
}

/// Makes a second name for the content, or a copy if the file system has no links.
fn link(content: &Path, path: &Path) -> io::Result<()> {
    match fs::hard_link(content, path) {
        Ok(()) => Ok(()),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists) =>
        {
            Err(error)
        }
        Err(_) => {
            fs::copy(content, path)?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o555))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Owner {
        Owner { uid: nix::unistd::geteuid().as_raw(), gid: nix::unistd::getegid().as_raw() }
    }

    #[test]
    fn files_are_linked_and_all_of_it_goes_again() {
        let dir = tempfile::tempdir().unwrap();
        let (content, job) = (dir.path().join("content"), dir.path().join("1.1"));
        fs::write(&content, "text").unwrap();
        let files = [JobFile { content: content.clone(), name: "program".into() }];
        make(&job, own(), &files, None).unwrap();
        assert_eq!(fs::read(job.join("program")).unwrap(), b"text");
        make(&job, own(), &files, None).unwrap();
        remove(&job).unwrap();
        assert!(!job.exists() && content.exists());
    }

    #[test]
    fn names_that_lead_elsewhere_and_lost_content_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let job = dir.path().join("1.1");
        for name in ["", ".", "..", "../../etc/passwd", "a/b"] {
            let files = [JobFile { content: dir.path().join("x"), name: name.into() }];
            assert!(make(&job, own(), &files, None).is_err(), "{name}");
            assert!(!job.exists());
        }
        let files = [JobFile { content: dir.path().join("gone"), name: "program".into() }];
        let error = make(&job, own(), &files, None).unwrap_err();
        assert!(error.to_string().contains("cannot put program"), "{error}");
    }
}
