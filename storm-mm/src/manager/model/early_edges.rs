//! No job waits for the end of a slice whose elements idle (decision 0056). The quantum could be
//! hours here: no edge is ever reached.

use super::invariants::check_all;
use super::world::{PARTITION, World, spec};
use crate::job::Phase;
use std::collections::BTreeSet;
use storm_rm::{JobId, Row};

/// Flags for more jobs than three rows of eight elements hold.
const JOB_SLOTS: u32 = 32;

/// The jobs that have been launched, have not ended, and run in this slice.
fn running(world: &World) -> Vec<u64> {
    let active = world.core.active_row(PARTITION);
    let runs = |job: &JobId| world.core.live.get(*job).unwrap().rows().contains(active);
    let jobs: BTreeSet<JobId> = world.parts.keys().map(|(_, job, _)| *job).collect();
    jobs.into_iter().filter(runs).map(|job| job.0).collect()
}

#[test]
fn the_next_row_runs_as_soon_as_nobody_is_left_in_the_active_one() {
    let mut world = World::joined("gang", JOB_SLOTS);
    let [first, second, third] = [0, 1, 2].map(|_| world.submit(spec(8, false, false)));
    assert_eq!(running(&world), [first.0], "the others' rows do not run");
    for (ends, next, row) in [(first, second, Row(1)), (second, third, Row(2))] {
        world.end_job(ends, 0);
        assert_eq!(world.core.active_row(PARTITION), row);
        assert!(running(&world).contains(&next.0), "job {next} waits for an edge");
        assert_eq!(world.core.early_edge(PARTITION), Some(world.now), "a slice begins");
    }
    assert!(world.core.slice(PARTITION).is_none(), "one row is left");
}

#[test]
fn a_job_that_fits_the_active_row_starts_in_the_middle_of_a_slice() {
    let mut world = World::joined("gang", JOB_SLOTS);
    world.submit(spec(4, false, false));
    let whole = world.submit(spec(8, false, false));
    assert!(world.core.slice(PARTITION).is_some(), "there are two rows");
    let began = world.core.early_edge(PARTITION);
    let fits = world.submit(spec(2, true, false));
    world.staged(0, Ok(Default::default()));
    assert!(running(&world).contains(&fits.0));
    assert!(!running(&world).contains(&whole.0));
    assert_eq!(world.core.early_edge(PARTITION), began, "the slice goes on");
    // A job that fits only another row is placed there, and also runs in this row where elements
    // idle.
    let other = world.submit(spec(2, false, false));
    assert!(running(&world).contains(&other.0));
    check_all(&world);
}

#[test]
fn a_queue_of_short_jobs_flows_without_an_edge() {
    let mut world = World::joined("gang", JOB_SLOTS);
    let jobs: Vec<JobId> = (0..100).map(|_| world.submit(spec(1, false, false))).collect();
    for _ in &jobs {
        let job = *running(&world).first().expect("an element idles while jobs wait");
        world.end_job(JobId(job), 0);
    }
    let over = |job: &JobId| matches!(world.record(*job).phase, Phase::Ended(_));
    assert!(jobs.iter().all(over));
}

#[test]
fn no_element_idles_while_jobs_wait_that_want_one() {
    let mut world = World::joined("gang", JOB_SLOTS);
    for _ in 0..60 {
        world.submit(spec(1, false, false));
    }
    let waiting = |world: &World| world.core.partitions[PARTITION].policy().pending_count();
    assert_eq!(waiting(&world), 60 - 24, "three rows of eight are full");
    while waiting(&world) > 0 {
        // Ends the latest first, so that no row empties before the others.
        let now = running(&world);
        assert_eq!(now.len(), 8);
        world.end_job(JobId(*now.last().expect("eight run")), 0);
    }
}
