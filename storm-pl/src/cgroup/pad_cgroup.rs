//! The cgroup of one pad: its own directory, and a directory below it in which every process of the
//! pad is born. A run with a memory limit has a third, also below ([`super::MemoryControl`]).
//!
//! The pad's own directory contains no process, because the kernel demands it of directories that
//! enable controllers for others. A freeze of the pad's own directory stops and resumes everything
//! below the directory.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::ids::ProcessId;
use crate::sys;

/// The directory in which PLs are born, below the pad's.
const BIRTHS: &str = "pl";
/// The directory of PLs that run with a memory limit.
const RUN: &str = "run";
/// The list of a directory's processes.
pub(crate) const PROCESSES: &str = "cgroup.procs";

/// How many processes are pinned by descriptors at the same time.
const PINNED_MAX: usize = 64;

/// The cgroup of one pad. The files that the keeper uses stay open.
#[derive(Debug)]
pub(crate) struct PadCgroup {
    births: File,
    processes: File,
    freeze: File,
    path: PathBuf,
}

impl PadCgroup {
    /// Makes the directories. If the call fails, no directory is left behind, so a retry works.
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

    /// Removes the directories, which hold no process.
    pub(crate) fn remove(self) {
        remove(&self.path);
    }

    /// The directory in which processes are started.
    pub(crate) fn directory(&self) -> BorrowedFd<'_> {
        self.births.as_fd()
    }

    /// Kills every process inside, frozen or not. Freezes the cgroup first, so that no process
    /// escapes by forking. The kill does not wait for a thaw.
    ///
    /// `cgroup.kill` is not used: kernels since 6.14 count its uses. If the counts of the parent's
    /// cgroup and of the target differ, they kill every process that `CLONE_INTO_CGROUP` starts
    /// there. The pad could then never be filled again.
    pub(crate) fn kill(&self) -> io::Result<()> {
        self.freeze.write_all_at(b"1", 0)?;
        for found in self.processes()?.chunks(PINNED_MAX) {
            let pinned: Vec<_> = found.iter().map(|&pid| sys::open_process(pid)).collect();
            // If the process is still listed after it was pinned, the pinned process is the one
            // that was found.
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
            // There is no run with a memory limit.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(text.lines().filter_map(|line| line.parse().ok()).map(ProcessId).collect())
    }

    /// Its path below the node's directory `node`.
    pub(crate) fn path_in(node: &Path, pad: crate::ids::PadId) -> PathBuf {
        node.join(format!("pad-{}", pad.0))
    }

    /// The directory in which the PLs of the pad `path` are born.
    pub(crate) fn births_in(path: &Path) -> PathBuf {
        path.join(BIRTHS)
    }

    /// The directory of the PLs with a memory limit, in the pad `path`.
    pub(crate) fn run_in(path: &Path) -> PathBuf {
        path.join(RUN)
    }
}

/// Removes a pad's directory and those below it. A directory that is still held stays, and is
/// removed with the node's.
fn remove(path: &Path) {
    for directory in [PadCgroup::run_in(path), PadCgroup::births_in(path), path.to_owned()] {
        let _ = fs::remove_dir(directory);
    }
}
