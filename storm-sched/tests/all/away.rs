//! Nodes that are away and expected back keep their places in the plans of every policy: no job
//! passes another that it delays because a node is away.

use std::time::Duration;

use storm_sched::suite::invariants::HeadNotDelayed;
use storm_sched::suite::{self, Invariant, Workload};
use storm_sched::{
    Action, Event, InvariantViolation, JobId, JobRequest, Machine, MatrixQueue, MplLimit,
    NodeIndex, PendingReason, Policy, PolicyParams, Row, RowView, SchedTime, registry,
};

/// The node that is away.
const AWAY: NodeIndex = NodeIndex(0);
/// How many runs of the suite each policy gets.
const SEEDS: u64 = 100;

/// Every policy, with a matrix of one row in which jobs may pass.
fn all(machine: &Machine) -> Vec<Box<dyn Policy>> {
    let params = PolicyParams {
        mpl_limit: MplLimit::ONE,
        queue: MatrixQueue::Easy,
        ..PolicyParams::default()
    };
    let make = |name| registry::by_name(name, machine.clone(), &params).expect("a policy");
    registry::names().map(make).collect()
}

fn request(job: u64, procs: u32, limit_s: u64) -> JobRequest {
    JobRequest::new(JobId(job), procs).with_time_limit(Duration::from_secs(limit_s))
}

/// The jobs that start after an event at a second.
fn tell(policy: &mut dyn Policy, now_s: u64, event: Event) -> Vec<u64> {
    let actions = policy.handle(SchedTime::from_secs(now_s), event);
    policy.check().expect("a sound policy");
    let started = |action: Action| match action {
        Action::Start { job, .. } => Some(job.0),
        Action::Refused(why) => panic!("{}: {why}", policy.name()),
        _ => None,
    };
    actions.into_iter().filter_map(started).collect()
}

/// Two nodes of 8 PEs, the first of which `first` jobs hold until 20 s. A job of all PEs waits. The
/// first node is away from the second second on.
fn with_head_and_away(policy: &mut dyn Policy, runs: bool, exact: bool) {
    if runs {
        assert_eq!(tell(policy, 0, Event::Submit(request(1, 8, 20))), [1]);
    } else {
        tell(policy, 0, Event::NodeAway(AWAY));
    }
    let head = request(2, 16, 60);
    let head = if exact { head.with_nodes(2) } else { head };
    assert_eq!(tell(policy, 1, Event::Submit(head)), [] as [u64; 0], "{}", policy.name());
    let away = Event::NodeAway(AWAY);
    assert_eq!(tell(policy, 2, away), [] as [u64; 0], "{}", policy.name());
}

/// Regression: under backfill, easy-sjbf and conservative the third job started as soon as a Node
/// Manager or the manager was restarted, and delayed the second job.
#[test]
fn no_job_passes_another_that_it_delays_while_a_node_is_away() {
    let machine = Machine::uniform(2, 8).expect("a machine");
    for (runs, exact) in [(true, false), (true, true), (false, false), (false, true)] {
        for mut policy in all(&machine) {
            let name = policy.name();
            if name == "sjf" {
                // The shortest job is the first here.
                continue;
            }
            let policy = policy.as_mut();
            with_head_and_away(policy, runs, exact);
            let late = Event::Submit(JobRequest::new(JobId(3), 8));
            assert_eq!(tell(policy, 3, late), [] as [u64; 0], "{name} {runs} {exact}");
            let long = Event::Submit(request(4, 4, 50));
            assert_eq!(tell(policy, 4, long), [] as [u64; 0], "{name} {runs} {exact}");
            assert_eq!(tell(policy, 5, Event::Wake), [] as [u64; 0], "{name} {runs} {exact}");
            let back = tell(policy, 6, Event::NodeUp(AWAY));
            if runs {
                assert_eq!(back, [] as [u64; 0], "{name} {exact}");
                assert_eq!(tell(policy, 7, Event::Finished(JobId(1))), [2], "{name} {exact}");
            } else {
                assert_eq!(back, [2], "{name} {exact}");
            }
        }
    }
}

/// A job that has ended when the node's job ends passes, as if the node were up.
#[test]
fn jobs_that_delay_nobody_pass_while_a_node_is_away() {
    let machine = Machine::uniform(2, 8).expect("a machine");
    for name in ["backfill", "easy-sjbf", "conservative"] {
        let params = PolicyParams::default();
        let mut policy = registry::by_name(name, machine.clone(), &params).expect("a policy");
        with_head_and_away(policy.as_mut(), true, false);
        let short = Event::Submit(request(3, 8, 10));
        assert_eq!(tell(policy.as_mut(), 3, short), [3], "{name}");
    }
}

#[test]
fn a_node_that_is_lost_or_drained_keeps_no_place() {
    let machine = Machine::uniform(2, 8).expect("a machine");
    for name in ["backfill", "easy-sjbf", "conservative"] {
        for lost in [Event::NodeDown(AWAY), Event::NodeDrained(AWAY)] {
            let params = PolicyParams::default();
            let mut policy = registry::by_name(name, machine.clone(), &params).expect("a policy");
            with_head_and_away(policy.as_mut(), true, false);
            let late = Event::Submit(JobRequest::new(JobId(3), 8));
            assert_eq!(tell(policy.as_mut(), 3, late), [] as [u64; 0], "{name}");
            assert_eq!(tell(policy.as_mut(), 4, lost), [3], "{name}");
        }
    }
}

/// A job never starts on a node that is away, and its reason names the node.
#[test]
fn a_job_waits_for_a_node_that_is_away() {
    let machine = Machine::uniform(2, 8).expect("a machine");
    for mut policy in all(&machine) {
        let policy = policy.as_mut();
        tell(policy, 0, Event::NodeAway(AWAY));
        assert_eq!(tell(policy, 1, Event::Submit(request(1, 9, 60))), [] as [u64; 0]);
        let why = policy.explain(SchedTime::from_secs(1), JobId(1)).expect("it waits");
        let told = "n1 is away: 8 of the 9 PEs asked for are up";
        assert_eq!(why.to_string(), told, "{}", policy.name());
        assert_eq!(tell(policy, 2, Event::NodeUp(AWAY)), [1], "{}", policy.name());
    }
}

/// The invariants of a policy, by its name.
fn invariants(name: &str) -> fn() -> Vec<Box<dyn Invariant>> {
    match name {
        "fcfs" => suite::space_sharing,
        "sjf" => suite::shortest_first,
        "conservative" => suite::any_space_sharing,
        _ => suite::backfilling,
    }
}

#[test]
fn policies_hold_their_invariants_while_nodes_are_away() {
    for name in ["fcfs", "sjf", "backfill", "easy-sjbf", "conservative"] {
        let make = |machine: Machine| {
            registry::by_name(name, machine, &PolicyParams::default()).expect("a policy")
        };
        let held = suite::run_seeds_of(0..SEEDS, Workload::leaving, &make, &invariants(name));
        held.unwrap_or_else(|failure| panic!("{failure}: {}", failure.why));
    }
}

/// The former behaviour: a node that is away counts as lost.
struct Forgets(Box<dyn Policy>);

impl Policy for Forgets {
    fn name(&self) -> &'static str {
        "forgets"
    }

    fn handle(&mut self, now: SchedTime, event: Event) -> Vec<Action> {
        match event {
            Event::NodeAway(node) => self.0.handle(now, Event::NodeDown(node)),
            event => self.0.handle(now, event),
        }
    }

    fn pending(&self) -> Vec<JobId> {
        self.0.pending()
    }

    fn running(&self) -> Vec<JobId> {
        self.0.running()
    }

    fn explain(&self, now: SchedTime, job: JobId) -> Option<PendingReason> {
        self.0.explain(now, job)
    }

    fn explain_all(&self, now: SchedTime) -> Vec<(JobId, PendingReason)> {
        self.0.explain_all(now)
    }

    fn active_row(&self) -> Option<Row> {
        self.0.active_row()
    }

    fn rows(&self) -> Vec<RowView> {
        self.0.rows()
    }

    fn next_edge_needed(&self) -> bool {
        self.0.next_edge_needed()
    }

    fn quantum(&self) -> Option<Duration> {
        self.0.quantum()
    }

    fn machine(&self) -> &Machine {
        self.0.machine()
    }

    fn check(&self) -> Result<(), InvariantViolation> {
        self.0.check()
    }
}

#[test]
fn the_suite_finds_a_policy_that_forgets_nodes_that_are_away() {
    for name in ["backfill", "easy-sjbf"] {
        let make = |machine: Machine| -> Box<dyn Policy> {
            let params = PolicyParams::default();
            Box::new(Forgets(registry::by_name(name, machine, &params).expect("a policy")))
        };
        // The states of its nodes are wrong as well, which another invariant finds.
        let not_delayed = || vec![Box::new(HeadNotDelayed::default()) as Box<dyn Invariant>];
        let found = suite::run_seeds_of(0..SEEDS, Workload::leaving, &make, &not_delayed);
        let failure = found.expect_err("a head is delayed");
        assert_eq!(failure.invariant, "passing jobs do not delay the head", "{name}");
    }
}
