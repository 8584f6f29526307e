//! Changes of a partition's policy at run time: when they take effect, and which jobs they hit.

use super::invariants::check_all;
use super::world::{ADMIN, PARTITION, USER, World, spec};
use crate::api::ErrorCode;
use crate::job::Phase;
use std::time::Duration;
use storm_primitives::NodeId;
use storm_rm::JobId;

#[test]
fn a_partition_with_three_rows_drains_before_it_shares_space_and_loses_nothing() {
    let mut world = World::joined("gang", 8);
    let [first, next, last] = [0, 1, 2].map(|_| world.submit(spec(8, false, false)));
    world.edge();
    (0..world.starts.len()).for_each(|_| world.started(0));
    let queued: Vec<JobId> = (0..4).map(|_| world.submit(spec(5, false, false))).collect();
    let set = |world: &mut World, sched| {
        let set = world.act(|core, now| core.set_partition(now, ADMIN, "all", Some(sched), None));
        check_all(world);
        set.expect("there is one")
    };
    let refused = world.act(|core, now| core.set_partition(now, USER, "all", Some("fcfs"), None));
    assert_eq!(refused.expect_err("a user may not").code, ErrorCode::NotPermitted);
    let view = set(&mut world, "fcfs");
    assert_eq!((view.sched.as_str(), view.next_sched.as_deref()), ("gang", Some("fcfs")));
    let reason = world.core.explain(world.now, queued[0]).unwrap().reason;
    assert!(reason.contains("changes to fcfs"), "{reason}");
    let quantum = Some(Duration::from_millis(3));
    let refused = world.act(|core, now| core.set_partition(now, ADMIN, "all", None, quantum));
    let said = refused.expect_err("the policy to come has no slices").message;
    assert_eq!(said, "partition all is changing to fcfs, which cuts no time slices");
    world.edge();
    world.restart(|_| false, |_| false);
    check_all(&world);
    assert!(world.core.slice(PARTITION).is_some(), "the rows go on");
    for job in [first, next] {
        assert_eq!(world.core.list_partitions()[0].sched, "gang");
        world.end_job(job, 0);
        world.edge();
    }
    check_all(&world);
    let view = &world.core.list_partitions()[0];
    assert_eq!((view.sched.as_str(), view.next_sched.as_deref()), ("fcfs", None));
    assert_eq!(world.record(last).row.map(|row| row.0), Some(0), "it was in another");
    assert!(matches!(world.record(last).phase, Phase::Running | Phase::Starting));
    world.restart(|_| false, |_| false);
    assert_eq!(world.core.list_partitions()[0].sched, "fcfs");
    world.end_job(last, 0);
    assert_eq!(world.started_jobs().len(), 4, "space is shared: one after the other");
    set(&mut world, "gang");
    assert!(world.started_jobs().len() > 4, "time is shared");
    world.node_down(NodeId(1));
    world.finish();
    check_all(&world);
    assert!(queued.iter().all(|job| matches!(world.record(*job).phase, Phase::Ended(_))));
}

#[test]
fn a_change_back_before_the_drain_is_over_takes_effect_at_once() {
    let mut world = World::joined("gang", 8);
    for _ in 0..2 {
        world.submit(spec(8, false, false));
    }
    world.edge();
    let queued = world.submit(spec(1, false, false));
    for sched in ["fcfs", "gang"] {
        let set = world.act(|core, now| core.set_partition(now, ADMIN, "all", Some(sched), None));
        set.expect("there is one");
        check_all(&world);
    }
    world.edge();
    assert!(world.started_jobs().contains(&queued.0));
    let quantum = Some(Duration::from_micros(1));
    let set = world.act(|core, now| core.set_partition(now, ADMIN, "all", None, quantum));
    assert_eq!(set.expect_err("too short").code, ErrorCode::BadRequest);
    let quantum = Some(Duration::from_millis(3));
    let set = world.act(|core, now| core.set_partition(now, ADMIN, "all", None, quantum));
    assert_eq!(set.expect("in range").quantum_us, Some(3_000));
    assert_eq!(world.core.slice(PARTITION), quantum);
}

#[test]
fn from_and_to_slices_of_communication_a_partition_changes_when_its_jobs_have_ended() {
    for [former, next] in [["bcs", "gang"], ["fcfs", "bcs"]] {
        let mut world = World::joined(former, 8);
        let set = |world: &mut World, sched| {
            let set =
                world.act(|core, now| core.set_partition(now, ADMIN, "all", Some(sched), None));
            check_all(world);
            let view = set.expect("there is one");
            (view.sched, view.next_sched)
        };
        let running = world.submit(spec(8, false, false));
        world.started(0);
        assert_eq!(set(&mut world, next), (former.to_owned(), Some(next.to_owned())));
        assert_eq!(set(&mut world, former), (former.to_owned(), None), "it is taken back");
        set(&mut world, next);
        let queued = world.submit(spec(1, false, false));
        let reason = world.core.explain(world.now, queued).unwrap().reason;
        assert!(reason.contains("as soon as its jobs have ended"), "{reason}");
        world.end_job(running, 0);
        assert_eq!(world.core.list_partitions()[0].sched, next);
        assert!(world.started_jobs().contains(&queued.0), "under the new policy");
        assert_eq!(set(&mut world, "sjf").1.is_some(), next == "bcs", "by the same rule");
        world.finish();
    }
}

/// An ended job was listed under the present policy of its partition.
#[test]
fn an_ended_job_keeps_the_policy_under_which_it_ended() {
    let mut world = World::joined("gang", 4);
    let set = |world: &mut World, sched| {
        let set = world.act(|core, now| core.set_partition(now, ADMIN, "all", Some(sched), None));
        set.expect("there is such a policy");
    };
    let ended = |world: &mut World| {
        let mut spec = spec(1, false, false);
        spec.needs.hold = true;
        let job = world.submit(spec);
        assert!(world.cancel(job));
        job
    };
    let first = ended(&mut world);
    set(&mut world, "fcfs");
    let jobs = [first, ended(&mut world)];
    set(&mut world, "sjf");
    for _ in 0..2 {
        let shown = jobs.map(|job| world.act(|core, now| core.show(now, job)));
        let shown = shown.map(|job| job.expect("it is known").view.sched);
        assert_eq!(shown, ["gang", "fcfs"]);
        world.restart(|_| false, |_| false);
    }
}
