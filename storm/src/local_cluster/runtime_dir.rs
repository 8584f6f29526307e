//! Where a local cluster keeps its sockets and its jobs' files: in memory where
//! that is possible, so that a launch does not wait for a disk.

use nix::sys::statvfs::{FsFlags, statvfs};
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Tried first: a tmpfs on almost every Linux.
const MEMORY: &str = "/dev/shm";

/// Longest path of the directory: a Unix socket's address holds 107 bytes, and
/// the daemons' sockets need some of them.
const MAX_PATH_BYTES: usize = 80;

/// A directory of mode 0700, removed with all that is in it when dropped.
#[derive(Debug)]
pub(crate) struct RuntimeDir {
    directory: TempDir,
}

impl RuntimeDir {
    /// Makes one with room for about `needed_bytes`.
    pub(crate) fn make(needed_bytes: u64) -> io::Result<RuntimeDir> {
        let memory = PathBuf::from(MEMORY);
        let candidates = [memory, std::env::temp_dir(), PathBuf::from("/tmp")];
        let mut builder = tempfile::Builder::new();
        builder.prefix("storm-").permissions(Permissions::from_mode(0o700));
        let mut why = io::Error::from(io::ErrorKind::StorageFull);
        for base in candidates {
            if !is_suitable(&base, needed_bytes) {
                continue;
            }
            match builder.tempdir_in(&base) {
                Ok(directory) => return Ok(RuntimeDir { directory }),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Leaves it in place.
    pub(crate) fn keep(self) -> PathBuf {
        self.directory.keep()
    }
}

/// A directory in memory where programs can be executed; else one for temporary
/// files.
pub(crate) fn memory_directory() -> PathBuf {
    let memory = PathBuf::from(MEMORY);
    if is_suitable(&memory, 0) { memory } else { std::env::temp_dir() }
}

/// Programs can be executed there, and it has the room.
fn is_suitable(base: &Path, needed_bytes: u64) -> bool {
    let Ok(found) = statvfs(base) else { return false };
    let free_bytes = found.blocks_available().saturating_mul(found.fragment_size());
    let executable = !found.flags().contains(FsFlags::ST_NOEXEC);
    executable && free_bytes >= needed_bytes && base.as_os_str().len() < MAX_PATH_BYTES - 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_ours_alone_and_goes_with_its_owner() {
        let made = RuntimeDir::make(1 << 20).expect("there is some place");
        let path = made.path().to_owned();
        let mode = path.metadata().expect("it exists").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        drop(made);
        assert!(!path.exists());
    }

    #[test]
    fn no_place_is_large_enough_for_everything() {
        assert!(RuntimeDir::make(u64::MAX).is_err());
        assert!(!is_suitable(Path::new("/proc/nowhere"), 0));
    }
}
