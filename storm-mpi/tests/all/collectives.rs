//! Collectives in one round of messages, in whole jobs of real processes. The tests compare their
//! bits with those along trees, and count their rounds if nodes move messages in slices.

use std::time::Duration;
use storm_mpi::testing::{Launcher, Outcome, example};

/// Interval of slices for programs that do not wait, but poll.
const TICK: Duration = Duration::from_millis(2);

fn ran(launcher: Launcher) -> Outcome {
    let outcome = launcher.run().expect("the launcher works");
    assert!(outcome.success(), "{launcher:?}: {}", outcome.report());
    outcome
}

#[test]
fn at_once_or_along_trees_the_bits_are_the_same() {
    for seed in ["1", "2"] {
        let compared = Launcher::new(example("collective_check")).arg("compare").arg(seed);
        ran(compared.clone().nodes(2, 10).env("STORM_MPI_WAIT", "block"));
        ran(compared.nodes(2, 10).in_slices());
    }
}

#[test]
fn the_checks_of_messages_and_communicators_hold_in_slices() {
    for case in ["ring", "pairs", "any_source", "order", "head_to_head", "test", "collectives"] {
        ran(Launcher::new(example("mpi_check"))
            .arg(case)
            .nodes(2, 3)
            .in_slices()
            .at_least_every(TICK));
    }
    for (nodes, per_node) in [(1, 1), (2, 1), (3, 3), (4, 5)] {
        ran(Launcher::new(example("comm_check")).nodes(nodes, per_node).in_slices());
    }
}

/// Number of rounds of messages that a collective of `members` members takes.
fn rounds(kind: &str, members: usize, bytes: usize, way: &str) -> u64 {
    let one = Launcher::new(example("collective_check"))
        .arg("one")
        .arg(kind)
        .arg(bytes.to_string())
        .arg(way);
    ran(one.nodes(1, members).in_slices()).slices.expect("in slices")
}

#[test]
fn a_collective_takes_one_round_of_messages_where_a_tree_takes_many() {
    // Kind, members, bytes of each, rounds at once, and along a tree, a chain or a ring.
    let cases = [
        ("barrier", 16, 0, 1, 8),
        ("bcast", 16, 20_000, 1, 4),
        // Messages that are sent without a request; along a tree each is requested.
        ("bcast", 4, 100_000, 1, 6),
        ("reduce", 16, 20_000, 1, 4),
        ("allreduce", 16, 8, 1, 8),
        // Through one member, which takes fewer bytes.
        ("allreduce", 16, 20_000, 2, 8),
        ("reduce_scatter", 16, 40_000, 1, 5),
        ("scan", 16, 8, 1, 15),
        ("exscan", 16, 20_000, 2, 15),
        // Blocks of a sixteenth of the bytes: gathered and broadcast, or round a ring.
        ("allgather", 16, 8_000, 1, 5),
        ("allgather", 16, 160_000, 1, 15),
        ("gather", 16, 8_000, 1, 1),
        ("scatter", 16, 8_000, 1, 1),
        ("alltoall", 16, 8_000, 1, 1),
    ];
    for (kind, members, bytes, at_once, along) in cases {
        let found = ["at-once", "along"].map(|way| rounds(kind, members, bytes, way));
        assert_eq!(found, [at_once, along], "{kind} of {bytes} bytes, {members} members");
    }
}

#[test]
fn with_many_members_it_goes_by_way_of_one() {
    for (kind, at_once, along) in
        [("barrier", 2, 8), ("allreduce", 2, 8), ("scan", 2, 19), ("bcast", 1, 4)]
    {
        let found = ["at-once", "along"].map(|way| rounds(kind, 20, 800, way));
        assert_eq!(found, [at_once, along], "{kind}");
    }
}
