//! The program that is launched: it ends at once, and can have any size.
//!
//! The bytes after the executable's only segment are never loaded, but are read, sent and written
//! like the rest. They are random, so no node can have them already, and no compression helps.

use crate::failure::Failure;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Address of the segment in memory.
const BASE: u64 = 0x40_0000;
/// Sizes of the two headers (System V ABI, ELF-64 object file format).
const FILE_HEADER_BYTES: u16 = 64;
const PROGRAM_HEADER_BYTES: u16 = 56;

/// Makes programs in a directory.
#[derive(Debug)]
pub(super) struct DoNothing {
    directory: PathBuf,
    program: Vec<u8>,
    made: u32,
}

impl DoNothing {
    /// Pads the user's program, or the smallest possible program.
    pub(super) fn new(directory: &Path, given: Option<&Path>) -> Result<DoNothing, Failure> {
        let program = match given {
            Some(path) => given_program(path)?,
            None => smallest().ok_or_else(|| {
                Failure::new("program", "storm knows no do-nothing program for this processor")
                    .hint("give one that ends at once, as --program /bin/true")
            })?,
        };
        Ok(DoNothing { directory: directory.to_owned(), program, made: 0 })
    }

    /// Makes the next program, of this size or of the original's if that is larger.
    pub(super) fn make(&mut self, size_bytes: u64) -> Result<PathBuf, Failure> {
        self.made += 1;
        let path = self.directory.join(format!("do-nothing-{}", self.made));
        self.write(&path, size_bytes).map_err(|error| failure(&path, &error))?;
        Ok(path)
    }

    fn write(&self, path: &Path, size_bytes: u64) -> io::Result<()> {
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o700).open(path)?;
        file.write_all(&self.program)?;
        // A few bytes at least, so that each program differs from the last.
        let rest = size_bytes.saturating_sub(self.program.len() as u64).max(16);
        io::copy(&mut File::open("/dev/urandom")?.take(rest), &mut file).map(drop)
    }
}

/// The user's program, checked before clusters are started.
fn given_program(path: &Path) -> Result<Vec<u8>, Failure> {
    let refused = |why: String| {
        let message = format!("the program {} cannot be launched", path.display());
        Failure { causes: vec![why], ..Failure::new("program", message) }
            .hint("give --program an executable file that ends at once, as /bin/true")
    };
    let metadata = std::fs::metadata(path).map_err(|error| refused(error.to_string()))?;
    if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 {
        return Err(refused("it is not an executable file".to_owned()));
    }
    std::fs::read(path).map_err(|error| refused(error.to_string()))
}

fn failure(path: &Path, error: &io::Error) -> Failure {
    let mut failure = Failure::new("file", format!("{} is of no use", path.display()));
    failure.causes.push(error.to_string());
    failure.hint("calibration makes programs in TMPDIR: is there room?")
}

/// The code of exit_group(0), with the machine's number in an ELF header.
fn code() -> Option<(u16, &'static [u8])> {
    if cfg!(target_arch = "x86_64") {
        // mov eax, 231; xor edi, edi; syscall
        Some((62, &[0xb8, 0xe7, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05]))
    } else if cfg!(target_arch = "aarch64") {
        // mov x8, 94; mov x0, 0; svc 0
        Some((183, &[0xc8, 0x0b, 0x80, 0xd2, 0, 0, 0x80, 0xd2, 0x01, 0, 0, 0xd4]))
    } else {
        None
    }
}

/// An executable of a single segment with headers and code.
fn smallest() -> Option<Vec<u8>> {
    let (machine, code) = code()?;
    let headers = u64::from(FILE_HEADER_BYTES + PROGRAM_HEADER_BYTES);
    let length = headers + code.len() as u64;
    let mut elf = Vec::new();
    // 64 bits, little-endian, version 1.
    elf.extend_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    elf.extend_from_slice(&2u16.to_le_bytes()); // an executable
    elf.extend_from_slice(&machine.to_le_bytes());
    elf.extend_from_slice(&1u32.to_le_bytes());
    for value in [BASE + headers, u64::from(FILE_HEADER_BYTES), 0] {
        elf.extend_from_slice(&value.to_le_bytes()); // entry, program headers, sections
    }
    elf.extend_from_slice(&0u32.to_le_bytes()); // flags
    for value in [FILE_HEADER_BYTES, PROGRAM_HEADER_BYTES, 1, 0, 0, 0] {
        elf.extend_from_slice(&value.to_le_bytes()); // one program header, no section
    }
    elf.extend_from_slice(&1u32.to_le_bytes()); // to be loaded,
    elf.extend_from_slice(&5u32.to_le_bytes()); // read and executed
    for value in [0, BASE, BASE, length, length, 0x1000] {
        elf.extend_from_slice(&value.to_le_bytes()); // offset, addresses, sizes, alignment
    }
    elf.extend_from_slice(code);
    Some(elf)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn it_runs_has_its_size_and_is_never_the_same() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut programs = DoNothing::new(directory.path(), None).expect("a known processor");
        let (first, second) = (programs.make(100_000), programs.make(100_000));
        let (first, second) = (first.expect("made"), second.expect("made"));
        let content = std::fs::read(&first).expect("it is there");
        assert_eq!(content.len(), 100_000);
        assert_ne!(content, std::fs::read(&second).expect("it is there"));
        assert!(Command::new(&first).status().expect("it runs").success());
    }

    #[test]
    fn a_program_of_the_users_is_filled_up() {
        let directory = tempfile::tempdir().expect("a directory");
        let given = Path::new("/bin/true");
        let mut programs = DoNothing::new(directory.path(), Some(given)).expect("it is there");
        let made = programs.make(0).expect("made");
        let sizes = [given, &made].map(|path| std::fs::metadata(path).expect("a file").len());
        assert!(sizes[1] > sizes[0], "{sizes:?}");
        for wrong in ["/no/such/program", "/etc/passwd", "/"] {
            let failure =
                DoNothing::new(directory.path(), Some(Path::new(wrong))).expect_err(wrong);
            assert!(failure.message.contains(wrong), "{failure:?}");
            assert!(failure.hint.is_some_and(|hint| hint.contains("--program")), "{wrong}");
        }
    }
}
