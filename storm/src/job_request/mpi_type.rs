//! How the ranks of a program join their job: as the user says, or as the program is linked.

use crate::cli::MpiArgument;
use std::fs::File;
use std::path::Path;
use storm_nm::MPI_TYPE_PMIX;

/// The value of [`storm_nm::MPI_TYPE_VARIABLE`] for the nodes; `None` where PMI-1 will do. A
/// program that cannot be read here, being on the nodes only, is taken for one of PMI-1.
pub(super) fn chosen(asked: MpiArgument, program: &Path) -> Option<&'static str> {
    let pmix = match asked {
        MpiArgument::Pmi1 => false,
        MpiArgument::Pmix => true,
        // To open what is no file may wait for ever.
        MpiArgument::Auto => {
            program.is_file()
                && File::open(program).is_ok_and(|program| storm_pmix::needs_pmix(&program))
        }
    };
    pmix.then_some(MPI_TYPE_PMIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_counts_before_what_the_program_is_linked_with() {
        let plain = Path::new("/bin/true");
        assert_eq!(chosen(MpiArgument::Auto, plain), None);
        assert_eq!(chosen(MpiArgument::Pmix, plain), Some("pmix"));
        assert_eq!(chosen(MpiArgument::Pmi1, plain), None);
        for no_program in ["/", "/nowhere", "/dev/null"] {
            assert_eq!(chosen(MpiArgument::Auto, Path::new(no_program)), None, "{no_program}");
        }
    }
}
