//! Memory that ranks of one node share: an anonymous file that one rank makes and the others open
//! through `/proc/<pid>/fd/<n>`. The file is sealed against resizing, so no access to it faults,
//! and it vanishes with its last mapping. Untouched pages cost no memory.
//!
//! The ranks agree among themselves on the contents.

use memmap2::{MmapOptions, MmapRaw};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

/// A mapping of shared memory, zeroed when it is made.
#[derive(Debug)]
pub struct SharedMemory(MmapRaw);

impl SharedMemory {
    /// Makes `bytes` bytes, at least one. The file has to stay open until all other ranks have
    /// [opened](SharedMemory::open) it.
    ///
    /// # Errors
    /// The system's.
    pub fn create(bytes: usize) -> io::Result<(Self, File)> {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let file = File::from(memfd_create(c"storm-mpi-shared", flags)?);
        file.set_len(bytes.max(1) as u64)?;
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        Ok((Self::map(&file, bytes)?, file))
    }

    /// Maps the descriptor `fd` of process `pid`, which must be shared memory of this length.
    ///
    /// # Errors
    /// The system's; `InvalidData` if the file is not such memory.
    pub fn open(pid: u32, fd: i32, bytes: usize) -> io::Result<Self> {
        let path = format!("/proc/{pid}/fd/{fd}");
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "not memory of that length");
        // The seal is checked first: from then on the length holds. Files other than a memfd have
        // no seals.
        let seals = fcntl(&file, FcntlArg::F_GET_SEALS).map_err(|_| wrong())?;
        let sealed = SealFlag::from_bits_truncate(seals).contains(SealFlag::F_SEAL_SHRINK);
        if !sealed || file.metadata()?.len() != bytes.max(1) as u64 {
            return Err(wrong());
        }
        Self::map(&file, bytes)
    }

    /// The process and descriptor that others need to open the memory.
    pub fn name(file: &File) -> (u32, i32) {
        (std::process::id(), file.as_raw_fd())
    }

    /// Address of the memory in this process, at the beginning of a page. Other processes may have
    /// it elsewhere.
    pub fn start(&self) -> *mut u8 {
        self.0.as_mut_ptr()
    }

    fn map(file: &File, bytes: usize) -> io::Result<Self> {
        Ok(SharedMemory(MmapOptions::new().len(bytes.max(1)).map_raw(file)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_see_what_either_writes_and_nothing_else_is_taken_for_it() {
        let (made, file) = SharedMemory::create(5000).expect("made");
        let (pid, fd) = SharedMemory::name(&file);
        let opened = SharedMemory::open(pid, fd, 5000).expect("opened");
        drop(file);
        // SAFETY: both are 5000 bytes, and no other code knows of them.
        unsafe {
            made.start().add(4999).write(7);
            assert_eq!(opened.start().add(4999).read(), 7);
        }
        let (_other, file) = SharedMemory::create(0).expect("made");
        let (pid, fd) = SharedMemory::name(&file);
        assert!(SharedMemory::open(pid, fd, 5000).is_err(), "of another length");
        let plain = tempfile_like();
        let (pid, fd) = SharedMemory::name(&plain);
        assert!(SharedMemory::open(pid, fd, 0).is_err(), "resizable");
    }

    /// A file that is not sealed.
    fn tempfile_like() -> File {
        File::from(memfd_create(c"other", MFdFlags::MFD_ALLOW_SEALING).expect("a file"))
    }
}
