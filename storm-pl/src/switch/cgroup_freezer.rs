//! Stops a pad by `cgroup.freeze`: one byte into a file that stays open, O(1) per job.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::switch::FreezeError;

/// The freezer of one cgroup v2 directory.
#[derive(Debug)]
pub struct CgroupFreezer(File);

impl CgroupFreezer {
    /// Opens the freezer of the cgroup at `directory`.
    ///
    /// # Errors
    /// The file is not there or may not be written.
    pub fn open(directory: &Path) -> io::Result<Self> {
        File::options().read(true).write(true).open(directory.join("cgroup.freeze")).map(Self)
    }

    /// Stops everything inside until it is resumed. Processes born meanwhile are born stopped.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn stop(&self) -> Result<(), FreezeError> {
        self.0.write_all_at(b"1", 0).map_err(FreezeError::Cgroup)
    }

    /// Whether the pad was stopped last. Returns false if the file cannot be read.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        let mut state = [0];
        self.0.read_exact_at(&mut state, 0).is_ok() && state == *b"1"
    }

    /// Resumes everything inside.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn resume(&self) -> Result<(), FreezeError> {
        self.0.write_all_at(b"0", 0).map_err(FreezeError::Cgroup)
    }
}
