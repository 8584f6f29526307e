//! Programs of unmodified MPICHs, which find each other through PMI-1, on hosts that are
//! network namespaces of this machine. UCX takes all of it for one host and would use
//! shared memory: it is told to use TCP, and the bytes that cross the network are counted.

#[path = "../scratch/mod.rs"]
mod scratch;

mod library;

use library::{Library, missing};
use scratch::hosts::Hosts;
use scratch::{Scratch, stderr, stdout, told};
use std::fs;
use std::path::Path;
use std::process::Output;
use std::sync::{Mutex, PoisonError};

/// Ranks wait by polling: tests at the same time would wait for each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Bytes of the vector that `allreduce` sums up.
const VECTOR_BYTES: u64 = 8 << 20;

/// Where ScaLAPACK's test programs are in Debian's `scalapack-mpi-test`.
const SCALAPACK: &str = "/usr/lib/x86_64-linux-gnu/scalapack/mpich-tests";

/// A Cholesky factorization on a grid of 1 x 2 processes: names, output, device, triangle,
/// sizes, block sizes, right-hand sides and their blocks, grids, threshold, refinement.
const CHOLESKY: &str =
    "'LLt'\n'MPI'\n'LLT.out'\n6\n'U'\n1\n31\n2\n3 8\n1\n3\n1\n3\n1\n1\n2\n3.0\nT\n";

/// A cluster of two hosts, and a program on it.
struct Bench<'a> {
    scratch: &'a Scratch,
    hosts: Hosts,
}

impl Bench<'_> {
    /// Runs a program; a limit of time ends one that hangs.
    fn run(&self, options: &str, program: &Path, argument: &str) -> Output {
        let mut command = self.scratch.storm(["run", "--time", "100s"]);
        command.args(self.hosts.at().split_whitespace()).args(options.split_whitespace());
        command.arg(program).args(argument.split_whitespace()).env("UCX_TLS", "tcp,self");
        command.output().expect("storm starts")
    }

    /// The lines of a run that must succeed, sorted.
    fn lines(&self, options: &str, program: &Path, argument: &str) -> Vec<String> {
        let done = self.run(options, program, argument);
        assert!(done.status.success(), "{argument}: {}", told(&done));
        let mut lines: Vec<String> = stdout(&done).lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    }
}

/// What every MPICH must do on two hosts.
fn does_everything(library: Option<Library>) {
    let Some(library) = library else { return };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let scratch = Scratch::make();
    let Some(hosts) = Hosts::cluster(&scratch, 2, 32) else { return };
    let bench = Bench { scratch: &scratch, hosts };
    let program = scratch.work().join("program");
    library.compile(&program);
    let four = |argument| bench.lines("-n 4 -N 2", &program, argument);
    let version = bench.lines("-n 1", &program, "version").join("\n");
    let first = version.lines().find_map(|line| line.strip_prefix("MPICH Version:"));
    let first = first.unwrap_or_else(|| panic!("not MPICH: {version}")).trim();
    assert!(first.starts_with(library.version), "{version}");
    assert_eq!(four("hello"), [0, 1, 2, 3].map(|rank| format!("rank {rank} of 4")));
    let places = [0, 1, 2, 3].map(|rank: i32| {
        let local = rank % 2;
        format!("rank {rank}: {local} of 2, told {local} of 2")
    });
    assert_eq!(four("shared"), places);
    assert_eq!(four("ring"), ["ring 4"]);
    let sent = |host| bench.hosts.sent_bytes(host);
    let before = [sent(1), sent(2)];
    assert_eq!(four("allreduce"), [0, 1, 2, 3].map(|rank| format!("rank {rank}: 0 wrong")));
    for (host, before) in [(1, before[0]), (2, before[1])] {
        let crossed = sent(host) - before;
        assert!(crossed >= VECTOR_BYTES, "only {crossed} bytes left host {host}");
    }
    refusals(&bench, &program);
    let many = bench.lines("-n 64 -N 2", &program, "hello");
    assert_eq!(many.len(), 64, "{many:?}");
}

/// What is refused, with an error of MPI and not a hang, and the end that a rank asks for.
fn refusals(bench: &Bench<'_>, program: &Path) {
    let refused = |what: &str| [0, 1].map(|rank| format!("rank {rank}: {what}"));
    assert_eq!(bench.lines("-n 2 -N 2", program, "spawn"), refused("spawn refused"));
    let mut expected = [refused("lookup refused"), refused("publish refused")].concat();
    expected.sort_unstable();
    assert_eq!(bench.lines("-n 2 -N 2", program, "names"), expected);
    let aborted = bench.run("-n 4 -N 2", program, "quit");
    assert_eq!(aborted.status.code(), Some(7), "{}", told(&aborted));
    let said = stderr(&aborted);
    assert!(said.contains("rank 3 aborted the job with exit code 7"), "{said}");
}

#[test]
fn debians_mpich_runs_across_hosts() {
    does_everything(Library::of_debian());
}

#[test]
fn the_mpich_of_pypi_runs_across_hosts() {
    does_everything(Library::of_pypi());
}

#[test]
fn a_program_of_scalapack_factorizes_across_hosts() {
    let program = Path::new(SCALAPACK).join("xdllt");
    if !program.exists() {
        return missing("ScaLAPACK", "apt-get install scalapack-mpi-test");
    }
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let scratch = Scratch::make();
    let Some(hosts) = Hosts::cluster(&scratch, 2, 2) else { return };
    let bench = Bench { scratch: &scratch, hosts };
    fs::create_dir(scratch.work().join("input")).expect("made");
    fs::write(scratch.work().join("input/LLT.dat"), CHOLESKY).expect("written");
    let done = bench.run("-n 2 -N 2 --chdir input", &program, "");
    assert!(done.status.success(), "{}", told(&done));
    let said = stdout(&done);
    assert!(said.contains("2 tests completed and passed residual checks"), "{said}");
    assert!(said.contains("0 tests completed and failed residual checks"), "{said}");
}
