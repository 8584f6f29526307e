//! How the ranks of a program join their job: as the user says, or as the program is linked.

use crate::cli::MpiArgument;
use std::fs::File;
use std::path::Path;
use storm_nm::MPI_TYPE_PMIX;
use storm_pmix::Linkage;

/// The value of [`storm_nm::MPI_TYPE_VARIABLE`] for the nodes; `None` where PMI-1 will do. A
/// program that cannot be read here, being on the nodes only, is taken for one of PMI-1. What one
/// that was read is linked with, `linkage` says.
pub(super) fn chosen(
    asked: MpiArgument,
    linkage: Option<Linkage>,
    program: &Path,
) -> Option<&'static str> {
    let pmix = match asked {
        MpiArgument::Pmi1 => false,
        MpiArgument::Pmix => true,
        MpiArgument::Auto => match linkage {
            Some(linkage) => linkage.open_mpi,
            // To open what is no file may wait for ever.
            None => {
                program.is_file()
                    && File::open(program).is_ok_and(|program| Linkage::of(&program).open_mpi)
            }
        },
    };
    pmix.then_some(MPI_TYPE_PMIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_counts_before_what_the_program_is_linked_with() {
        let plain = Path::new("/bin/true");
        assert_eq!(chosen(MpiArgument::Auto, None, plain), None);
        assert_eq!(chosen(MpiArgument::Pmix, None, plain), Some("pmix"));
        assert_eq!(chosen(MpiArgument::Pmi1, None, plain), None);
        let mut linkage = Linkage::default();
        assert_eq!(chosen(MpiArgument::Auto, Some(linkage), Path::new("/nowhere")), None);
        linkage.open_mpi = true;
        assert_eq!(chosen(MpiArgument::Auto, Some(linkage), plain), Some("pmix"));
        for no_program in ["/", "/nowhere", "/dev/null"] {
            let chosen = chosen(MpiArgument::Auto, None, Path::new(no_program));
            assert_eq!(chosen, None, "{no_program}");
        }
    }
}
