//! The kernels in Rust and in C, as whole jobs on simulated nodes of this host. They give the same
//! answers with every way to wait, and as one process without messages.

use kernels::checksum::{mix, term};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use storm_mpi::testing::{CPrograms, Launcher, Outcome};
use tempfile::TempDir;

const RUST: &str = env!("CARGO_BIN_EXE_kernels");
/// (nodes, ranks per node): 2 ranks on one node and on two, 16 ranks.
const SHAPES: [(usize, usize); 3] = [(1, 2), (2, 1), (2, 8)];
/// Blocks that wait for their receiver and blocks that do not; parts of different sizes; all
/// exchanges.
const CASES: [&str; 7] = [
    "ring 1 3000",
    "ring 2 10",
    "stencil 37 24",
    "fft 64 1",
    "bsp --steps 3 --granularity 20 --imbalance 2 --heavy lower",
    "bsp --steps 3 --granularity 20 --imbalance 3 --heavy random --exchange all --words 5",
    "bsp --steps 3 --granularity 20 --heterogeneity 2 --exchange barrier",
];

/// The programs in C, compiled as a user would; each has its kernel's name.
static C_PROGRAMS: LazyLock<TempDir> = LazyLock::new(|| {
    let directory = TempDir::new().expect("a directory");
    let built = Path::new(RUST).parent().expect("in a directory");
    let c = CPrograms::install(built, directory.path()).expect("installed");
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    for kernel in ["ring", "stencil", "fft", "bsp"] {
        let mut command = c.mpicc();
        command.args(["-O1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-o"]);
        command.arg(directory.path().join(kernel)).arg(package.join(format!("c/{kernel}.c")));
        let output = command.arg("-lm").output().expect("the wrapper starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    directory
});

/// A kernel in Rust, or in C.
fn launcher(in_c: bool, words: &str, (nodes, per_node): (usize, usize)) -> Launcher {
    let mut words = words.split(' ');
    let launcher = if in_c {
        let program: PathBuf = C_PROGRAMS.path().join(words.next().expect("a kernel's name"));
        Launcher::new(program)
    } else {
        Launcher::new(RUST)
    };
    words.fold(launcher, Launcher::arg).nodes(nodes, per_node)
}

/// The line that must always be the same.
fn answer(launcher: &Launcher) -> String {
    let outcome = launcher.run().expect("it starts");
    assert!(outcome.success(), "{launcher:?}: {}", outcome.report());
    let line = outcome.ranks[0].stdout.lines().next().expect("an answer").to_owned();
    assert!(line.ends_with(", OK") || line.starts_with("bsp: "), "{line}");
    assert!(outcome.ranks[1..].iter().all(|rank| rank.stdout.is_empty()), "only rank 0 speaks");
    line
}

/// The text after a name in an answer.
fn value<'a>(answer: &'a str, name: &str) -> &'a str {
    let value = answer.split(", ").find_map(|part| part.strip_prefix(name));
    value.unwrap_or_else(|| panic!("no {name} in {answer}")).trim()
}

/// The answers of the Rust kernels with the default way to wait: of each case in each shape.
static BY_DEFAULT: LazyLock<Vec<String>> = LazyLock::new(|| {
    let all = CASES.iter().flat_map(|case| SHAPES.map(|shape| launcher(false, case, shape)));
    all.map(|launcher| answer(&launcher)).collect()
});

fn agree(wait: &str) {
    let cases = CASES.iter().flat_map(|case| SHAPES.map(|shape| (case, shape)));
    for ((case, shape), expected) in cases.zip(&*BY_DEFAULT) {
        for in_c in [false, true] {
            let found = answer(&launcher(in_c, case, shape).env("STORM_MPI_WAIT", wait));
            assert_eq!(found, *expected, "{wait}, in C: {in_c}");
        }
    }
}

#[test]
fn c_and_rust_agree_spinning() {
    agree("spin");
}

#[test]
fn c_and_rust_agree_blocking() {
    agree("block");
}

#[test]
fn c_and_rust_agree_spinning_and_blocking() {
    agree("spin-block");
}

#[test]
fn c_and_rust_agree_in_slices() {
    let cases = CASES.iter().flat_map(|case| SHAPES.map(|shape| (case, shape)));
    for ((case, shape), expected) in cases.zip(&*BY_DEFAULT) {
        for in_c in [false, true] {
            let found = answer(&launcher(in_c, case, shape).in_slices());
            assert_eq!(found, *expected, "in slices, in C: {in_c}");
        }
    }
}

/// Without spinning: 64 ranks on a few processors would otherwise wait for each other's time
/// slices.
#[test]
fn c_and_rust_agree_on_sixty_four_ranks() {
    for case in CASES {
        let [rust, c] = [false, true].map(|in_c| answer(&launcher(in_c, case, (4, 16))));
        assert_eq!(rust, c, "{case}");
        assert_eq!(answer(&launcher(false, case, (4, 16)).in_slices()), c, "{case}, in slices");
        assert!(rust.contains(": 64 ranks, "), "{rust}");
    }
}

#[test]
fn check_sums_do_not_depend_on_the_division() {
    let shapes = [(1, 1), (1, 4), (2, 8), (4, 16)];
    for (case, names) in [
        ("stencil 33 40", &["check sum", "last change"][..]),
        ("fft 64 2", &["check sum", "error"][..]),
    ] {
        let answers = shapes.map(|shape| answer(&launcher(false, case, shape)));
        for name in names {
            let first = value(&answers[0], name);
            assert!(answers.iter().all(|other| value(other, name) == first), "{answers:?}");
        }
    }
    // Another problem has another sum.
    let sum = |case| value(&answer(&launcher(false, case, (1, 2))), "check sum").to_owned();
    assert_ne!(sum("stencil 33 40"), sum("stencil 33 41"));
}

/// One process's result for all ranks' words after `steps` supersteps.
fn alone(exchange: &str, size: usize, words: usize, steps: u64) -> u64 {
    let start = |rank| (0..words as u64).map(|i| term(rank, i)).collect();
    let mut states: Vec<Vec<u64>> = (0..size as u64).map(start).collect();
    for step in 0..steps {
        let before = states.clone();
        for (rank, state) in states.iter_mut().enumerate() {
            for (i, word) in state.iter_mut().enumerate() {
                match exchange {
                    "neighbours" => {
                        let left = before[(rank + size - 1) % size][i];
                        let right = before[(rank + 1) % size][i];
                        *word = mix(*word ^ left).wrapping_add(mix(right));
                    }
                    "all" => {
                        let came = before.iter().map(|other| other[i] ^ rank as u64);
                        *word = came.fold(*word, |word, other| mix(word.wrapping_add(other)));
                    }
                    _ => {}
                }
                *word = mix(word.wrapping_add(step));
            }
        }
    }
    let words = states.iter().flatten();
    (0..).zip(words).fold(0, |sum: u64, (place, &word)| sum.wrapping_add(term(place, word)))
}

#[test]
fn supersteps_equal_the_result_of_one_process() {
    for exchange in ["barrier", "neighbours", "all"] {
        for shape in [(1, 1), (1, 2), (1, 3), (3, 2)] {
            let case = format!("bsp --steps 7 --granularity 0 --words 9 --exchange {exchange}");
            let sum = alone(exchange, shape.0 * shape.1, 9, 7);
            let answer = answer(&launcher(false, &case, shape));
            assert_eq!(value(&answer, "check sum"), format!("{sum:016x}"), "{answer}");
        }
    }
}

#[test]
fn computing_is_processor_time_as_uneven_as_asked_for() {
    // The mean of two ranks that compute 10 times 1 ms and 3 ms.
    let case = "bsp --steps 10 --granularity 1000 --imbalance 3 --heavy upper";
    for in_c in [false, true] {
        let outcome = launcher(in_c, case, (1, 2)).run().expect("it starts");
        assert!(outcome.success(), "{}", outcome.report());
        let times = outcome.ranks[0].stdout.lines().nth(1).expect("a second line");
        let computed = times.split("computed ").nth(1).and_then(|text| text.strip_suffix(" s"));
        let computed_s: f64 = computed.expect(times).parse().expect(times);
        // A rank never stops early. It may look at the clock late, by any time.
        assert!(computed_s >= 0.02 - 1e-6, "{times}");
    }
}

#[test]
fn wrong_arguments_are_explained_once() {
    let said = |outcome: &Outcome| outcome.ranks[0].stderr.clone();
    for case in ["stencil 1 10", "fft 12", "bsp --imbalance 0.5", "bsp --exchange rumours", "fft 1"]
    {
        for in_c in [false, true] {
            let outcome = launcher(in_c, case, (1, 2)).run().expect("it starts");
            assert!(outcome.ranks.iter().all(|rank| rank.status.code() == Some(2)), "{case}");
            assert!(!said(&outcome).is_empty() && outcome.ranks[1].stderr.is_empty(), "{case}");
        }
    }
    let outcome = launcher(false, "ring", (1, 1)).run().expect("it starts");
    assert!(said(&outcome).contains("at least 2 ranks"), "{}", said(&outcome));
}
