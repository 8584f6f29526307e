//! What is feasible fits an empty machine, and what is not never does: the
//! arithmetic against brute force and against every policy.

use proptest::prelude::*;
use storm_sched::suite::oracle;
use storm_sched::{
    Action, Event, Infeasible, JobId, JobRequest, Machine, NodeIndex, Policy, PolicyParams,
    SchedTime, feasible, registry,
};

fn request(procs: u32, nodes: Option<u32>) -> JobRequest {
    let request = JobRequest::new(JobId(1), procs);
    nodes.map_or(request.clone(), |nodes| request.with_nodes(nodes))
}

/// Whether every policy agrees that the job starts, and whether it does.
fn starts(mut policy: Box<dyn Policy>, request: &JobRequest) -> bool {
    let actions = policy.handle(SchedTime::ZERO, Event::Submit(request.clone()));
    policy.check().unwrap();
    matches!(actions.first(), Some(Action::Start { .. }))
}

fn machines() -> impl Strategy<Value = Machine> {
    let sizes = prop::collection::vec(1..=4u32, 1..=5);
    sizes.prop_filter_map("too many PEs for the oracle", |sizes| {
        let fits = sizes.iter().sum::<u32>() <= oracle::MAX_ORACLE_PES;
        fits.then(|| Machine::new(sizes.into_iter().map(|pes| ("n", pes))).unwrap())
    })
}

proptest! {
    #[test]
    fn feasible_is_what_brute_force_can_place_and_every_policy_places(
        machine in machines(),
        procs in 0..12u32,
        nodes in prop::option::of(0..7u32),
    ) {
        let request = request(procs, nodes);
        let verdict = feasible(&machine, &request);
        let free = vec![true; machine.pes() as usize];
        prop_assert_eq!(verdict.is_ok(), oracle::fits(&machine, &free, &request));
        for name in registry::names() {
            let policy =
                registry::by_name(name, machine.clone(), &PolicyParams::default()).unwrap();
            prop_assert_eq!(starts(policy, &request), verdict.is_ok(), "{}", name);
        }
    }

    #[test]
    fn whatever_the_up_nodes_can_take_starts_on_an_empty_machine(
        nodes in 1..70u32,
        pes_per_node in 1..9u32,
        down in prop::collection::vec(0..70u32, 0..20),
        share in 0.0..1.0f64,
    ) {
        let machine = Machine::uniform(nodes, pes_per_node).unwrap();
        for name in registry::names() {
            let params = PolicyParams::default();
            let mut policy = registry::by_name(name, machine.clone(), &params).unwrap();
            for node in down.iter().filter(|node| **node < nodes) {
                policy.handle(SchedTime::ZERO, Event::NodeDown(NodeIndex(*node)));
            }
            let up = policy.machine().usable_pes();
            let procs = ((f64::from(up) * share).ceil() as u32).max(1);
            prop_assert_eq!(starts(policy, &request(procs, None)), procs <= up, "{}", name);
        }
    }
}

#[test]
fn a_job_as_large_as_a_machine_of_odd_size_starts() {
    let machine = Machine::uniform(48, 4).unwrap();
    for name in registry::names() {
        let policy = registry::by_name(name, machine.clone(), &PolicyParams::default()).unwrap();
        assert!(starts(policy, &request(192, None)), "{name}");
    }
}

#[test]
fn reasons_tell_what_was_asked_what_there_is_and_what_to_try() {
    let machine = Machine::new([("a", 4), ("b", 4), ("c", 2), ("d", 2)]).unwrap();
    let reason = |procs, nodes| match feasible(&machine, &request(procs, nodes)) {
        Err(why) => why.to_string(),
        Ok(()) => panic!("{procs} processes on {nodes:?} nodes are feasible"),
    };
    assert_eq!(
        reason(300, None),
        "300 processes were asked for, and the partition has 12 PEs on 4 nodes: \
         ask for at most 12 with -n"
    );
    assert_eq!(
        reason(9, Some(5)),
        "5 nodes were asked for, and the partition has 4: ask for at most 4 with -N"
    );
    assert_eq!(
        reason(2, Some(3)),
        "2 processes cannot be on 3 nodes, one each at least: \
         ask for at least 3 with -n, or at most 2 nodes with -N"
    );
    assert_eq!(
        reason(9, Some(3)),
        "9 processes on 3 nodes put 3 on each of 3 nodes, and 2 of the partition's 4 nodes \
         have 3 PEs or more: ask for 4 nodes with -N, or leave -N out"
    );
    assert_eq!(
        reason(12, Some(4)),
        "12 processes on 4 nodes put 3 on each of 4 nodes, and 2 of the partition's 4 nodes \
         have 3 PEs or more: leave -N out, or ask for fewer processes with -n"
    );
    assert!(reason(0, None).starts_with("a job needs at least one process"));
    assert!(reason(1, Some(0)).starts_with("a job needs at least one node"));
}

#[test]
fn a_job_that_fits_only_with_the_nodes_that_are_down_is_feasible() {
    let mut machine = Machine::uniform(2, 4).unwrap();
    machine.set_state(NodeIndex(0), storm_sched::NodeState::Down);
    assert_eq!(feasible(&machine, &request(8, None)), Ok(()));
    let too_many = Infeasible::TooManyProcs { asked: 9, pes: 8, nodes: 2 };
    assert_eq!(feasible(&machine, &request(9, None)), Err(too_many));
}
