//! Whole jobs of real processes on simulated nodes: shared memory inside, loopback TCP between.

use storm_mpi::testing::{Launcher, Outcome, example};

fn run(launcher: Launcher) -> Outcome {
    let outcome = launcher.run().expect("the launcher works");
    assert!(outcome.success(), "{}", outcome.report());
    outcome
}

fn case(name: &str) -> Launcher {
    Launcher::new(example("mpi_check")).arg(name)
}

fn seeded(name: &str, seed: u64) -> Launcher {
    case(name).arg(seed.to_string())
}

/// All values of `STORM_MPI_WAIT`.
const WAITS: [&str; 3] = ["spin", "block", "spin-block"];

/// (nodes, ranks per node): one node, all remote, mixed.
const SHAPES: [(usize, usize); 3] = [(1, 6), (6, 1), (3, 2)];

#[test]
fn a_job_of_one_needs_no_process_manager() {
    let outcome = std::process::Command::new(example("mpi_check")).arg("hello").output().unwrap();
    assert!(String::from_utf8_lossy(&outcome.stdout).starts_with("rank 0 of 1 on "));
}

#[test]
fn every_rank_learns_its_place() {
    let outcome = run(case("hello").nodes(2, 2));
    for (rank, out) in outcome.ranks.iter().enumerate() {
        assert!(out.stdout.starts_with(&format!("rank {rank} of 4 on ")), "{}", out.stdout);
    }
}

#[test]
fn ring_passes_a_token() {
    for (nodes, per_node) in [(1, 1), (1, 2), (2, 1), (1, 7), (3, 3)] {
        run(case("ring").nodes(nodes, per_node));
    }
}

#[test]
fn short_messages_of_every_length_arrive_in_their_order() {
    for (nodes, per_node) in SHAPES.into_iter().chain([(1, 2)]) {
        for wait in WAITS {
            run(case("short").nodes(nodes, per_node).env("STORM_MPI_WAIT", wait));
        }
    }
}

#[test]
fn ring_over_scattered_ranks() {
    run(case("ring").placement(&[0, 1, 2, 0, 1, 2, 2, 1, 0]));
}

#[test]
fn all_pairs_of_random_sizes() {
    for (seed, (nodes, per_node)) in (1u64..).zip(SHAPES) {
        run(seeded("pairs", seed).nodes(nodes, per_node));
    }
}

#[test]
fn any_source_sees_everybody_in_order() {
    for (nodes, per_node) in SHAPES {
        run(case("any_source").nodes(nodes, per_node));
    }
}

#[test]
fn messages_do_not_overtake() {
    for (seed, (nodes, per_node)) in (1u64..).zip([(1, 2), (2, 1), (2, 2)]) {
        run(seeded("order", seed).nodes(nodes, per_node));
    }
}

#[test]
fn both_sides_may_send_first() {
    for (nodes, per_node) in [(1, 2), (2, 1), (2, 2)] {
        run(case("head_to_head").nodes(nodes, per_node));
    }
}

#[test]
fn ranks_that_connect_at_once_keep_one_connection() {
    for (nodes, per_node) in [(2, 1), (6, 1), (3, 2)] {
        for wait in WAITS {
            let elsewhere = ((nodes - 1) * per_node) as u64;
            run(seeded("crossing", elsewhere).nodes(nodes, per_node).env("STORM_MPI_WAIT", wait));
        }
    }
}

#[test]
fn a_flood_is_bounded_and_matched_in_any_order() {
    for (nodes, per_node) in [(1, 2), (2, 1)] {
        run(case("flood").nodes(nodes, per_node));
    }
}

#[test]
fn a_reader_of_a_stream_still_writes() {
    for (nodes, per_node) in [(3, 1), (1, 3)] {
        for wait in WAITS {
            run(case("stream").nodes(nodes, per_node).env("STORM_MPI_WAIT", wait));
        }
    }
    // The stream comes from a neighbour. The neighbour tells the other rank over TCP to end, or the
    // other rank tells the neighbour.
    for placement in [[0, 0, 1], [0, 1, 0]] {
        run(case("stream").placement(&placement));
    }
}

#[test]
fn a_rank_may_send_to_itself() {
    run(case("self").nodes(1, 1));
    run(case("self").nodes(2, 1));
}

#[test]
fn test_makes_progress() {
    for (nodes, per_node) in [(1, 2), (2, 1)] {
        run(case("test").nodes(nodes, per_node));
    }
}

#[test]
fn collectives_match_serial_results_and_are_reproducible() {
    for (nodes, per_node) in [(1, 1), (1, 2), (3, 1), (1, 7), (4, 4)] {
        let sums: Vec<String> = (1..=2)
            .map(|seed| run(seeded("collectives", seed).nodes(nodes, per_node)))
            .flat_map(|outcome| outcome.ranks.into_iter().map(|rank| rank.stdout))
            .collect();
        assert!(sums.iter().all(|sum| *sum == sums[0] && sum.trim().len() == 16), "{sums:?}");
    }
}

#[test]
fn sixty_four_ranks_on_one_node() {
    run(case("ring").nodes(1, 64));
    run(case("collectives").nodes(1, 64));
    run(case("any_source").nodes(1, 64));
}

#[test]
fn sixty_four_ranks_on_sixteen_nodes() {
    run(case("collectives").nodes(16, 4));
}

#[test]
fn every_way_to_wait_gives_the_same() {
    for mode in WAITS {
        for name in ["any_source", "collectives", "test"] {
            for (nodes, per_node) in [(1, 2), (2, 1)] {
                run(case(name).nodes(nodes, per_node).env("STORM_MPI_WAIT", mode));
            }
        }
    }
    let outcome = case("hello").nodes(1, 2).env("STORM_MPI_WAIT", "sometimes").run().unwrap();
    assert!(!outcome.success());
    let said: String = outcome.ranks.iter().map(|rank| rank.stderr.as_str()).collect();
    assert!(said.contains("STORM_MPI_WAIT") && said.contains("sometimes"), "{said}");
}

#[test]
fn errors_are_typed_and_leave_the_job_usable() {
    for (nodes, per_node) in [(1, 2), (2, 1)] {
        run(case("errors").nodes(nodes, per_node));
    }
}

#[test]
fn an_abort_ends_the_whole_job_however_its_ranks_wait() {
    for mode in WAITS {
        let outcome = case("die").nodes(2, 2).env("STORM_MPI_WAIT", mode).run().unwrap();
        assert_eq!(outcome.aborted, Some(7), "{mode}: {}", outcome.report());
        assert!(!outcome.timed_out && !outcome.success(), "{mode}");
    }
}

#[test]
fn a_lost_peer_on_another_node_is_named_however_its_peers_wait() {
    for mode in WAITS {
        let lost = case("lost").nodes(3, 1).env("STORM_MPI_WAIT", mode);
        let outcome = lost.spare_survivors().run().unwrap();
        for survivor in &outcome.ranks[..2] {
            assert_eq!(survivor.status.code(), Some(3), "{mode}: {}", outcome.report());
            let said = &survivor.stderr;
            assert!(said.contains("told: lost rank 2"), "{mode}: {said}");
        }
    }
}
