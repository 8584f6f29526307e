//! Whether a program joins its job through PMIx: what it is linked with says so.

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
/// The longest name of a library that is read.
const NAME_MAX_BYTES: u64 = 255;

/// Whether a program is linked with Open MPI. What is no ELF file, or is linked
/// statically, is not known to be. Of the file only the tables are read that say so.
pub fn needs_pmix(program: &File) -> bool {
    is_linked(&ReadCache::new(program))
}

pub(crate) fn is_linked<'a>(program: impl ReadRef<'a>) -> bool {
    let needs = match FileKind::parse(program) {
        Ok(FileKind::Elf64) => needed_by::<elf::FileHeader64<Endianness>, _>(program),
        Ok(FileKind::Elf32) => needed_by::<elf::FileHeader32<Endianness>, _>(program),
        Ok(_) | Err(_) => return false,
    };
    needs.unwrap_or(false)
}

fn needed_by<'a, E, R>(program: R) -> object::Result<bool>
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
    let Some(entries) = entries else { return Ok(false) };
    let value = |entry: &E::Dyn| entry.d_val(endian).into();
    let of = |tag: elf::DynamicTag| entries.iter().filter(move |entry| entry.tag(endian) == tag);
    let Some(strings) = of(elf::DT_STRTAB).next().map(value) else { return Ok(false) };
    let name_at = |at: u64| {
        let longest = |segment: &E::ProgramHeader| {
            let begin: u64 = segment.p_vaddr(endian).into();
            let end = begin.saturating_add(segment.p_filesz(endian).into());
            (begin <= at && at < end).then(|| (end - at).min(NAME_MAX_BYTES))
        };
        let bytes = segments.iter().find_map(|segment| {
            segment.data_range(endian, program, at, longest(segment)?).ok().flatten()
        });
        bytes.and_then(|bytes| bytes.split(|byte| *byte == 0).next()).unwrap_or_default()
    };
    let needed = of(elf::DT_NEEDED).map(|entry| strings.saturating_add(value(entry)));
    let mut names = needed.map(name_at);
    Ok(names.any(is_of_open_mpi))
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
    fn neither_this_program_nor_text_needs_pmix() {
        let own = File::open(std::env::current_exe().expect("it runs")).expect("readable");
        assert!(!needs_pmix(&own));
        assert!(!is_linked(&b"#!/bin/sh\nlibmpi.so.40\n"[..]));
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
            let _ = is_linked(&program[..]);
            let _ = is_linked(&program[..cut.index(program.len())]);
        }
    }
}
