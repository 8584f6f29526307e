//! The libraries with which a program is linked. They show whether the program joins its job
//! through PMIx, and whether it needs libraries from its own directory.

use crate::libraries::Search;
use crate::needs::{Mpi, Needs};
use std::fs::File;
use std::path::Path;

/// Names of the program's directory in a path of libraries (ld.so(8)).
const ORIGIN: [&[u8]; 2] = [b"$ORIGIN", b"${ORIGIN}"];

/// The libraries of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Linkage {
    /// The program uses Open MPI, directly or through a library: it joins its job through PMIx.
    pub open_mpi: bool,
    /// The program uses MPICH or `storm-mpi` directly: it joins its job through PMI-1, unless that
    /// MPICH was built for PMIx.
    pub other_mpi: bool,
    /// Whether a search path for libraries is relative to the program's own directory.
    pub origin: bool,
}

impl Linkage {
    /// The linkage of a program at `path`. A file that is not ELF or is statically linked has no
    /// libraries. Only the tables that list the libraries are read. Libraries are read only until
    /// an MPI is found in the program or one of them.
    pub fn of(program: &File, path: &Path) -> Linkage {
        match Needs::of(program) {
            Some(needs) => {
                Linkage { open_mpi: Search::here().finds_open_mpi(&needs, path), ..linkage(&needs) }
            }
            None => Linkage::default(),
        }
    }
}

/// The linkage without libraries of libraries.
pub(crate) fn linkage(needs: &Needs) -> Linkage {
    let origin = has_origin(&needs.rpath)
        || has_origin(&needs.runpath)
        || needs.libraries.iter().any(|library| has_origin(library));
    let mpi = needs.mpi();
    Linkage { open_mpi: mpi == Some(Mpi::Open), other_mpi: mpi == Some(Mpi::Other), origin }
}

fn has_origin(path: &[u8]) -> bool {
    ORIGIN.iter().any(|word| path.windows(word.len()).any(|part| part == *word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_is_not_linked_with_mpi() {
        let path = std::env::current_exe().expect("it runs");
        let own = File::open(&path).expect("readable");
        assert_eq!(Linkage::of(&own, &path), Linkage::default());
    }
}
