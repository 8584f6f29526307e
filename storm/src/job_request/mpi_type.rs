//! How the ranks of a program join their job: the user's choice, or else the libraries of the
//! program, or of the program that it executes in its place.

use super::program::find_program;
use crate::cli::MpiArgument;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use storm_nm::MPI_TYPE_PMIX;
use storm_pmix::Linkage;

/// Programs that execute another program from their arguments, after a change to its environment or
/// under observation: from coreutils, util-linux, numactl and time, and debuggers and tracers.
const WRAPPERS: [&str; 24] = [
    "chrt", "env", "gdb", "i386", "ionice", "linux32", "linux64", "ltrace", "nice", "nohup",
    "numactl", "perf", "prlimit", "setarch", "setpriv", "setsid", "stdbuf", "strace", "taskset",
    "time", "timeout", "unshare", "valgrind", "x86_64",
];

/// The value of [`storm_nm::MPI_TYPE_VARIABLE`] for the nodes; `None` for PMI-1. `linkage` is known
/// if the program was read here. A program that is only on the nodes counts as PMI-1. `arguments`
/// are those of the program.
pub(super) fn chosen(
    asked: MpiArgument,
    linkage: Option<Linkage>,
    program: &Path,
    arguments: &[OsString],
) -> Option<&'static str> {
    let pmix = match asked {
        MpiArgument::Pmi1 => false,
        MpiArgument::Pmix => true,
        MpiArgument::Auto => {
            let own = linkage.map_or_else(|| is_of_open_mpi(program), |linkage| linkage.open_mpi);
            own || is_wrapper(program)
                && wrapped(program, arguments, |argument| find_program(argument).ok())
                    .is_some_and(|program| is_of_open_mpi(&program))
        }
    };
    pmix.then_some(MPI_TYPE_PMIX)
}

/// A note if the user asks for PMIx but the program is linked with MPICH or `storm-mpi`. The ranks
/// then find no server that they can use, and each takes itself for the whole job.
pub(crate) fn doubt(asked: MpiArgument, typed: &[OsString]) -> Option<String> {
    let (MpiArgument::Pmix, [name, arguments @ ..]) = (asked, typed) else { return None };
    let named = find_program(name).ok()?;
    let find = |argument: &OsString| find_program(argument).ok();
    let wrapped = is_wrapper(&named).then(|| wrapped(&named, arguments, find)).flatten();
    let program = wrapped.unwrap_or(named);
    linkage(&program).other_mpi.then(|| {
        format!(
            "--mpi pmix: {} is linked with MPICH or storm-mpi. Unless that is an MPICH that was built for PMIx, \
             each rank is alone, as rank 0 of 1: leave --mpi and STORM_MPI_TYPE out, or say --mpi pmi1",
            program.display()
        )
    })
}

fn is_wrapper(program: &Path) -> bool {
    program.file_name().is_some_and(|name| WRAPPERS.iter().any(|wrapper| name == *wrapper))
}

/// The program that a wrapper executes: its first argument that is a program and not another
/// wrapper. Options, their values and settings name no programs. perf(1) has a command such as
/// `stat` first.
fn wrapped(
    wrapper: &Path,
    arguments: &[OsString],
    find: impl Fn(&OsString) -> Option<PathBuf>,
) -> Option<PathBuf> {
    let is_perf = |program: &Path| program.file_name().is_some_and(|name| name == "perf");
    let mut is_command = is_perf(wrapper);
    for argument in arguments {
        if std::mem::take(&mut is_command) {
            continue;
        }
        let Some(program) = find(argument) else { continue };
        if !is_wrapper(&program) {
            return Some(program);
        }
        is_command = is_perf(&program);
    }
    None
}

fn is_of_open_mpi(program: &Path) -> bool {
    linkage(program).open_mpi
}

fn linkage(program: &Path) -> Linkage {
    // Opening anything but a regular file may block for ever.
    let file = program.is_file().then(|| File::open(program).ok()).flatten();
    file.map(|file| Linkage::of(&file, program)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_overrides_the_linked_library() {
        let plain = Path::new("/bin/true");
        assert_eq!(chosen(MpiArgument::Auto, None, plain, &[]), None);
        assert_eq!(chosen(MpiArgument::Pmix, None, plain, &[]), Some("pmix"));
        assert_eq!(chosen(MpiArgument::Pmi1, None, plain, &[]), None);
        let mut linkage = Linkage::default();
        assert_eq!(chosen(MpiArgument::Auto, Some(linkage), Path::new("/nowhere"), &[]), None);
        linkage.open_mpi = true;
        assert_eq!(chosen(MpiArgument::Auto, Some(linkage), plain, &[]), Some("pmix"));
        let called_as_one = Path::new("/home/u/perf");
        assert_eq!(chosen(MpiArgument::Auto, Some(linkage), called_as_one, &[]), Some("pmix"));
        for no_program in ["/", "/nowhere", "/dev/null"] {
            let chosen = chosen(MpiArgument::Auto, None, Path::new(no_program), &[]);
            assert_eq!(chosen, None, "{no_program}");
        }
    }

    #[test]
    fn a_program_behind_wrappers_is_found_and_what_is_given_to_it_is_not() {
        let there = ["nice", "gdb", "solve", "mpirun", "input", "perf", "stat"];
        let find = |argument: &OsString| {
            let is_there = there.iter().any(|name| argument == name);
            is_there.then(|| Path::new("/bin").join(argument))
        };
        let wrapped_in = |line: &str| {
            let arguments: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            let wrapper = Path::new("/usr/bin").join(&arguments[0]);
            wrapped(&wrapper, &arguments[1..], find)
                .map(|path| path.display().to_string())
                .unwrap_or_default()
        };
        assert_eq!(wrapped_in("env -i A=solver solve input"), "/bin/solve");
        assert_eq!(wrapped_in("nice -n 3 gdb -batch -ex run --args solve -v"), "/bin/solve");
        assert_eq!(wrapped_in("env mpirun -n 2 solve"), "/bin/mpirun", "it has servers of its own");
        assert_eq!(wrapped_in("nice -n 3 nice"), "");
        assert_eq!(wrapped_in("perf stat solve"), "/bin/solve", "stat is no program there");
        assert_eq!(wrapped_in("nice perf stat -d solve"), "/bin/solve");
        assert_eq!(wrapped_in("env"), "");
        assert!(is_wrapper(Path::new("/usr/bin/env")) && !is_wrapper(Path::new("./environment")));
    }
}
