//! Files that jobs leave in a directory that others use too, like `/dev/shm`. The process that made
//! them for the jobs may be killed, so the keeper, which ends last, removes them.

use crate::remove_tree;
use nix::fcntl::{Flock, FlockArg, OFlag};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Files and directories in a directory, chosen by a prefix that no other program's names have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftovers {
    /// The directory.
    pub directory: PathBuf,
    /// The prefix of the names. Nothing is removed if it is empty.
    pub prefix: String,
}

impl Leftovers {
    /// Removes the leftovers with all their content; links are not followed. Anything that cannot
    /// be removed stays. Locked directories (flock(2)) stay: the next daemon may use them already.
    pub(crate) fn remove(&self) {
        for entry in fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            let ours = entry.file_name().as_bytes().starts_with(self.prefix.as_bytes());
            if self.prefix.is_empty() || !ours {
                continue;
            }
            // A keeper has no process to which it could report a failure.
            let _ = match entry.file_type() {
                Ok(kind) if kind.is_dir() => match lock(&entry.path()) {
                    Some(_lock) => remove_tree(&entry.path()),
                    None => Ok(()),
                },
                Ok(_) | Err(_) => fs::remove_file(entry.path()),
            };
        }
    }
}

fn lock(directory: &Path) -> Option<Flock<File>> {
    let flags = (OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW).bits();
    let opened = File::options().read(true).custom_flags(flags).open(directory).ok()?;
    Flock::lock(opened, FlockArg::LockExclusiveNonblock).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_in_use_stay() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("storm-1-a");
        fs::create_dir(&own).unwrap();
        let leftovers = Leftovers { directory: dir.path().into(), prefix: "storm-1-".to_owned() };
        let lock = Flock::lock(File::open(&own).unwrap(), FlockArg::LockShared).unwrap();
        leftovers.remove();
        assert!(own.exists());
        drop(lock);
        leftovers.remove();
        assert!(!own.exists());
    }

    #[test]
    fn other_names_and_targets_of_links_stay() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("storm-1-a/deep")).unwrap();
        fs::create_dir(at("storm-2-a")).unwrap();
        fs::write(at("storm-1-file"), "x").unwrap();
        fs::write(at("storm-2-a/file"), "x").unwrap();
        std::os::unix::fs::symlink(at("storm-2-a"), at("storm-1-link")).unwrap();
        std::os::unix::fs::symlink(at("storm-2-a"), at("storm-1-a/link")).unwrap();
        let leftovers =
            |prefix: &str| Leftovers { directory: dir.path().into(), prefix: prefix.to_owned() };
        leftovers("").remove();
        leftovers("storm-1-").remove();
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().flatten().collect();
        assert_eq!(left.len(), 1);
        assert!(at("storm-2-a/file").exists());
    }
}
