//! Jobs that require and exclude nodes by name, under every policy: the suite checks by the names
//! that no job has an excluded node and that each has all required nodes, and by brute force that
//! the reasons of waiting jobs are true.

use storm_sched::suite::invariants::Held;
use storm_sched::suite::{self, Workload};
use storm_sched::{
    Action, Event, Infeasible, JobId, JobRequest, Machine, MatrixQueue, MplLimit, NodeChoice,
    NodeIndex, Packing, PolicyParams, SchedTime, feasible, registry,
};

/// The number of runs of each policy.
const SEEDS: u64 = 100;
/// The policies with places of their own; the others derive from gang scheduling.
const POLICIES: [&str; 6] = ["fcfs", "easy", "easy-sjbf", "conservative", "sjf", "gang"];

/// A policy keeps all invariants of any policy among reservations.
fn holds(name: &str, params: &PolicyParams, seeds: u64) {
    let gang = name == "gang";
    let limit = if gang { params.mpl_limit } else { MplLimit::ONE };
    let held = if gang { Held::RoundedUp } else { Held::Exactly };
    let make = |machine| registry::by_name(name, machine, params).unwrap();
    let invariants = || suite::reserving(limit, held);
    let covered = suite::run_seeds_of(0..seeds, Workload::naming, &make, &invariants);
    let covered = covered.unwrap_or_else(|why| panic!("{name} {params:?}: {why}: {}", why.why));
    assert!(covered.starts > 10 * covered.runs, "{name}: {covered:?}");
}

#[test]
fn every_policy_keeps_to_the_names() {
    POLICIES.iter().for_each(|name| holds(name, &PolicyParams::default(), SEEDS));
}

#[test]
fn gang_scheduling_keeps_to_the_names_in_every_mode() {
    for queue in [MatrixQueue::Fcfs, MatrixQueue::Easy] {
        for repack in [false, true] {
            for packing in Packing::ALL {
                let mpl_limit = MplLimit::try_from(3).unwrap();
                let params =
                    PolicyParams { queue, repack, packing, mpl_limit, ..PolicyParams::default() };
                holds("gang", &params, SEEDS / 10);
            }
        }
    }
}

fn choice(required: &[&str], excluded: &[&str]) -> NodeChoice {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    NodeChoice { required: names(required), excluded: names(excluded) }
}

fn machine() -> Machine {
    Machine::new([("n1", 2), ("n2", 2), ("n3", 2), ("n4", 4)]).unwrap()
}

#[test]
fn required_nodes_come_with_others_and_excluded_ones_never() {
    let request = JobRequest::new(JobId(1), 4).with_choice(choice(&["n3"], &["n1"]));
    for (request, nodes) in [
        (request.clone(), vec![1, 2]),
        (request.clone().with_nodes(2), vec![1, 2]),
        (request.with_nodes(3), vec![1, 2, 3]),
    ] {
        for name in POLICIES {
            let mut policy = registry::by_name(name, machine(), &PolicyParams::default()).unwrap();
            let actions = policy.handle(SchedTime::ZERO, Event::Submit(request.clone()));
            let started = actions.iter().find_map(|action| match action {
                Action::Start { placement, .. } => Some(placement.nodes().collect::<Vec<_>>()),
                _ => None,
            });
            let expected: Vec<NodeIndex> = nodes.iter().map(|node| NodeIndex(*node)).collect();
            // The required node is filled first.
            let mut started = started.unwrap_or_else(|| panic!("{name}: {actions:?}"));
            started.sort_unstable();
            assert_eq!(started, expected, "{name}");
        }
    }
}

#[test]
fn names_that_can_never_be_had_are_refused() {
    let refused = |request: JobRequest| feasible(&machine(), &request).unwrap_err().to_string();
    let of = |procs, required: &[&str], excluded: &[&str]| {
        JobRequest::new(JobId(1), procs).with_choice(choice(required, excluded))
    };
    assert!(refused(of(1, &["n9"], &[])).contains("no node n9"));
    assert!(refused(of(1, &["n1"], &["n1"])).contains("n1 is in --nodelist and in --exclude"));
    assert!(refused(of(1, &["n1", "n2"], &[])).contains("names 2 nodes"));
    assert!(refused(of(4, &["n1", "n2"], &[]).with_nodes(1)).contains("-N"));
    let all = ["n1", "n2", "n3", "n4"];
    assert!(matches!(feasible(&machine(), &of(1, &[], &all)), Err(Infeasible::AllExcluded)));
    let large = refused(of(6, &["n1", "n4"], &[]).with_nodes(2));
    assert!(large.contains("3 PEs"), "{large}");
    assert_eq!(feasible(&machine(), &of(6, &["n1", "n4"], &[])), Ok(()));
    let first = of(3, &["n1", "n2"], &[]).with_nodes(2).with_exclusive_nodes();
    assert_eq!(feasible(&machine(), &first), Ok(()));
}

#[test]
fn a_job_waits_for_the_node_that_it_names() {
    for name in POLICIES {
        let mut policy = registry::by_name(name, machine(), &PolicyParams::default()).unwrap();
        policy.handle(SchedTime::ZERO, Event::NodeDown(NodeIndex(2)));
        let request = JobRequest::new(JobId(1), 1).with_choice(choice(&["n3"], &[]));
        let actions = policy.handle(SchedTime::ZERO, Event::Submit(request));
        assert!(!actions.iter().any(|action| matches!(action, Action::Start { .. })), "{name}");
        let reason = policy.explain(SchedTime::ZERO, JobId(1)).unwrap();
        assert_eq!(reason.code(), "ReqNodeNotAvail", "{name}");
        assert!(reason.to_string().starts_with("n3 is down: "), "{name}: {reason}");
        let actions = policy.handle(SchedTime::ZERO, Event::NodeUp(NodeIndex(2)));
        assert!(actions.iter().any(|action| matches!(action, Action::Start { .. })), "{name}");
    }
}
