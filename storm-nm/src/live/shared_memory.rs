//! A job's own directory in shared memory, for libraries that would otherwise put files into
//! `/dev/shm` itself: killed ranks leave them there, and ranks of several nodes on one host
//! would take the same names.

use super::job_directory;
use crate::JobKey;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::{Path, PathBuf};
use storm_rm::Owner;

/// Where POSIX shared memory is on Linux (shm_overview(7)).
const SHARED_MEMORY: &str = "/dev/shm";

/// The directories of one node manager's jobs.
#[derive(Clone, Debug)]
pub(super) struct SharedMemory {
    /// With what the name of each begins: no other node manager's does.
    prefix: String,
}

impl SharedMemory {
    /// Of the node manager that works in `dir`, which nobody else does.
    pub(super) fn of(dir: &Path) -> SharedMemory {
        // Others may be told of a directory of this name elsewhere.
        let dir = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
        let hash = blake3::hash(dir.as_os_str().as_bytes()).to_hex();
        SharedMemory { prefix: format!("storm-{}-", &hash[..16]) }
    }

    /// That of a job, there or not.
    pub(super) fn path(&self, job: JobKey) -> PathBuf {
        Path::new(SHARED_MEMORY).join(format!("{}{job}", self.prefix))
    }

    /// Makes it; blocking. Whoever took the name first could only be in the way: everybody may make
    /// files there.
    pub(super) fn make(&self, job: JobKey, owner: Owner) -> io::Result<()> {
        let path = self.path(job);
        remove_any(&path)?;
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        if nix::unistd::geteuid().is_root() {
            chown(&path, Some(owner.uid), Some(owner.gid))?;
        }
        Ok(())
    }

    /// Removes what a node manager that died has left; blocking.
    pub(super) fn remove_all(&self) {
        for entry in fs::read_dir(SHARED_MEMORY).into_iter().flatten().flatten() {
            if entry.file_name().as_bytes().starts_with(self.prefix.as_bytes()) {
                remove(&entry.path());
            }
        }
    }
}

/// Removes one; blocking.
pub(super) fn remove(path: &Path) {
    if let Err(error) = remove_any(path) {
        let path = path.display();
        tracing::warn!(%path, %error, "the shared memory of a job is not removed");
    }
}

/// What has the name need not be a directory: others may have taken it.
fn remove_any(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_dir() => fs::remove_file(path),
        Ok(_) => job_directory::remove(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
