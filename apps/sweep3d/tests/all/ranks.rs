//! The program on many ranks: the same bits on every process grid, and true exit statuses.

use storm_mpi::testing::{Launcher, Outcome};

const PROGRAM: &str = env!("CARGO_BIN_EXE_sweep3d");

fn launch(nodes: usize, ranks_per_node: usize, arguments: &str) -> Outcome {
    let launcher = Launcher::new(PROGRAM).nodes(nodes, ranks_per_node);
    let words = arguments.split_whitespace();
    words.fold(launcher, |launcher, word| launcher.arg(word)).run().expect("the launcher works")
}

/// Everything in the report that must not depend on the number of ranks.
fn figures(nodes: usize, ranks_per_node: usize, arguments: &str) -> serde_json::Value {
    let outcome = launch(nodes, ranks_per_node, &format!("{arguments} --json --verify"));
    assert!(outcome.success(), "{}{}", outcome.ranks[0].stdout, outcome.report());
    let mut report: serde_json::Value = serde_json::from_str(&outcome.ranks[0].stdout).unwrap();
    let object = report.as_object_mut().unwrap();
    assert_eq!(object["ok"], true);
    for varies in ["elapsed_s", "updates_per_s", "process_grid"] {
        assert!(object.remove(varies).is_some());
    }
    report
}

/// (nodes, ranks per node) for 1, 2, 3, 4, 6 and 16 ranks.
const SHAPES: [(usize, usize); 6] = [(1, 1), (2, 1), (1, 3), (2, 2), (3, 2), (2, 8)];

fn assert_same_bits(arguments: &str) {
    let alone = figures(1, 1, arguments);
    for (nodes, ranks_per_node) in SHAPES {
        let figures = figures(nodes, ranks_per_node, arguments);
        assert_eq!(figures, alone, "{nodes} x {ranks_per_node}: {arguments}");
    }
}

#[test]
fn same_bits_on_a_grid_that_divides() {
    assert_same_bits("--grid 16x16x8 --mk 2");
}

#[test]
fn same_bits_on_a_grid_that_does_not() {
    assert_same_bits("--grid 13x7x5 --sn 6 --mmi 4 --mk 2 --width 1.5 --steps 2");
}

#[test]
fn same_bits_with_reflecting_faces() {
    assert_same_bits("--grid 9x10x6 --reflect ijk --source corner --scattering 0.8 --mk 4");
}

#[test]
fn same_bits_with_more_ranks_than_cells() {
    assert_same_bits("--grid 3x2x4 --iterations 5 --sn 2");
}

#[test]
fn same_bits_with_faces_too_large_to_send_unasked() {
    assert_same_bits("--grid 24x24x48 --mk 48 --sn 8 --mmi 10 --iterations 2");
}

#[test]
fn process_grid_may_be_given() {
    let alone = figures(1, 1, "--grid 8x8x8");
    assert_eq!(figures(1, 6, "--grid 8x8x8 --npe-i 6"), alone);
    assert_eq!(figures(1, 6, "--grid 8x8x8 --npe-j 6"), alone);
}

#[test]
fn the_report_says_that_the_answer_is_right() {
    let outcome = launch(1, 2, "--grid 8x8x8 --verbose");
    assert!(outcome.success());
    let [first, second] = &outcome.ranks[..] else { panic!("two ranks") };
    assert!(first.stdout.trim_end().ends_with("answer: OK"), "{}", first.stdout);
    assert!(first.stderr.starts_with("iteration     1  error "), "{}", first.stderr);
    assert_eq!(second.stdout.clone() + &second.stderr, "", "only rank 0 speaks");
}

#[test]
fn wrong_arguments_are_explained_once() {
    let cases = [
        ("--grid 8x8", "cells as IxJxK"),
        ("--npe-i 3", "is not 2 ranks"),
        ("--scattering 1", "below 1"),
        ("--nonsense", "unexpected argument"),
    ];
    for (arguments, text) in cases {
        let outcome = launch(1, 2, arguments);
        assert!(outcome.ranks[0].stderr.contains(text), "{}", outcome.ranks[0].stderr);
        assert_eq!(outcome.ranks[1].stderr, "");
        assert!(outcome.ranks.iter().all(|rank| rank.status.code() == Some(2)));
    }
}
