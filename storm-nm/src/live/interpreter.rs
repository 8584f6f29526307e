//! The interpreter with which the kernel starts a program (execve(2)). A script names its
//! interpreter in its first line; the interpreter of an ELF file is its loader. This module serves
//! only to name a missing interpreter in an error.

use nix::fcntl::OFlag;
use object::read::elf::{FileHeader, ProgramHeader as _};
use object::{Endianness, FileKind, ReadCache, ReadRef, elf};
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The kernel reads this much of the first line (`BINPRM_BUF_SIZE`).
const FIRST_LINE_MAX_BYTES: u64 = 256;

/// The kernel takes at most 64 KiB of program headers (`load_elf_phdrs`).
const SEGMENTS_MAX: u16 = 1024;
/// The kernel takes a path up to this length.
const PATH_MAX_BYTES: u64 = 4096;

/// The interpreter of a program; `None` if the program names none or cannot be read. Follows no
/// link, since the user who may write there decides where links lead. This process may read files
/// that the user may not.
pub(super) fn interpreter(program: &Path) -> Option<PathBuf> {
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(program).ok()?;
    file.metadata().ok()?.is_file().then(|| interpreter_in(&file))?
}

fn interpreter_in(file: &File) -> Option<PathBuf> {
    let data = &ReadCache::new(file);
    let found = match FileKind::parse(data) {
        Ok(FileKind::Elf64) => loader::<elf::FileHeader64<Endianness>, _>(data)?,
        Ok(FileKind::Elf32) => loader::<elf::FileHeader32<Endianness>, _>(data)?,
        _ => {
            let length = data.len().ok()?.min(FIRST_LINE_MAX_BYTES);
            let line = data.read_bytes_at(0, length).ok()?.strip_prefix(b"#!")?;
            let mut lines = line.split(|&byte| byte == b'\n');
            let mut words = lines.next()?.split(|&byte| byte == b' ' || byte == b'\t');
            words.find(|word| !word.is_empty())?
        }
    };
    (!found.is_empty()).then(|| OsStr::from_bytes(found).into())
}

fn loader<'a, E: FileHeader<Endian = Endianness>, R: ReadRef<'a>>(data: R) -> Option<&'a [u8]> {
    let header = E::parse(data).ok()?;
    let endian = header.endian().ok()?;
    // The file itself states how many headers to read. The kernel executes no program with more.
    if header.e_phnum(endian) > SEGMENTS_MAX {
        return None;
    }
    let segments = header.program_headers(endian, data).ok()?;
    let segment = segments.iter().find(|segment| segment.p_type(endian) == elf::PT_INTERP)?;
    let is_path = segment.p_filesz(endian).into() <= PATH_MAX_BYTES;
    is_path.then(|| segment.interpreter(endian, data).ok().flatten())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(content: &[u8]) -> Option<PathBuf> {
        let directory = tempfile::tempdir().expect("a directory");
        let program = directory.path().join("program");
        std::fs::write(&program, content).expect("room");
        interpreter(&program)
    }

    #[test]
    fn a_script_names_it_in_its_first_line() {
        assert_eq!(of(b"#! /opt/py/bin/python3 -u\nprint()\n"), Some("/opt/py/bin/python3".into()));
        assert_eq!(of(b"#!/bin/x"), Some("/bin/x".into()));
        for none in [&b"#!"[..], b"#!\n/bin/sh", b"", b"\x7fELFjunk", b"text"] {
            assert_eq!(of(none), None, "{none:?}");
        }
    }

    #[test]
    fn an_elf_file_names_its_loader() {
        let loader = interpreter(&std::fs::canonicalize("/bin/true").expect("it is there"));
        let name = loader.expect("it is linked dynamically");
        assert!(name.is_absolute() && name.to_string_lossy().contains("ld"), "{name:?}");
    }

    #[test]
    fn neither_links_nor_pipes_are_followed() {
        let directory = tempfile::tempdir().expect("a directory");
        let [script, link, pipe] =
            ["script", "link", "pipe"].map(|name| directory.path().join(name));
        std::fs::write(&script, "#!/bin/x\n").expect("room");
        std::os::unix::fs::symlink(&script, &link).expect("room");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("room");
        assert_eq!(interpreter(&script), Some("/bin/x".into()));
        assert_eq!(interpreter(&link), None);
        assert_eq!(interpreter(&pipe), None);
    }
}
