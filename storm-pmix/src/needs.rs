//! The libraries that a program or a library needs by its ELF tables, and the MPI among them.

use object::read::elf::{Dyn as _, FileHeader, ProgramHeader as _};
use object::{Endianness, FileKind, ReadCache, ReadRef, elf};
use std::fs::File;

/// The beginnings of the names of the libraries of Open MPI's interfaces. MPICH's libraries have
/// another number. Lower layers of Open MPI are not listed, because `mpirun` is linked with them
/// too and must not count.
const LIBRARIES: [&[u8]; 6] = [
    b"libmpi.so.40",
    b"libmpi_cxx.so.40",
    b"libmpi_mpifh.so.40",
    b"libmpi_usempif08.so.40",
    b"libmpi_usempi_ignore_tkr.so.40",
    b"liboshmem.so.40",
];
/// Part of the distributions' names of libraries that are built for Open MPI and load it
/// themselves.
const BUILT_FOR: &[u8] = b"openmpi";
/// Libraries of other MPIs: MPICH, libraries with its numbers, and STORM's own. Programs with them
/// join their job through PMI-1.
const OTHERS: [&[u8]; 5] =
    [b"libmpich.so", b"libmpi.so.12", b"libmpicxx.so.12", b"libmpifort.so.12", b"libstormmpi.so"];
/// The longest part of a library's name, or of a list of directories, that is read.
const STRING_MAX_BYTES: u64 = 4096;

/// The needs that a program or a library declares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Byte order, word size and machine. The program's libraries must have the same.
    pub(crate) kind: (u8, u8, u16),
    /// Names of libraries.
    pub(crate) libraries: Vec<Vec<u8>>,
    /// Lists of directories for the search. This list also applies to the libraries' own libraries;
    /// `runpath` does not.
    pub(crate) rpath: Vec<u8>,
    pub(crate) runpath: Vec<u8>,
}

impl Needs {
    pub(crate) fn of(file: &File) -> Option<Needs> {
        needs(&ReadCache::new(file))
    }

    /// The MPI among its libraries.
    pub(crate) fn mpi(&self) -> Option<Mpi> {
        let any = |is: fn(&[u8]) -> bool| self.libraries.iter().any(|library| is(library));
        if any(is_of_open_mpi) {
            Some(Mpi::Open)
        } else {
            any(is_of_another_mpi).then_some(Mpi::Other)
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mpi {
    Open,
    Other,
}

/// `None` if the file is not ELF or needs no libraries.
pub(crate) fn needs<'a>(program: impl ReadRef<'a>) -> Option<Needs> {
    let found = match FileKind::parse(program) {
        Ok(FileKind::Elf64) => told_by::<elf::FileHeader64<Endianness>, _>(program),
        Ok(FileKind::Elf32) => told_by::<elf::FileHeader32<Endianness>, _>(program),
        Ok(_) | Err(_) => return None,
    };
    found.ok().flatten()
}

fn told_by<'a, E, R>(program: R) -> object::Result<Option<Needs>>
where
    E: FileHeader<Endian = Endianness>,
    R: ReadRef<'a>,
{
    let header = E::parse(program)?;
    let endian = header.endian()?;
    let segments = header.program_headers(endian, program)?;
    let mut entries = None;
    for segment in segments {
        entries = entries.or(segment.dynamic(endian, program)?);
    }
    let Some(entries) = entries else { return Ok(None) };
    let value = |entry: &E::Dyn| entry.d_val(endian).into();
    let of = |tag: elf::DynamicTag| entries.iter().filter(move |entry| entry.tag(endian) == tag);
    let Some(strings) = of(elf::DT_STRTAB).next().map(value) else { return Ok(None) };
    let string_at = |at: u64| {
        // The segment's own function would read all of it.
        let place = |segment: &E::ProgramHeader| {
            let begin: u64 = segment.p_vaddr(endian).into();
            let end = begin.saturating_add(segment.p_filesz(endian).into());
            let offset: u64 = segment.p_offset(endian).into();
            let from = offset.checked_add(at.checked_sub(begin)?)?;
            (at < end).then(|| (from, (end - at).min(STRING_MAX_BYTES)))
        };
        let bytes = segments.iter().find_map(|segment| {
            let (from, longest) = place(segment)?;
            program.read_bytes_at(from, longest).ok()
        });
        bytes.and_then(|bytes| bytes.split(|byte| *byte == 0).next()).unwrap_or_default()
    };
    let strings_of = |tag| of(tag).map(|entry| string_at(strings.saturating_add(value(entry))));
    let ident = header.e_ident();
    Ok(Some(Needs {
        kind: (ident.class.0, ident.data.0, header.e_machine(endian).0),
        libraries: strings_of(elf::DT_NEEDED).map(<[u8]>::to_vec).collect(),
        rpath: strings_of(elf::DT_RPATH).next().unwrap_or_default().to_vec(),
        runpath: strings_of(elf::DT_RUNPATH).next().unwrap_or_default().to_vec(),
    }))
}

fn is_of_open_mpi(library: &[u8]) -> bool {
    LIBRARIES.iter().any(|name| library.starts_with(name))
        || library.windows(BUILT_FOR.len()).any(|part| part == BUILT_FOR)
}

fn is_of_another_mpi(library: &[u8]) -> bool {
    OTHERS.iter().any(|name| library.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_text_file_needs_nothing() {
        assert_eq!(needs(&b"#!/bin/sh\nlibmpi.so.40\n"[..]), None);
    }

    proptest! {
        #[test]
        fn damaged_programs_count_as_linked_with_nothing(
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut program = std::fs::read("/bin/true").expect("it is there");
            program.truncate(4096);
            let index = at.index(program.len());
            program[index] = byte;
            let _ = needs(&program[..]);
            let _ = needs(&program[..cut.index(program.len())]);
        }
    }
}
