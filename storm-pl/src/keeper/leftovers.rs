//! What jobs leave in a directory that others use too, like `/dev/shm`: whoever made it for them may be
//! killed, and the keeper goes last.

use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Everything in a directory of which the name begins in one way, which nobody else's does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftovers {
    /// The directory.
    pub directory: PathBuf,
    /// How the names begin. Nothing is removed where this is empty.
    pub prefix: String,
}

impl Leftovers {
    /// Removes it, what is in it included; links are not followed. What cannot be removed stays.
    pub(crate) fn remove(&self) {
        for entry in fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            let ours = entry.file_name().as_bytes().starts_with(self.prefix.as_bytes());
            if self.prefix.is_empty() || !ours {
                continue;
            }
            // A keeper has nobody left to tell of a failure.
            let _ = match entry.file_type() {
                Ok(kind) if kind.is_dir() => fs::remove_dir_all(entry.path()),
                Ok(_) | Err(_) => fs::remove_file(entry.path()),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_called_otherwise_and_what_links_lead_to_stays() {
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
