//! The limit on the manager's memory that one user's jobs may take.

use super::world::{USER, World, spec};
use crate::api::{ErrorCode, Peer};
use storm_rm::Environment;

#[test]
fn one_user_does_not_fill_the_manager_with_what_waits() {
    let mut world = World::joined("fcfs", 4);
    let submit = |world: &mut World, number: usize| {
        let mut spec = spec(1, false, false);
        spec.needs.hold = true;
        spec.step.env = Environment::default().with("N", &format!("{number:040960}"));
        world.act(|core, now| core.submit(now, USER, spec))
    };
    let mut jobs = Vec::new();
    let refused = loop {
        match submit(&mut world, jobs.len()) {
            Ok(job) => jobs.push(job),
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused.code, ErrorCode::QueueFull);
    // Each job takes 40 KiB and the rest of its specification.
    assert!((1_500..1_638).contains(&jobs.len()), "{} jobs in 64 MiB", jobs.len());
    world.restart(|_| false, |_| false);
    submit(&mut world, jobs.len() - 1).expect("it has the environment of the last");
    submit(&mut world, 10_000).expect_err("full as before");
    assert!(world.cancel(jobs[1]));
    assert_eq!(world.record(jobs[1]).spec.step.env, Environment::default());
    submit(&mut world, 10_000).expect("one is over");
}

#[test]
fn one_user_does_not_fill_the_queue_of_all() {
    let mut world = World::joined("fcfs", 4);
    world.core.config.edit().user_jobs_max = 30;
    let array = |world: &mut World, user: Peer, tasks: usize| {
        let mut spec = spec(1, false, false);
        (spec.needs.hold, spec.owner.uid) = (true, user.uid);
        spec.needs.array = Some(format!("1-{tasks}").parse().expect("an array"));
        world.act(|core, now| core.submit(now, user, spec))
    };
    let arrays: Vec<_> = (0..3).map(|_| array(&mut world, USER, 10).expect("room")).collect();
    let refused = array(&mut world, USER, 1).expect_err("one too many");
    assert_eq!(refused.code, ErrorCode::QueueFull);
    assert!(refused.message.contains("you have 30 unfinished jobs"), "{refused:?}");
    array(&mut world, Peer { uid: USER.uid + 1, ..USER }, 10).expect("others have room");
    assert!(world.cancel(arrays[0]));
    array(&mut world, USER, 10).expect("there is room again");
}
