//! What a program is linked with: that says whether it joins its job through PMIx, and whether its
//! libraries lie beside it.

use object::read::elf::{Dyn as _, FileHeader, ProgramHeader as _};
use object::{Endianness, FileKind, ReadCache, ReadRef, elf};
use std::fs::File;

/// The libraries of Open MPI's interfaces, by how their names begin: MPICH's have another number. Not those
/// beneath them, as `mpirun` has these too and must be left alone.
const LIBRARIES: [&[u8]; 6] = [
    b"libmpi.so.40",
    b"libmpi_cxx.so.40",
    b"libmpi_mpifh.so.40",
    b"libmpi_usempif08.so.40",
    b"libmpi_usempi_ignore_tkr.so.40",
    b"liboshmem.so.40",
];
/// What distributions call libraries that were built for Open MPI and load it themselves.
const BUILT_FOR: &[u8] = b"openmpi";
/// As much as is read of the name of a library, or of a list of directories.
const STRING_MAX_BYTES: u64 = 4096;

/// What stands in a path of libraries for the directory that the program is in (ld.so(8)).
const ORIGIN: [&[u8]; 2] = [b"$ORIGIN", b"${ORIGIN}"];

/// What a program is linked with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Linkage {
    /// Open MPI: it joins its job through PMIx.
    pub open_mpi: bool,
    /// Libraries that are looked for in a place relative to the program's own.
    pub origin: bool,
}

impl Linkage {
    /// That of a program. What is no ELF file, or is linked statically, is not known to be linked
    /// with anything. Of the file only the tables are read that say so.
    pub fn of(program: &File) -> Linkage {
        linkage(&ReadCache::new(program))
    }
}

pub(crate) fn linkage<'a>(program: impl ReadRef<'a>) -> Linkage {
    let found = match FileKind::parse(program) {
        Ok(FileKind::Elf64) => told_by::<elf::FileHeader64<Endianness>, _>(program),
        Ok(FileKind::Elf32) => told_by::<elf::FileHeader32<Endianness>, _>(program),
        Ok(_) | Err(_) => return Linkage::default(),
    };
    found.unwrap_or_default()
}

fn told_by<'a, E, R>(program: R) -> object::Result<Linkage>
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
    let Some(entries) = entries else { return Ok(Linkage::default()) };
    let value = |entry: &E::Dyn| entry.d_val(endian).into();
    let of = |tag: elf::DynamicTag| entries.iter().filter(move |entry| entry.tag(endian) == tag);
    let Some(strings) = of(elf::DT_STRTAB).next().map(value) else {
        return Ok(Linkage::default());
    };
    let string_at = |at: u64| {
        let longest = |segment: &E::ProgramHeader| {
            let begin: u64 = segment.p_vaddr(endian).into();
            let end = begin.saturating_add(segment.p_filesz(endian).into());
            (begin <= at && at < end).then(|| (end - at).min(STRING_MAX_BYTES))
        };
        let bytes = segments.iter().find_map(|segment| {
            segment.data_range(endian, program, at, longest(segment)?).ok().flatten()
        });
        bytes.and_then(|bytes| bytes.split(|byte| *byte == 0).next()).unwrap_or_default()
    };
    let strings_of = |tag| of(tag).map(|entry| string_at(strings.saturating_add(value(entry))));
    let mut paths = strings_of(elf::DT_RUNPATH).chain(strings_of(elf::DT_RPATH));
    let origin = paths.any(has_origin) || strings_of(elf::DT_NEEDED).any(has_origin);
    Ok(Linkage { open_mpi: strings_of(elf::DT_NEEDED).any(is_of_open_mpi), origin })
}

fn has_origin(path: &[u8]) -> bool {
    ORIGIN.iter().any(|word| path.windows(word.len()).any(|part| part == *word))
}

fn is_of_open_mpi(library: &[u8]) -> bool {
    LIBRARIES.iter().any(|name| library.starts_with(name))
        || library.windows(BUILT_FOR.len()).any(|part| part == BUILT_FOR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn neither_this_program_nor_text_is_linked_with_any() {
        let own = File::open(std::env::current_exe().expect("it runs")).expect("readable");
        assert_eq!(Linkage::of(&own), Linkage::default());
        assert_eq!(linkage(&b"#!/bin/sh\nlibmpi.so.40\n"[..]), Linkage::default());
    }

    proptest! {
        #[test]
        fn damaged_programs_are_no_trouble(
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut program = std::fs::read("/bin/true").expect("it is there");
            program.truncate(4096);
            let index = at.index(program.len());
            program[index] = byte;
            let _ = linkage(&program[..]);
            let _ = linkage(&program[..cut.index(program.len())]);
        }
    }
}
