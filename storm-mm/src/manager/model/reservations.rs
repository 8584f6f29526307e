//! Reservations, case by case: the users, the refusals, and that reservations outlast the manager.

use super::invariants::check_all;
use super::world::{ADMIN, PARTITION, USER, World, spec};
use crate::api::{ApiError, ErrorCode, NodeState, Peer, ReservationRequest, ReservationView};
use crate::manager::{ClusterTimer, Timer};
use jiff::SignedDuration;
use std::time::Duration;
use storm_rm::{JobId, JobSpec};

const HOUR_S: u64 = 3600;

/// An hour of two nodes, in an hour.
fn window(world: &World, name: &str) -> ReservationRequest {
    let start = world.core.wall(world.now) + SignedDuration::from_secs(HOUR_S as i64);
    ReservationRequest {
        name: name.to_owned(),
        start: Some(start),
        duration_s: HOUR_S,
        nodes: Some("n[1-2]".to_owned()),
        node_count: None,
        pes: None,
        users: Vec::new(),
        partition: None,
    }
}

fn reserve(world: &mut World, request: &ReservationRequest) -> Result<ReservationView, ApiError> {
    world.act(|core, now| core.reserve(now, ADMIN, request))
}

fn limited(procs: u32, limit_s: u64) -> JobSpec {
    JobSpec { time_limit: Some(Duration::from_secs(limit_s)), ..spec(procs, false, false) }
}

fn submit_to(world: &mut World, spec: JobSpec, name: &str) -> Result<JobId, ApiError> {
    world.act(|core, now| core.submit_to(now, USER, spec, Default::default(), Some(name)))
}

fn reason(world: &World, job: JobId) -> String {
    world.core.explain(world.now, job).expect("it is known").reason
}

/// The nodes of a job that was placed.
fn nodes(world: &World, job: JobId) -> String {
    world.record(job).node_list.clone()
}

/// Advances to the next begin or end of a reservation.
fn turn(world: &mut World) {
    let wake = Timer::Cluster(ClusterTimer::Wake);
    let wakes = world.timers.iter().filter(|(_, timer)| *timer == wake);
    let at = wakes.map(|timer| timer.0).filter(|at| *at > world.now).min().expect("one is set");
    world.timers.retain(|(_, timer)| *timer != wake);
    world.now = at;
    world.act(|core, now| core.timer(now, wake));
}

#[test]
fn jobs_wait_for_their_reservation_and_keep_out_of_others_also_over_a_restart() {
    for sched in ["fcfs", "backfill", "conservative", "gang"] {
        let mut world = World::joined(sched, 8);
        let whole = world.core.partitions[PARTITION].policy().machine().pes();
        let request = window(&world, "demo");
        let made = reserve(&mut world, &request).expect("nothing stands against it");
        assert_eq!((made.nodes, made.active, made.node_list.as_str()), (2, false, "n[1-2]"));
        let own = submit_to(&mut world, limited(1, 60), "demo").expect("it may");
        let foreign = world.submit(spec(whole, false, false));
        let told = reason(&world, own);
        assert!(told.contains("its reservation demo begins at"), "{sched}: {told}");
        let told = reason(&world, foreign);
        assert!(told.contains("n[1-2] is reserved for demo from"), "{sched}: {told}");
        world.restart(|_| false, |_| false);
        let listed = world.core.list_reservations(world.now);
        assert_eq!((listed.len(), listed[0].jobs_pending), (1, 1), "{sched}: {listed:?}");
        assert!(reason(&world, own).contains("demo begins at"), "{sched}");
        turn(&mut world);
        assert!(world.core.list_reservations(world.now)[0].active, "{sched}");
        world.edge();
        assert!(["n1", "n2"].contains(&nodes(&world, own).as_str()), "{sched}");
        assert_eq!(world.record(foreign).runs, 0, "{sched}");
        check_all(&world);
        turn(&mut world);
        world.edge();
        assert!(world.core.list_reservations(world.now).is_empty(), "{sched}");
        world.finish();
        check_all(&world);
        assert_eq!(world.record(foreign).runs, 1, "{sched}: it is over");
    }
}

#[test]
fn a_reservation_is_named_also_where_a_running_job_is_in_the_way() {
    for sched in ["fcfs", "backfill", "conservative", "gang"] {
        let mut world = World::joined(sched, 8);
        let whole = world.core.partitions[PARTITION].policy().machine().pes();
        // Gang scheduling has a row for each job.
        let rows = world.core.partitions[PARTITION].rows_max();
        for _ in 0..rows {
            world.submit(limited(whole, 600));
        }
        let request = window(&world, "demo");
        reserve(&mut world, &request).expect("nothing stands against it");
        let long = world.submit(limited(whole, 2 * HOUR_S));
        let short = world.submit(limited(1, 60));
        let told = world.core.explain(world.now, long).expect("it waits");
        for words in ["free PE", "; and n[1-2] is reserved for demo from"] {
            assert!(told.reason.contains(words), "{sched}: {}", told.reason);
        }
        let [reserved] = &told.reserved[..] else { panic!("{sched}: {:?}", told.reserved) };
        assert_eq!(
            (reserved.reservation.as_str(), reserved.start),
            ("demo", request.start.unwrap())
        );
        assert_eq!(reserved.node_list, "n[1-2]", "{sched}");
        let told = world.core.explain(world.now, short).expect("it waits");
        let early = told.estimate.is_none_or(|estimate| estimate < request.start.unwrap());
        assert!(!early || told.reserved.is_empty(), "{sched}: it is over by then: {told:?}");
    }
}

#[test]
fn a_node_is_reserved_while_its_reservation_is_under_way_and_nobody_runs_there() {
    let mut world = World::joined("fcfs", 8);
    let state = |world: &World, node: usize| {
        let view = world.core.list_nodes(world.now).swap_remove(node - 1);
        (view.state, view.reservation, view.reason)
    };
    let request = window(&world, "demo");
    reserve(&mut world, &request).expect("nothing stands against it");
    assert_eq!(state(&world, 1), (NodeState::Idle, None, None), "it has not begun");
    turn(&mut world);
    let demo = Some("demo".to_owned());
    let why = Some("reserved for demo".to_owned());
    assert_eq!(state(&world, 1), (NodeState::Reserved, demo.clone(), why.clone()));
    assert_eq!(state(&world, 3), (NodeState::Idle, None, None), "it is another's");
    submit_to(&mut world, limited(1, 60), "demo").expect("it may");
    let used = [1, 2].map(|node| state(&world, node));
    assert!(used.contains(&(NodeState::Mixed, demo.clone(), why.clone())), "{used:?}");
    assert!(used.contains(&(NodeState::Reserved, demo, why)), "{used:?}");
    turn(&mut world);
    assert_eq!(state(&world, 2).1, None, "it is over");
}

#[test]
fn a_deleted_reservation_binds_no_job_and_its_number_is_not_reused() {
    let mut world = World::joined("fcfs", 8);
    let request = window(&world, "demo");
    reserve(&mut world, &request).expect("nothing stands against it");
    let own = submit_to(&mut world, spec(1, false, false), "demo").expect("it may");
    let delete = |world: &mut World, peer| {
        world.act(|core, now| core.unreserve(now, peer, "demo")).map_err(|error| error.code)
    };
    assert_eq!(delete(&mut world, USER), Err(ErrorCode::NotPermitted));
    assert_eq!(delete(&mut world, ADMIN), Ok(()));
    assert_eq!(world.record(own).runs, 1, "it is a job like others now");
    assert_eq!(delete(&mut world, ADMIN), Err(ErrorCode::NoSuchReservation));
    world.restart(|_| false, |_| false);
    let request = window(&world, "demo");
    reserve(&mut world, &request).expect("its name is free again");
    let id = world.core.reservations_of(world.now, storm_rm::PartitionId(0))[0].id;
    assert_eq!(id.0, 2);
    world.finish();
    check_all(&world);
}

/// Nodes of a reservation were removed, and the reasons of its waiting jobs did not name the loss.
#[test]
fn a_job_of_a_reservation_that_has_lost_nodes_says_so_and_runs_when_it_is_over() {
    let mut world = World::joined("fcfs", 8);
    let nodes = Some("n[3-4]".to_owned());
    let request = ReservationRequest { nodes, ..window(&world, "demo") };
    reserve(&mut world, &request).expect("nothing stands against it");
    let own = submit_to(&mut world, limited(4, 60), "demo").expect("it may");
    fn fewer(config: &mut crate::CoreConfig) {
        config.nodes.truncate(3);
        config.partitions[0].nodes.truncate(3);
    }
    world.edit = fewer;
    world.restart(|node| node.0 == 4, |_| false);
    let told = reason(&world, own);
    assert!(told.contains("its reservation demo, until") && told.contains("has lost n4"), "{told}");
    turn(&mut world);
    let told = reason(&world, own);
    assert!(told.contains("has lost n4"), "{told}");
    turn(&mut world);
    assert_eq!(world.record(own).runs, 1, "it is over: a job like others");
    check_all(&world);
}

#[test]
fn impossible_reservations_are_refused_with_the_obstacle() {
    let mut world = World::joined("fcfs", 8);
    let request = window(&world, "demo");
    let refused = |world: &mut World, request: ReservationRequest| {
        let error = reserve(world, &request).expect_err("it cannot be");
        (error.code, format!("{error}"))
    };
    let error = world.act(|core, now| core.reserve(now, USER, &request)).expect_err("no admin");
    assert_eq!(error.code, ErrorCode::NotPermitted);
    let past = Some(world.core.wall(world.now) - SignedDuration::from_secs(1));
    let cases = [
        (ReservationRequest { start: past, ..request.clone() }, "cannot begin at"),
        (ReservationRequest { duration_s: 0, ..request.clone() }, "lasts from 1"),
        (ReservationRequest { name: "a b".to_owned(), ..request.clone() }, "is not a name"),
        (ReservationRequest { nodes: Some("n99".to_owned()), ..request.clone() }, "no node n99"),
        (ReservationRequest { nodes: None, ..request.clone() }, "by name, or a number"),
        (
            ReservationRequest { partition: Some("other".to_owned()), ..request.clone() },
            "no partition \"other\"",
        ),
    ];
    for (request, text) in cases {
        let (_, told) = refused(&mut world, request);
        assert!(told.contains(text), "{told}");
    }
    reserve(&mut world, &request).expect("nothing stands against it");
    assert!(refused(&mut world, request.clone()).1.contains("already"));
    let second = ReservationRequest { name: "second".to_owned(), ..request.clone() };
    assert!(refused(&mut world, second.clone()).1.contains("n1 is reserved for \"demo\" from"));
    let all = world.core.partitions[PARTITION].members().len() as u32;
    let many = ReservationRequest { nodes: None, node_count: Some(all), ..second.clone() };
    assert!(refused(&mut world, many.clone()).1.contains("are in no other reservation then"));
    let rest = ReservationRequest { node_count: Some(all - 2), ..many };
    let rest = reserve(&mut world, &rest).expect("the others are free");
    assert_eq!(rest.nodes, all - 2);
    assert!(!rest.node_list.contains("n1"), "{rest:?}");
}

#[test]
fn a_job_that_a_reservation_cannot_run_is_refused_with_the_constraint() {
    let mut world = World::joined("fcfs", 8);
    let users = vec![USER.uid.to_string()];
    let request = ReservationRequest { users, ..window(&world, "demo") };
    reserve(&mut world, &request).expect("nothing stands against it");
    let refused = |world: &mut World, spec: JobSpec, name: &str| {
        format!("{}", submit_to(world, spec, name).expect_err("it cannot run"))
    };
    let whole = world.core.partitions[PARTITION].policy().machine().pes();
    let cases = [
        (spec(1, false, false), "demon", "no reservation \"demon\""),
        (spec(whole, false, false), "demo", "on its nodes alone"),
        (limited(1, HOUR_S + 1), "demo", "its time limit is 3601 s, and there are 3600 s of it"),
        (
            JobSpec { partition: Some("other".to_owned()), ..spec(1, false, false) },
            "demo",
            "no nodes of partition \"other\"",
        ),
    ];
    for (spec, name, text) in cases {
        let told = refused(&mut world, spec, name);
        assert!(told.contains(text), "{told}");
    }
    let stranger = Peer { uid: USER.uid + 1, ..USER };
    let asked = spec(1, false, false);
    let service = Default::default();
    let error = world.act(|core, now| core.submit_to(now, stranger, asked, service, Some("demo")));
    let error = error.expect_err("it is not for him");
    assert_eq!(error.code, ErrorCode::NotPermitted);
}
