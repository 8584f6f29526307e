//! The cgroup of one pad: a directory that every process of the pad is born in.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::ids::ProcessId;

/// The cgroup of one pad, with the files the keeper uses held open.
#[derive(Debug)]
pub(crate) struct PadCgroup {
    directory: File,
    processes: File,
    freeze: File,
    kill: File,
}

impl PadCgroup {
    /// Makes the directory.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        fs::create_dir(path)?;
        let write = |name: &str| File::options().write(true).open(path.join(name));
        Ok(Self {
            directory: File::open(path)?,
            processes: File::open(path.join("cgroup.procs"))?,
            freeze: write("cgroup.freeze")?,
            kill: write("cgroup.kill")?,
        })
    }

    /// Its directory, for starting processes inside.
    pub(crate) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Kills every process inside, frozen or not.
    pub(crate) fn kill(&self) -> io::Result<()> {
        self.kill.write_all_at(b"1", 0)
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
        Ok(text.lines().filter_map(|line| line.parse().ok()).map(ProcessId).collect())
    }

    /// Its path below the node's directory `node`.
    pub(crate) fn path_in(node: &Path, pad: crate::ids::PadId) -> PathBuf {
        node.join(format!("pad-{}", pad.0))
    }
}
