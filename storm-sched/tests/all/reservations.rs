//! Reserved nodes: every policy runs in the suite with reservations, and users see correct
//! information about a reservation.

use std::time::Duration;

use storm_sched::policies::{Conservative, Easy, EasySjbf, Fcfs, Gang, Sjf};
use storm_sched::suite::Workload;
use storm_sched::suite::invariants::Held;
use storm_sched::{
    Action, Event, JobId, JobRequest, Machine, MatrixQueue, MplLimit, NodeIndex, Packing,
    PendingReason, Policy, PolicyParams, Reservation, ReservationId, SchedTime, registry, suite,
};

/// The number of runs of each policy.
const SEEDS: u64 = 60;
/// The number of runs of gang scheduling in each of twenty modes.
const SEEDS_OF_A_MODE: u64 = 10;

fn holds(what: &str, seeds: u64, limit: MplLimit, held: fn() -> Held, make: suite::Make<'_>) {
    let invariants = || suite::reserving(limit, held());
    let covered = suite::run_seeds_of(0..seeds, Workload::reserving, make, &invariants);
    let covered = covered.unwrap_or_else(|failure| panic!("{what}: {failure}: {}", failure.why));
    assert!(covered.starts > 20 * covered.runs, "{what}: {covered:?}");
}

#[test]
fn policies_that_share_space_keep_reservations() {
    let params = PolicyParams::default();
    let exactly = || Held::Exactly;
    let one = MplLimit::ONE;
    holds("fcfs", SEEDS, one, exactly, &|machine| Box::new(Fcfs::new(machine)));
    holds("easy", SEEDS, one, exactly, &|machine| Box::new(Easy::new(machine, &params)));
    holds("easy-sjbf", SEEDS, one, exactly, &|machine| Box::new(EasySjbf::new(machine, &params)));
    holds("sjf", SEEDS, one, exactly, &|machine| Box::new(Sjf::new(machine, &params)));
    holds("conservative", SEEDS, one, exactly, &|machine| {
        Box::new(Conservative::new(machine, &params))
    });
}

#[test]
fn gang_keeps_reservations_in_every_mode() {
    for queue in [MatrixQueue::Fcfs, MatrixQueue::Easy] {
        for repack in [false, true] {
            for packing in Packing::ALL {
                let mpl_limit = MplLimit::try_from(3).unwrap();
                let params =
                    PolicyParams { queue, repack, packing, mpl_limit, ..PolicyParams::default() };
                let what = format!("{params:?}");
                let make = |machine| -> Box<dyn Policy> { Box::new(Gang::new(machine, &params)) };
                holds(&what, SEEDS_OF_A_MODE, mpl_limit, || Held::RoundedUp, &make);
            }
        }
    }
}

const RESERVATION: ReservationId = ReservationId(1);

fn at(secs: u64) -> SchedTime {
    SchedTime::from_secs(secs)
}

fn job(id: u64, procs: u32, limit_s: Option<u64>) -> JobRequest {
    let request = JobRequest::new(JobId(id), procs);
    match limit_s {
        Some(limit_s) => request.with_time_limit(Duration::from_secs(limit_s)),
        None => request,
    }
}

/// Four nodes of one PE each. The first two are reserved from 100 s to 200 s.
fn reserved(name: &str) -> Box<dyn Policy> {
    let machine = Machine::uniform(4, 1).unwrap();
    let params = PolicyParams { queue: MatrixQueue::Easy, ..PolicyParams::default() };
    let mut policy = registry::by_name(name, machine, &params).unwrap();
    let nodes = vec![NodeIndex(0), NodeIndex(1)];
    let window = Reservation { id: RESERVATION, nodes, start: at(100), end: at(200) };
    assert!(policy.handle(at(0), Event::Reserve(window)).is_empty());
    policy
}

fn starts(actions: Vec<Action>) -> Vec<u64> {
    let started = |action| match action {
        Action::Start { job, .. } => Some(job.0),
        _ => None,
    };
    actions.into_iter().filter_map(started).collect()
}

#[test]
fn a_job_that_would_meet_a_reservation_waits_or_goes_elsewhere() {
    for name in registry::names() {
        let mut policy = reserved(name);
        let mut tell = |secs, event| starts(policy.handle(at(secs), event));
        assert_eq!(
            tell(0, Event::Submit(job(1, 3, Some(10)))),
            [1],
            "{name}: it has ended by then"
        );
        assert_eq!(tell(5, Event::Finished(JobId(1))), [0; 0], "{name}");
        assert_eq!(tell(10, Event::Submit(job(2, 2, None))), [2], "{name}: on the other nodes");
        assert_eq!(tell(11, Event::Finished(JobId(2))), [0; 0], "{name}");
        assert_eq!(tell(12, Event::Submit(job(3, 3, None))), [0; 0], "{name}");
        let reserved =
            PendingReason::Reserved { reservation: RESERVATION, start: at(100), end: at(200) };
        assert_eq!(policy.explain(at(12), JobId(3)), Some(reserved), "{name}");
        assert_eq!(policy.wake_at(), Some(at(100)), "{name}");
        assert_eq!(starts(policy.handle(at(100), Event::Wake)), [0; 0], "{name}");
        assert_eq!(policy.wake_at(), Some(at(200)), "{name}");
        assert_eq!(starts(policy.handle(at(200), Event::Wake)), [3], "{name}: it is over");
        assert_eq!(policy.wake_at(), None, "{name}");
    }
}

#[test]
fn a_job_of_the_reservation_waits_for_it_and_delays_nobody() {
    for name in registry::names() {
        let mut policy = reserved(name);
        let own = |id, procs| job(id, procs, Some(50)).with_reservation(RESERVATION);
        let mut tell = |secs, event| policy.handle(at(secs), event);
        assert_eq!(starts(tell(0, Event::Submit(own(1, 2)))), [0; 0], "{name}");
        assert_eq!(starts(tell(0, Event::Submit(job(2, 2, None)))), [2], "{name}");
        let not_begun = PendingReason::NotBegun { reservation: RESERVATION, start: at(100) };
        assert_eq!(policy.explain(at(1), JobId(1)), Some(not_begun), "{name}");
        if !["gang", "bcs", "fcs", "ics", "local", "pb"].contains(&name) {
            assert_eq!(policy.estimate(at(1), JobId(1)), Some(at(100)), "{name}");
        }
        let begun = policy.handle(at(100), Event::Wake);
        let on_its_nodes = |action: &Action| match action {
            Action::Start { job: JobId(1), placement, .. } => {
                placement.nodes().eq([NodeIndex(0), NodeIndex(1)])
            }
            _ => false,
        };
        assert!(begun.iter().any(on_its_nodes), "{name}: {begun:?}");
        // The job may finish after the reservation is over.
        assert_eq!(starts(policy.handle(at(200), Event::Wake)), [0; 0], "{name}");
        assert_eq!(policy.running(), [JobId(1), JobId(2)], "{name}");
    }
}

#[test]
fn a_job_of_a_deleted_reservation_is_an_ordinary_job() {
    for name in registry::names() {
        let mut policy = reserved(name);
        let own = job(1, 4, None).with_reservation(RESERVATION);
        assert_eq!(starts(policy.handle(at(0), Event::Submit(own))), [0; 0], "{name}");
        assert_eq!(starts(policy.handle(at(1), Event::Unreserve(RESERVATION))), [1], "{name}");
        let again = policy.handle(at(2), Event::Unreserve(RESERVATION));
        assert!(matches!(again[..], [Action::Refused(_)]), "{name}: {again:?}");
    }
}

#[test]
fn estimates_and_backfilling_respect_reservations() {
    for name in ["backfill", "easy-sjbf"] {
        let mut policy = reserved(name);
        assert_eq!(starts(policy.handle(at(0), Event::Submit(job(1, 2, Some(60))))), [1]);
        // The job needs three nodes for longer than the time until the reservation.
        assert!(starts(policy.handle(at(0), Event::Submit(job(2, 3, Some(80))))).is_empty());
        assert_eq!(policy.estimate(at(0), JobId(2)), Some(at(200)), "{name}");
        // A job that has ended by then may pass; another may not.
        assert_eq!(starts(policy.handle(at(1), Event::Submit(job(3, 1, Some(150))))), [3]);
        assert!(starts(policy.handle(at(1), Event::Submit(job(4, 1, Some(250))))).is_empty());
    }
    let mut policy = reserved("conservative");
    assert_eq!(starts(policy.handle(at(0), Event::Submit(job(1, 2, Some(60))))), [1]);
    assert!(starts(policy.handle(at(0), Event::Submit(job(2, 3, Some(80))))).is_empty());
    assert_eq!(policy.estimate(at(0), JobId(2)), Some(at(200)));
}
