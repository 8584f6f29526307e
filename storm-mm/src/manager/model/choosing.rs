//! Jobs that leave the manager a choice of partitions or of numbers of nodes, and jobs that name
//! nodes.

use super::invariants::check_all;
use super::world::{ADMIN, USER, World, spec};
use crate::CoreConfig;
use crate::api::{ApiError, ErrorCode};
use storm_primitives::NodeId;
use storm_rm::{JobId, JobSpec, Resources};

/// Partitions `all` and `others`, each of two nodes with two elements.
fn halves(config: &mut CoreConfig) {
    let mut others = config.partitions[0].clone();
    config.partitions[0].nodes = vec![0, 1];
    (others.name, others.nodes, others.default) = ("others".to_owned(), vec![2, 3], false);
    config.partitions.push(others);
}

fn divided() -> World {
    let mut world = World::joined("fcfs", 8);
    world.edit = halves;
    world.restart(|_| false, |_| false);
    world
}

fn submitted(world: &mut World, spec: JobSpec) -> Result<JobId, ApiError> {
    let done = world.act(|core, now| core.submit(now, USER, spec));
    check_all(world);
    done
}

#[test]
fn a_job_of_several_partitions_goes_where_it_can_start() {
    let mut world = divided();
    let both =
        |procs| JobSpec { partition: Some("others,all".to_owned()), ..spec(procs, false, false) };
    let partition = |world: &World, job: JobId| world.record(job).partition.clone();
    let first = submitted(&mut world, both(4)).unwrap();
    assert_eq!(partition(&world, first), "others", "the first that it names");
    let second = submitted(&mut world, both(3)).unwrap();
    assert_eq!(partition(&world, second), "all", "there is room");
    let third = submitted(&mut world, both(4)).unwrap();
    assert_eq!(partition(&world, third), "others", "as many wait in both");
    let fourth = submitted(&mut world, both(4)).unwrap();
    assert_eq!(partition(&world, fourth), "all", "fewer wait");
    let unknown = JobSpec { partition: Some("all,none".to_owned()), ..spec(1, false, false) };
    let refused = submitted(&mut world, unknown).unwrap_err();
    assert_eq!(refused.code, ErrorCode::NoSuchPartition);
    assert!(refused.message.contains("\"none\""), "{}", refused.message);
    assert_eq!(submitted(&mut world, both(5)).unwrap_err().code, ErrorCode::Infeasible);
    world.finish();
}

#[test]
fn the_smallest_number_of_nodes_that_fits_is_taken() {
    let mut world = World::joined("fcfs", 8);
    let of = |procs, least, most| {
        let resources = Resources { nodes_max: Some(most), ..Resources::default() };
        JobSpec { nodes: Some(least), resources, ..spec(procs, false, false) }
    };
    for (procs, least, most, nodes) in [(2, 1, 4, 1), (3, 1, 4, 2), (4, 3, 9, 3)] {
        let job = submitted(&mut world, of(procs, least, most)).unwrap();
        assert_eq!(world.record(job).spec.nodes, Some(nodes));
        world.finish();
    }
    assert_eq!(submitted(&mut world, of(8, 1, 3)).unwrap_err().code, ErrorCode::Infeasible);
}

#[test]
fn a_job_has_the_nodes_that_it_requires_and_none_that_it_excludes() {
    let mut world = World::joined("gang", 8);
    let named = |required: Option<&str>, excluded: Option<&str>| Resources {
        required_nodes: required.map(str::to_owned),
        excluded_nodes: excluded.map(str::to_owned),
        ..Resources::default()
    };
    let asking = |procs, resources| JobSpec { resources, ..spec(procs, false, false) };
    let job = submitted(&mut world, asking(4, named(Some("n3"), Some("n1,n2")))).unwrap();
    assert_eq!(world.record(job).spec.resources.excluded_nodes.as_deref(), Some("n[1-2]"));
    let nodes: Vec<NodeId> = world.record(job).nodes().iter().collect();
    assert_eq!(nodes, [NodeId(3), NodeId(4)]);
    world.finish();
    // A drained node is waited for, over a restart, too.
    world.act(|core, now| core.drain(now, ADMIN, "n2", "its disk fails")).unwrap();
    let waits = submitted(&mut world, asking(1, named(Some("n2"), None))).unwrap();
    for _ in 0..2 {
        let told = world.core.explain(world.now, waits).unwrap();
        assert!(told.reason.starts_with("n2 is drained: "), "{}", told.reason);
        assert!(told.details[0].contains("n2 among them"), "{:?}", told.details);
        world.restart(|_| false, |_| false);
    }
    world.act(|core, now| core.resume(now, ADMIN, "n2")).unwrap();
    assert_eq!(world.record(waits).nodes().iter().collect::<Vec<_>>(), [NodeId(2)]);
    world.finish();
    let unknown = submitted(&mut world, asking(1, named(Some("n9"), None))).unwrap_err();
    assert_eq!(unknown.code, ErrorCode::NoSuchNode);
    let long = "n".repeat(3_000);
    let long = submitted(&mut world, asking(1, named(None, Some(&long)))).unwrap_err();
    assert_eq!(long.code, ErrorCode::TooLarge);
    let both = submitted(&mut world, asking(1, named(Some("n1"), Some("n[1-2]")))).unwrap_err();
    assert!(both.why.is_some_and(|why| why.contains("--exclude")));
}
