//! Limits the memory of runs by the memory controller of cgroup v2, or else of v1.
//!
//! Each run has its own directory, below the pad's directory with v2, and next to it with v1. The
//! waiting PLs are moved into it before they become the job. The directory is removed when these
//! processes are gone. Files in memory that the run leaves behind (tmpfs, /dev/shm) therefore do
//! not count against another run (`docs/decisions/0057-memory-of-each-run.md`).
//!
//! Without a controller there is no limit, and the reason is kept for messages.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use nix::unistd::AccessFlags;
use thiserror::Error;

use crate::cgroup::PadCgroup;
use crate::cgroup::mount::memory_v1_directory;
use crate::cgroup::pad_cgroup::PROCESSES;
use crate::ids::{PadId, ProcessId};

/// Why memory cannot be limited on this node.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "memory is not limited: no memory controller can be used (cgroup v2: {v2}; v1: {v1}); \
     delegate it to this user"
)]
pub struct MemoryUnlimited {
    v2: String,
    v1: String,
}

/// The means to limit the memory of the jobs in a node's pads.
#[derive(Clone, Debug)]
pub(crate) enum MemoryControl {
    /// Directories below those of the pads, which are in this directory.
    V2(PathBuf),
    /// Directories in this directory, named like the pads.
    V1(PathBuf),
}

impl MemoryControl {
    /// Searches for a controller. `node` is the node's directory of cgroup v2, if it has one, and
    /// `name` is the name for a directory of v1.
    pub(crate) fn find(node: Option<&Path>, name: &str) -> Result<Self, MemoryUnlimited> {
        let v2 = match node {
            Some(node) => enable_v2(node),
            None => Err(io::Error::other("no control group of its own")),
        };
        let v2 = match (v2, node) {
            (Ok(()), Some(node)) => return Ok(Self::V2(node.to_owned())),
            (Err(error), _) => error.to_string(),
            (Ok(()), None) => String::new(),
        };
        match find_v1(name) {
            Ok(directory) => Ok(Self::V1(directory)),
            Err(error) => Err(MemoryUnlimited { v2, v1: error.to_string() }),
        }
    }

    /// Limits these processes of a pad, and their descendants, to `bytes` in total.
    pub(crate) fn limit(&self, pad: PadId, bytes: u64, processes: &[ProcessId]) -> io::Result<()> {
        let directory = self.directory(pad);
        // Removes the directory of a former run, with the memory charged to it. If a dying process
        // still holds the directory, it is used again.
        let _ = fs::remove_dir(&directory);
        if let Self::V2(node) = self {
            let pad = PadCgroup::path_in(node, pad);
            write(&pad.join("cgroup.subtree_control"), "+memory")?;
        }
        fs::create_dir_all(&directory)?;
        let limit = i64::try_from(bytes).unwrap_or(i64::MAX).to_string();
        write(&directory.join(self.limit_file()), &limit)?;
        enter(&directory, processes)
    }

    /// Ends a run. These `processes` did not take part in the run: they return to the directory in
    /// which they were born, and the run's directory is removed. A directory that is still held is
    /// removed with the next run's.
    pub(crate) fn forget(&self, pad: PadId, processes: &[ProcessId]) -> io::Result<()> {
        let directory = self.directory(pad);
        match self {
            Self::V2(node) => {
                enter(&PadCgroup::births_in(&PadCgroup::path_in(node, pad)), processes)?;
            }
            Self::V1(all) => enter(all, processes)?,
        }
        let _ = fs::remove_dir(directory);
        Ok(())
    }

    /// How many processes of a pad the kernel has killed so far for exceeding the limit.
    pub(crate) fn kills(&self, pad: PadId) -> u64 {
        let file = match self {
            Self::V2(_) => "memory.events",
            Self::V1(_) => "memory.oom_control",
        };
        let text = fs::read_to_string(self.directory(pad).join(file)).unwrap_or_default();
        parse_kills(&text)
    }

    /// Removes all directories made for limits. The processes of the pads are gone.
    pub(crate) fn remove(&self) {
        let Self::V1(directory) = self else { return };
        let Ok(entries) = fs::read_dir(directory) else { return };
        for entry in entries.flatten().filter(|entry| entry.path().is_dir()) {
            // A directory that remains is taken over by the next daemon of this name.
            let _ = fs::remove_dir(entry.path());
        }
        let _ = fs::remove_dir(directory);
    }

    fn limit_file(&self) -> &'static str {
        match self {
            Self::V2(_) => "memory.max",
            Self::V1(_) => "memory.limit_in_bytes",
        }
    }

    /// The directory of the pad's run.
    fn directory(&self, pad: PadId) -> PathBuf {
        match self {
            Self::V2(node) => PadCgroup::run_in(&PadCgroup::path_in(node, pad)),
            Self::V1(all) => PadCgroup::path_in(all, pad),
        }
    }
}

/// Moves processes into a directory.
fn enter(directory: &Path, processes: &[ProcessId]) -> io::Result<()> {
    let list = directory.join(PROCESSES);
    processes.iter().try_for_each(|process| write(&list, &process.0.to_string()))
}

/// Enables the controller for the pads, which enable it for their runs. The node's directory has no
/// process of its own. The controller may already be enabled in the directory above.
fn enable_v2(node: &Path) -> io::Result<()> {
    if let Some(parent) = node.parent() {
        let _ = write(&parent.join("cgroup.subtree_control"), "+memory");
    }
    write(&node.join("cgroup.subtree_control"), "+memory")
}

/// A directory below this process's own in the hierarchy of v1, made when it is needed.
fn find_v1(name: &str) -> io::Result<PathBuf> {
    let own = memory_v1_directory().ok_or_else(|| io::Error::other("not mounted"))?;
    nix::unistd::access(&own, AccessFlags::W_OK)?;
    Ok(own.join(name))
}

/// Writes `text` in one call, as these files require. Never creates a file.
fn write(path: &Path, text: &str) -> io::Result<()> {
    File::options().write(true).open(path)?.write_all(text.as_bytes())
}

fn parse_kills(text: &str) -> u64 {
    let kills = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    kills.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_are_read_from_either_version() {
        assert_eq!(parse_kills("low 0\nhigh 0\nmax 9\noom 2\noom_kill 3\noom_group_kill 0\n"), 3);
        assert_eq!(parse_kills("oom_kill_disable 0\nunder_oom 0\noom_kill 4\n"), 4);
        assert_eq!(parse_kills(""), 0);
    }

    #[test]
    fn a_node_without_any_controller_says_so_for_both() {
        let why = MemoryUnlimited { v2: "a".to_owned(), v1: "b".to_owned() }.to_string();
        assert!(why.contains("cgroup v2: a; v1: b"), "{why}");
    }
}
