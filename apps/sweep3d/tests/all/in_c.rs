//! The program in C, compiled as a user would, prints the same line as the program in Rust, bit for
//! bit.

use std::path::{Path, PathBuf};
use storm_mpi::testing::{CPrograms, Launcher, Outcome};
use tempfile::TempDir;

const RUST: &str = env!("CARGO_BIN_EXE_sweep3d");
/// Grids that divide evenly and grids that do not, all boundaries and sources, blocks of all sizes,
/// faces too large to be sent eagerly, more ranks than cells.
const CASES: [&str; 5] = [
    "--grid 16x16x8 --mk 2",
    "--grid 13x7x5 --sn 6 --mmi 4 --mk 2 --width 1.5 --source uniform --steps 2",
    "--grid 9x10x6 --reflect ijk --source corner --scattering 0.8 --mk 4 --epsi 0.01",
    "--grid 24x24x48 --mk 48 --sn 8 --mmi 10 --iterations 2 --total 2",
    "--grid 3x2x4 --iterations 5 --sn 2",
];

/// Compiles the program; it lives as long as the directory.
fn compiled() -> (TempDir, PathBuf) {
    let directory = TempDir::new().expect("a directory");
    let built = Path::new(RUST).parent().expect("in a directory");
    let c = CPrograms::install(built, directory.path()).expect("installed");
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = directory.path().join("sweep3d");
    let mut command = c.mpicc();
    command.args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-o"]);
    command.arg(&program).arg(package.join("c/sweep3d.c")).arg("-lm");
    let output = command.output().expect("the wrapper starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (directory, program)
}

fn run(program: &Path, words: &str, (nodes, per_node): (usize, usize)) -> Outcome {
    let launcher = Launcher::new(program).nodes(nodes, per_node);
    words.split(' ').fold(launcher, Launcher::arg).run().expect("it starts")
}

fn line(program: &Path, words: &str, shape: (usize, usize)) -> String {
    let outcome = run(program, words, shape);
    assert!(outcome.success(), "{words}: {}", outcome.report());
    assert!(outcome.ranks[1..].iter().all(|rank| rank.stdout.is_empty()), "only rank 0 speaks");
    outcome.ranks[0].stdout.clone()
}

#[test]
fn the_c_program_prints_the_same_line_as_the_rust_program() {
    let (_directory, c) = compiled();
    for case in CASES {
        let mut answers = Vec::new();
        for shape in [(1, 1), (1, 2), (2, 3), (2, 8), (4, 16)] {
            let rust = line(Path::new(RUST), &format!("{case} --brief"), shape);
            assert_eq!(line(&c, case, shape), rust, "{case} on {shape:?}");
            assert!(rust.ends_with(", OK\n"), "{rust}");
            let (_, answer) = rust.split_once(" ranks, ").expect("the number of ranks");
            answers.push(answer.to_owned());
        }
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    }
    for wrong in ["--grid 8x8", "--sn 3", "--scattering 1", "--reflect x", "--nonsense 1", "--mk"] {
        let outcome = run(&c, wrong, (1, 2));
        assert!(outcome.ranks.iter().all(|rank| rank.status.code() == Some(2)), "{wrong}");
        assert!(
            outcome.ranks[0].stderr.contains("no such option")
                && outcome.ranks[1].stderr.is_empty()
        );
    }
}
