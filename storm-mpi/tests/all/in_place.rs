//! Long messages inside a node that are read in their sender's memory: whole jobs of real
//! processes.

use nix::sys::signal::Signal;
use std::os::unix::process::ExitStatusExt;
use storm_mpi::testing::{Launcher, Outcome, example};

fn case(name: &str) -> Launcher {
    Launcher::new(example("in_place_check")).arg(name)
}

fn ran(launcher: Launcher) -> Outcome {
    let outcome = launcher.run().expect("the launcher works");
    assert!(outcome.success(), "{}", outcome.report());
    outcome
}

#[test]
fn every_byte_of_every_length_and_alignment() {
    for (nodes, per_node) in [(1, 2), (1, 6), (2, 1), (2, 3)] {
        ran(case("sizes").nodes(nodes, per_node));
    }
}

#[test]
fn a_refused_receiver_is_sent_the_message() {
    ran(case("sizes").nodes(1, 4).env("CHECK_READV", "refused"));
}

#[test]
fn nobody_reads_where_it_is_forbidden_and_some_do_otherwise() {
    let forbidden = case("sizes").nodes(1, 2).env("CHECK_READV", "fatal");
    ran(forbidden.clone().env("STORM_MPI_ONE_COPY", "off"));
    let outcome = forbidden.run().expect("the launcher works");
    let killed = |signal: Option<i32>| signal == Some(Signal::SIGSYS as i32);
    let any = outcome.ranks.iter().any(|rank| killed(rank.status.signal()));
    assert!(any && !outcome.timed_out, "{}", outcome.report());
}

#[test]
fn a_setting_that_means_nothing_is_refused() {
    let outcome = case("sizes").nodes(1, 2).env("STORM_MPI_ONE_COPY", "perhaps").run().unwrap();
    let said: String = outcome.ranks.iter().map(|rank| rank.stderr.as_str()).collect();
    assert!(!outcome.success() && said.contains("STORM_MPI_ONE_COPY"), "{said}");
}

#[test]
fn a_sender_that_is_gone_is_named() {
    for mode in ["spin", "block", "spin-block"] {
        let lost = case("lost").nodes(1, 2).env("STORM_MPI_WAIT", mode);
        let outcome = lost.spare_survivors().run().unwrap();
        let survivor = &outcome.ranks[0];
        assert_eq!(survivor.status.code(), Some(3), "{mode}: {}", outcome.report());
        assert!(survivor.stderr.contains("told: lost rank 1"), "{mode}: {}", survivor.stderr);
    }
}

#[test]
fn a_message_that_is_unmapped_ends_its_sender_and_the_job() {
    let outcome = case("unmapped").nodes(1, 2).run().unwrap();
    let sender = outcome.ranks[1].status.signal();
    assert_eq!(sender, Some(Signal::SIGSEGV as i32), "{}", outcome.report());
    assert!(!outcome.timed_out && !outcome.ranks[0].status.success(), "{}", outcome.report());
}
