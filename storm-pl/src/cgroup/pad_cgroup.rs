//! The cgroup of one pad: a directory with one below it that every process of the pad is born
//! in, and while a run with a limit on its memory lasts another one for that
//! ([`super::MemoryControl`]).
//!
//! The pad's own directory holds no process, as those that hand controllers down must not. It
//! stops and resumes all below it.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::ids::ProcessId;
use crate::sys;

/// Where PLs are born, below the pad's directory.
const BIRTHS: &str = "pl";
/// Where those of them are that run with a limit on their memory.
const RUN: &str = "run";
/// The list of a directory's processes.
pub(crate) const PROCESSES: &str = "cgroup.procs";

/// Processes that are pinned by a descriptor at once.
const PINNED_MAX: usize = 64;

/// The cgroup of one pad, with the files the keeper uses held open.
#[derive(Debug)]
pub(crate) struct PadCgroup {
    births: File,
    processes: File,
    freeze: File,
    path: PathBuf,
}

impl PadCgroup {
    /// Makes the directories. Leaves none behind when it fails, so that it can be tried again.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        fs::create_dir(path)?;
        let made = Self::create_in(path);
        if made.is_err() {
            remove(path);
        }
        made
    }

    fn create_in(path: &Path) -> io::Result<Self> {
        let births = Self::births_in(path);
        fs::create_dir(&births)?;
        Ok(Self {
            processes: File::open(births.join(PROCESSES))?,
            births: File::open(births)?,
            freeze: File::options().write(true).open(path.join("cgroup.freeze"))?,
            path: path.to_owned(),
        })
    }

    /// Removes the directories, in which no process is left.
    pub(crate) fn remove(self) {
        remove(&self.path);
    }

    /// The directory for starting processes inside.
    pub(crate) fn directory(&self) -> BorrowedFd<'_> {
        self.births.as_fd()
    }

    /// Kills every process inside, frozen or not. Freezes the cgroup, so that nothing forks away
    /// meanwhile; the kill does not wait for a thaw.
    ///
    /// Not by `cgroup.kill`: kernels since 6.14 count its uses and, when the counts of the
    /// parent's cgroup and of the target differ, kill what `CLONE_INTO_CGROUP` starts there. The
    /// pad could never be filled again.
    pub(crate) fn kill(&self) -> io::Result<()> {
        self.freeze.write_all_at(b"1", 0)?;
        for found in self.processes()?.chunks(PINNED_MAX) {
            let pinned: Vec<_> = found.iter().map(|&pid| sys::open_process(pid)).collect();
            // Those that are still there after they were pinned are the ones that were meant.
            let still = self.processes()?;
            for (pid, pinned) in found.iter().zip(&pinned) {
                if let (Ok(pinned), true) = (pinned, still.contains(pid)) {
                    sys::kill_process(pinned);
                }
            }
        }
        Ok(())
    }

    /// Undoes a freeze.
    pub(crate) fn thaw(&self) -> io::Result<()> {
        self.freeze.write_all_at(b"0", 0)
    }

    /// The live processes inside.
    pub(crate) fn processes(&self) -> io::Result<Vec<ProcessId>> {
        let mut text = String::new();
        let mut file = &self.processes;
        file.rewind()?;
        file.read_to_string(&mut text)?;
        match File::open(Self::run_in(&self.path).join(PROCESSES)) {
            Ok(mut file) => drop(file.read_to_string(&mut text)?),
            // No run with a limit on its memory.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(text.lines().filter_map(|line| line.parse().ok()).map(ProcessId).collect())
    }

    /// Its path below the node's directory `node`.
    pub(crate) fn path_in(node: &Path, pad: crate::ids::PadId) -> PathBuf {
        node.join(format!("pad-{}", pad.0))
    }

    /// Where the PLs of the pad `path` are born.
    pub(crate) fn births_in(path: &Path) -> PathBuf {
        path.join(BIRTHS)
    }

    /// Where those of the pad `path` are whose memory is limited.
    pub(crate) fn run_in(path: &Path) -> PathBuf {
        path.join(RUN)
    }
}

/// Removes a pad's directory and those below it. One that something still holds stays, and goes
/// with the node's.
fn remove(path: &Path) {
    for directory in [PadCgroup::run_in(path), PadCgroup::births_in(path), path.to_owned()] {
        let _ = fs::remove_dir(directory);
    }
}
