//! How the ranks of a program join their job: as the user says, or as the program is linked.

use crate::cli::MpiArgument;
use std::fs::File;
use std::path::Path;
use storm_nm::MPI_TYPE_PMIX;

/// The value of [`storm_nm::MPI_TYPE_VARIABLE`] for the nodes; `None` where PMI-1 will do. A
/// program that cannot be read here, being on the nodes only, is taken for one of PMI-1. One that
/// is `shipped` is open already.
pub(super) fn chosen(
    asked: MpiArgument,
    shipped: Option<&File>,
    program: &Path,
) -> Option<&'static str> {
    let pmix = match asked {
        MpiArgument::Pmi1 => false,
        MpiArgument::Pmix => true,
        MpiArgument::Auto => match shipped {
            Some(program) => storm_pmix::needs_pmix(program),
            // To open what is no file may wait for ever.
            None => {
                program.is_file()
                    && File::open(program).is_ok_and(|program| storm_pmix::needs_pmix(&program))
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
        let open = File::open(plain).expect("it is there");
        assert_eq!(chosen(MpiArgument::Auto, Some(&open), Path::new("/nowhere")), None);
        for no_program in ["/", "/nowhere", "/dev/null"] {
            let chosen = chosen(MpiArgument::Auto, None, Path::new(no_program));
            assert_eq!(chosen, None, "{no_program}");
        }
    }
}
