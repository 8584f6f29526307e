//! The jobs that are forgotten when the history is full, and listings meanwhile.

use super::model_config;
use super::world::{USER, World, spec};
use crate::api::{HistoryQuery, JobView, Part, Peer};
use crate::manager::Core;
use storm_rm::JobId;

/// The limit is so small that one job of each user is protected.
const LIMIT: usize = 10;

fn world() -> World {
    let mut world = World::joined("fcfs", 4);
    world.core.jobs.set_history_limit(LIMIT);
    world
}

fn other(uid: u32) -> Peer {
    Peer { uid, ..USER }
}

/// Cancels `count` jobs of a user.
fn end(world: &mut World, user: Peer, count: usize) -> Vec<JobId> {
    let mut held = spec(1, false, false);
    held.needs.hold = true;
    let jobs: Vec<JobId> = (0..count)
        .map(|_| world.act(|core, now| core.submit(now, user, held.clone())).expect("room"))
        .collect();
    let done = world.act(|core, now| core.cancel_all(now, user, &jobs, None, &[]));
    assert!(done.iter().all(Result::is_ok), "{done:?}");
    jobs
}

fn ids(views: &[JobView]) -> Vec<JobId> {
    views.iter().map(|view| view.id).collect()
}

fn all() -> HistoryQuery {
    HistoryQuery { limit: u32::MAX, ..HistoryQuery::default() }
}

/// The remembered jobs, the latest first. A manager that begins on the journal keeps the same jobs.
fn remembered(world: &World) -> Vec<JobId> {
    let left = ids(&world.core.history(world.now, &all()));
    let again =
        Core::new(model_config(LIMIT), world.journal.clone(), world.now).expect("as before");
    assert_eq!(ids(&again.history(world.now, &all())), left);
    left
}

#[test]
fn a_user_with_many_ended_jobs_does_not_push_out_others_over_a_restart() {
    let mut world = world();
    let others = end(&mut world, other(7), 4);
    let own = end(&mut world, USER, 200);
    let expected: Vec<JobId> = own[191..].iter().rev().chain([&others[3]]).copied().collect();
    assert_eq!(remembered(&world), expected);
    // Beyond the protected jobs, jobs are forgotten in the order in which they ended, whichever
    // user's they are.
    let others = end(&mut world, other(7), 6);
    let expected: Vec<JobId> =
        others.iter().rev().chain(own[196..].iter().rev()).copied().collect();
    assert_eq!(remembered(&world), expected);
}

#[test]
fn where_all_are_protected_the_latest_are_remembered() {
    let mut world = world();
    let ended: Vec<JobId> = (0..15).flat_map(|n| end(&mut world, other(100 + n), 1)).collect();
    assert_eq!(remembered(&world), ended[5..].iter().rev().copied().collect::<Vec<_>>());
}

#[test]
fn a_listing_goes_on_behind_a_job_that_is_forgotten_meanwhile() {
    let mut world = world();
    let others: Vec<JobId> = (0..4).flat_map(|n| end(&mut world, other(100 + n), 1)).collect();
    let own = end(&mut world, USER, 6);
    let part = Part { after: None, most: 3 };
    let (first, more) = world.core.history_part(world.now, &all(), part);
    assert_eq!((ids(&first), more), (vec![own[5], own[4], own[3]], true));
    end(&mut world, USER, 50);
    let after = first.last().and_then(|last| last.place);
    assert!(after.is_some() && !world.core.jobs.contains_key(&own[3]), "it is forgotten");
    let (next, more) = world.core.history_part(world.now, &all(), Part { after, most: 3 });
    assert_eq!((ids(&next), more), (vec![others[3], others[2], others[1]], true));
    let after = next.last().and_then(|last| last.place);
    let (last, more) = world.core.history_part(world.now, &all(), Part { after, most: 3 });
    assert_eq!((ids(&last), more), (vec![others[0]], false));
}
