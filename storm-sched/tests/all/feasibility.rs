//! A feasible job fits an empty machine, and any other job never does. The arithmetic is compared
//! with brute force and with every policy.

use proptest::prelude::*;
use storm_sched::suite::oracle;
use storm_sched::{
    Action, Constraint, Event, Infeasible, JobId, JobRequest, Machine, NodeIndex, NodeMemory,
    NodeSpec, Policy, PolicyParams, SchedTime, feasible, registry,
};

fn request(procs: u32, nodes: Option<u32>) -> JobRequest {
    let request = JobRequest::new(JobId(1), procs);
    nodes.map_or(request.clone(), |nodes| request.with_nodes(nodes))
}

/// Whether the policy starts the job at once.
fn starts(mut policy: Box<dyn Policy>, request: &JobRequest) -> bool {
    let actions = policy.handle(SchedTime::ZERO, Event::Submit(request.clone()));
    policy.check().unwrap();
    matches!(actions.first(), Some(Action::Start { .. }))
}

fn machines() -> impl Strategy<Value = Machine> {
    let features = prop::sample::subsequence(vec!["a", "b"], 0..=2);
    let node = (1..=4u32, features, prop::option::of(1..6u64));
    let nodes = prop::collection::vec(node, 1..=5);
    nodes.prop_filter_map("too many PEs for the oracle", |nodes| {
        let fits = nodes.iter().map(|(pes, ..)| pes).sum::<u32>() <= oracle::MAX_ORACLE_PES;
        let node = |(pes, features, memory_bytes)| {
            let spec = NodeSpec::new("n", pes).with_features::<&str>(features);
            NodeSpec { memory_bytes, ..spec }
        };
        fits.then(|| Machine::of_nodes(nodes.into_iter().map(node)).unwrap())
    })
}

/// The demands of a job in addition to processes and nodes; most often none.
fn asked_besides() -> impl Strategy<Value = JobRequest> {
    let memory = prop_oneof![
        3 => Just(NodeMemory::Unstated),
        1 => (0..7u64).prop_map(NodeMemory::Bytes),
        1 => Just(NodeMemory::Whole),
    ];
    let constraint = prop::option::of(prop::sample::select(vec!["a", "b", "a&b", "a|b", "c"]));
    let per_node = prop::option::weighted(0.3, 0..4u32);
    let per_pe = prop_oneof![3 => Just(0), 1 => 1..4u64];
    let of_each = prop_oneof![3 => Just(1), 1 => 0..4u32];
    let all = (of_each, per_node, memory, per_pe, any::<bool>(), constraint);
    all.prop_map(|(of_each, per_node, memory, per_pe, exclusive, constraint)| {
        let mut request = request(1, None).with_pes_per_proc(of_each).with_node_memory(memory);
        request = request.with_memory(per_pe);
        request.procs_per_node = per_node;
        request.exclusive = exclusive;
        let constraint = constraint.map(|text| text.parse::<Constraint>().unwrap());
        constraint.map_or(request.clone(), |constraint| request.with_constraint(constraint))
    })
}

proptest! {
    #[test]
    fn feasible_is_what_brute_force_can_place_and_every_policy_places(
        machine in machines(),
        procs in 0..12u32,
        nodes in prop::option::of(0..7u32),
        besides in asked_besides(),
    ) {
        let mut request = besides;
        (request.procs, request.nodes) = (procs, nodes);
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
    fn a_job_that_fits_the_up_nodes_starts_on_an_empty_machine(
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
fn reasons_name_the_request_the_supply_and_a_remedy() {
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

/// `-N 9` alone also asks for nine processes, which the user did not mention.
#[test]
fn too_many_nodes_are_reported_before_the_processes() {
    let machine = Machine::uniform(2, 2).unwrap();
    let too_many = Infeasible::TooManyNodes { asked: 9, nodes: 2 };
    assert_eq!(feasible(&machine, &request(9, Some(9))), Err(too_many));
}

/// Two small nodes, one with a GPU and one without, and a large one.
fn machine_of_kinds() -> Machine {
    const GIB: u64 = 1 << 30;
    let nodes = [
        NodeSpec::new("a", 4).with_memory(16 * GIB).with_features(["gpu"]),
        NodeSpec::new("b", 4).with_memory(64 * GIB),
        NodeSpec::new("c", 8).with_memory(32 * GIB).with_features(["fast", "big"]),
    ];
    Machine::of_nodes(nodes).unwrap()
}

fn refusal(request: &JobRequest) -> String {
    feasible(&machine_of_kinds(), request).expect_err("it can never run").to_string()
}

#[test]
fn missing_nodes_and_features_are_named() {
    let one = || request(1, None);
    let on = |text: &str| one().with_constraint(text.parse().unwrap());
    assert_eq!(
        refusal(&on("ib")),
        "no node of the partition has feature ib; there are big, fast and gpu: \
         change --constraint"
    );
    assert_eq!(
        refusal(&on("gpu&fast")),
        "no node of the partition has the features gpu&fast; there are big, fast and gpu: \
         change --constraint"
    );
    let memory =
        |request: JobRequest, gib: u64| request.with_node_memory(NodeMemory::Bytes(gib << 30));
    assert_eq!(refusal(&memory(one(), 512)), "--mem 512 GiB: the largest node has 64 GiB");
    assert_eq!(
        refusal(&memory(on("gpu"), 17)),
        "--mem 17 GiB: the largest node with feature gpu has 16 GiB"
    );
    assert_eq!(
        refusal(&one().with_pes_per_proc(2).with_memory(40 << 30)),
        "--mem-per-cpu for 2 PEs of a process, 80 GiB: the largest node has 64 GiB"
    );
    assert_eq!(
        refusal(&one().with_pes_per_proc(9)),
        "--cpus-per-task 9: the largest node has 8 PEs"
    );
    assert_eq!(
        refusal(&memory(one(), 33).with_pes_per_proc(8)),
        "no node has 8 PEs and 33 GiB of memory for one process: ask for less of one of them"
    );
}

#[test]
fn processes_without_room_on_suitable_nodes_are_counted() {
    let gpu = |procs| request(procs, None).with_constraint("gpu".parse().unwrap());
    assert_eq!(feasible(&machine_of_kinds(), &gpu(4)), Ok(()));
    assert_eq!(
        refusal(&gpu(5)),
        "5 processes were asked for, and nodes with feature gpu with 1 PE for each process have \
         room for 4: ask for at most 4 with -n, or for less of each node"
    );
    assert_eq!(
        refusal(&request(6, None).with_pes_per_proc(3)),
        "6 processes were asked for, and nodes with 3 PEs for each process have room for 4: \
         ask for at most 4 with -n, or for less of each node"
    );
    assert_eq!(
        refusal(&request(7, Some(3)).with_procs_per_node(2)),
        "7 processes on 3 nodes are more than 2 on each, as --ntasks-per-node allows: \
         ask for at least 4 nodes with -N, or for more on each"
    );
    assert_eq!(
        refusal(&request(2, Some(2)).with_constraint("gpu".parse().unwrap())),
        "2 processes on 2 nodes put 1 on each of 2 nodes, and 1 node of the partition with \
         feature gpu has 1 PE: leave -N out, or ask for fewer processes with -n"
    );
    assert!(refusal(&request(1, None).with_pes_per_proc(0)).contains("--cpus-per-task"));
    assert!(refusal(&request(1, None).with_procs_per_node(0)).contains("--ntasks-per-node"));
}
