//! Priorities, accounts and qualities of service, case by case.

use super::invariants::check_all;
use super::world::{ADMIN, USER, World, spec};
use crate::api::{ApiError, ErrorCode, Peer, PriorityView, Service};
use crate::cluster::ClusterEventKind;
use crate::journal::Entry;
use crate::manager::{ClusterTimer, Timer};
use crate::{AccountConfig, PriorityConfig, QosConfig, ServiceConfig};
use std::num::NonZeroU32;
use std::time::Duration;
use storm_rm::{JobId, JobSpec};
use storm_sched::Priority;
use storm_sched::priority::{HalfLife, Weights};

const OTHER: Peer = Peer { uid: 7, ..USER };
const HOUR: Duration = Duration::from_secs(3600);

fn account(name: &str, uid: u32) -> AccountConfig {
    let users = vec![(uid, 1)];
    AccountConfig { name: name.to_owned(), parent: None, shares: 1, default: false, users }
}

fn qos(name: &str, priority: u32) -> QosConfig {
    QosConfig { name: name.to_owned(), priority, ..QosConfig::default() }
}

fn weighing(weights: Weights) -> ServiceConfig {
    let priority = PriorityConfig {
        weights,
        half_life: HalfLife::default(),
        interval: HOUR,
        partitions: [("all".to_owned(), 1)].into(),
    };
    ServiceConfig { priority: Some(priority), ..ServiceConfig::default() }
}

fn fair() -> ServiceConfig {
    let accounts = vec![account("mine", USER.uid), account("theirs", OTHER.uid)];
    ServiceConfig { accounts, ..weighing(Weights { fair_share: 1_000, ..Weights::default() }) }
}

fn world(sched: &str, service: ServiceConfig) -> World {
    let mut world = World::serving(sched, 16, service);
    (1..=super::world::NODES).for_each(|node| world.node_up(storm_primitives::NodeId(node)));
    world
}

fn submit(world: &mut World, peer: Peer, procs: u32, service: Service) -> Result<JobId, ApiError> {
    let spec: JobSpec = spec(procs, false, false);
    world.act(|core, now| core.submit_to(now, peer, spec, service, None))
}

fn told(world: &mut World, job: JobId) -> PriorityView {
    let now = world.now;
    let (mut views, left) = world.core.list_priorities(now, &[job]);
    assert_eq!((views.len(), left), (1, 0));
    views.remove(0)
}

/// The timer of the regular computation of priorities.
const PRIORITIES: Timer = Timer::Cluster(ClusterTimer::Priorities);

/// Usage of all users, by account, as users see their usage.
fn usage(world: &mut World) -> Vec<(String, f64)> {
    let now = world.now;
    let lines = world.core.list_shares(now).into_iter();
    let users = lines.filter(|line| line.user.is_some());
    users.map(|line| (line.account, (line.usage_pe_s * 100.0).round() / 100.0)).collect()
}

/// Runs the next computation of priorities.
fn reckon(world: &mut World) {
    let reckoning = world.timers.iter().position(|(_, timer)| *timer == PRIORITIES);
    world.fire(reckoning.expect("it is due some time"));
    world.edge();
    check_all(world);
}

#[test]
fn without_a_configuration_all_are_equal_and_nothing_is_reckoned() {
    let mut world = World::joined("fcfs", 8);
    world.submit(spec(8, false, false));
    let waits = world.submit(spec(8, false, false));
    assert_eq!(told(&mut world, waits).priority, Priority(0));
    assert!(!world.timers.iter().any(|(_, timer)| *timer == PRIORITIES));
    world.finish();
    let charges = |entry: &Entry| match entry {
        Entry::Job(..) => false,
        Entry::Cluster(event) => matches!(event.kind, ClusterEventKind::UsageNoted { .. }),
    };
    assert!(!world.journal.iter().any(charges), "nobody is charged");
}

#[test]
fn the_priority_is_what_the_factors_contribute_less_the_niceness() {
    let weights = Weights { size: 800, qos: 100, partition: 30, age: 7, ..Weights::default() };
    let qos = vec![qos("low", 10), qos("high", 40)];
    let mut world = world("fcfs", ServiceConfig { qos, ..weighing(weights) });
    let full = submit(&mut world, USER, 8, Service::default()).expect("it starts");
    let service = Service { qos: Some("low".to_owned()), nice: 5, ..Service::default() };
    let job = submit(&mut world, USER, 4, service).expect("it waits");
    let view = told(&mut world, job);
    let factors = view.factors;
    assert_eq!((factors.size, factors.qos, factors.partition, factors.age), (400, 25, 30, 0));
    assert_eq!(view.priority, Priority(400 + 25 + 30 - 5));
    let urgent = Service { qos: Some("high".to_owned()), ..Service::default() };
    let urgent = submit(&mut world, USER, 4, urgent).expect("it waits");
    let narrow = submit(&mut world, USER, 8, Service { nice: 600, ..Service::default() });
    world.end_job(full, 0);
    assert!(world.record(job).runs == 1 && world.record(urgent).runs == 1, "they fit together");
    assert_eq!(world.record(narrow.expect("it waits")).runs, 0);
}

#[test]
fn the_user_with_less_usage_goes_first_after_the_next_reckoning() {
    for sched in ["fcfs", "easy", "conservative", "easy-sjbf", "sjf", "gang"] {
        let mut world = world(sched, fair());
        let running: Vec<JobId> = (0..if sched == "gang" { 3 } else { 1 })
            .map(|_| submit(&mut world, USER, 8, Service::default()).expect("it starts"))
            .collect();
        world.edge();
        submit(&mut world, USER, 8, Service::default()).expect("it waits");
        let theirs = submit(&mut world, OTHER, 8, Service::default()).expect("it waits");
        world.edge();
        reckon(&mut world);
        let first = world.core.list_priorities(world.now, &[]).0.remove(0);
        assert_eq!((first.job, first.priority), (theirs, Priority(1_000)), "{sched}");
        for job in running {
            world.end_job(job, 0);
            world.edge();
        }
        assert_eq!(world.record(theirs).runs, 1, "{sched}");
        world.finish();
    }
}

/// Longer than the least time between two computations out of turn.
const LATER: Duration = Duration::from_secs(60);

#[test]
fn the_order_shown_is_the_order_of_starts() {
    for sched in ["fcfs", "easy", "conservative", "easy-sjbf", "sjf", "gang"] {
        for asked in [false, true] {
            let mut world = world(sched, fair());
            let rows = if sched == "gang" { 3 } else { 1 };
            let running: Vec<JobId> = (0..rows)
                .map(|_| submit(&mut world, USER, 8, Service::default()).expect("it starts"))
                .collect();
            world.edge();
            while !world.starts.is_empty() {
                world.started(0);
            }
            let mine = submit(&mut world, USER, 8, Service::default()).expect("it waits");
            let theirs = submit(&mut world, OTHER, 8, Service::default()).expect("it waits");
            world.now = world.now + LATER;
            if asked {
                let used = usage(&mut world);
                assert!(used[0].1 > 0.0 && used[1].1 == 0.0, "{sched}: {used:?}");
                world.edge();
                let shown = world.core.list_priorities(world.now, &[]).0;
                let order: Vec<JobId> = shown.iter().map(|view| view.job).collect();
                assert_eq!(order, [theirs, mine], "{sched}");
            }
            for job in running {
                world.end_job(job, 0);
                world.edge();
            }
            assert_eq!(world.record(theirs).runs, 1, "{sched}, asked: {asked}");
            world.finish();
        }
    }
}

#[test]
fn shares_and_priorities_are_those_of_one_reckoning() {
    let mut world = world("easy", fair());
    submit(&mut world, USER, 4, Service::default()).expect("it starts");
    world.started(0);
    let waits = submit(&mut world, OTHER, 8, Service::default()).expect("it waits");
    let factor = |world: &mut World| {
        let now = world.now;
        let lines = world.core.list_shares(now);
        let line = lines.into_iter().find(|line| {
            line.account == "theirs" && line.user.as_ref().is_some_and(|user| user.uid == OTHER.uid)
        });
        line.and_then(|line| line.fair_share).expect("a user")
    };
    for _ in 0..5 {
        world.now = world.now + Duration::from_millis(700);
        let (shares, told) = (factor(&mut world), told(&mut world, waits));
        assert_eq!(told.factors.fair_share, (shares * 1_000.0) as u32);
        assert_eq!(told.priority, Priority(told.factors.fair_share));
    }
}

#[test]
fn the_age_counts_from_the_time_at_which_it_could_have_started() {
    let hour = NonZeroU32::new(3600).expect("not 0");
    let weights = Weights { age: 100, max_age_s: hour, ..Weights::default() };
    let mut world = world("easy", weighing(weights));
    submit(&mut world, USER, 8, Service::default()).expect("it starts");
    let waits = submit(&mut world, USER, 8, Service::default()).expect("it waits");
    world.now = world.now + HOUR / 2;
    assert_eq!(told(&mut world, waits).factors.age, 50);
    reckon(&mut world);
    assert_eq!(told(&mut world, waits).factors.age, 99);
}

#[test]
fn everybody_is_charged_once_for_what_ran_also_over_restarts() {
    let mut world = world("fcfs", fair());
    let first = submit(&mut world, USER, 4, Service::default()).expect("it starts");
    let second = submit(&mut world, OTHER, 2, Service::default()).expect("it starts");
    world.started(0);
    world.started(0);
    reckon(&mut world);
    let week = Duration::from_secs(7 * 24 * 3600);
    let after_an_hour = usage(&mut world);
    assert!((after_an_hour[0].1 - 4.0 * 3600.0).abs() < 1.0, "{after_an_hour:?}");
    assert!((after_an_hour[1].1 - 2.0 * 3600.0).abs() < 1.0, "{after_an_hour:?}");
    world.restart(|_| false, |_| false);
    world.now = world.now + HOUR;
    world.end_job(first, 0);
    let before = usage(&mut world);
    assert!((before[0].1 - 4.0 * 7200.0).abs() < 64.0, "decayed by little: {before:?}");
    world.restart(|_| false, |_| false);
    let after = usage(&mut world);
    assert!((after[0].1 - before[0].1).abs() < 1.0, "{before:?} {after:?}");
    world.end_job(second, 0);
    reckon(&mut world);
    let now = usage(&mut world)[0].1;
    world.now = world.now + week;
    assert!((usage(&mut world)[0].1 - now / 2.0).abs() < 1.0, "half is left after a half-life");
}

#[test]
fn accounts_and_qualities_of_service_are_refused_by_name() {
    let premium = QosConfig {
        accounts: vec!["mine".to_owned()],
        max_jobs_per_user: Some(1),
        ..qos("premium", 1)
    };
    let secret = QosConfig { users: vec![OTHER.uid], ..qos("secret", 1) };
    let mut world = world("fcfs", ServiceConfig { qos: vec![premium, secret], ..fair() });
    let named = |account: Option<&str>, qos: Option<&str>, nice| Service {
        account: account.map(str::to_owned),
        qos: qos.map(str::to_owned),
        nice,
    };
    let mut refused = |peer, account, qos, nice| {
        let error = submit(&mut world, peer, 1, named(account, qos, nice)).expect_err("refused");
        (error.code, format!("{} ({})", error.message, error.hint.unwrap_or_default()))
    };
    let said = [
        refused(USER, Some("nobody's"), None, 0),
        refused(USER, Some("theirs"), None, 0),
        refused(USER, None, Some("best"), 0),
        refused(USER, None, Some("secret"), 0),
        refused(OTHER, None, Some("premium"), 0),
        refused(USER, None, None, -1),
    ];
    let expected = [
        (ErrorCode::NoSuchAccount, "there is no account \"nobody's\" (your accounts: mine)"),
        (ErrorCode::NotPermitted, "you are not a user of account \"theirs\" (your accounts: mine)"),
        (ErrorCode::NoSuchQos, "there is no quality of service \"best\" (yours: premium)"),
        (
            ErrorCode::NotPermitted,
            "you may not use the quality of service \"secret\" with account \"mine\" (yours: premium)",
        ),
        (
            ErrorCode::NotPermitted,
            "you may not use the quality of service \"premium\" with account \"theirs\" (yours: secret)",
        ),
        (
            ErrorCode::NotPermitted,
            "only an administrator may give a job niceness -1 (0 or more is free)",
        ),
    ];
    let said = said.iter().map(|(code, text)| (*code, text.as_str()));
    assert_eq!(said.collect::<Vec<_>>(), expected);
    submit(&mut world, USER, 1, named(None, Some("premium"), 0)).expect("the first");
    let full = submit(&mut world, USER, 1, named(None, Some("premium"), 0)).expect_err("a second");
    assert_eq!(full.code, ErrorCode::QueueFull);
    submit(&mut world, ADMIN, 1, named(Some("theirs"), None, -7)).expect("an administrator may");
}

#[test]
fn users_of_no_account_are_in_the_default_one() {
    let mut marked = fair();
    marked.accounts.push(AccountConfig { default: true, users: Vec::new(), ..account("rest", 0) });
    for (service, name) in [(fair(), "default"), (marked, "rest")] {
        let mut world = world("fcfs", service);
        let stranger = Peer { uid: 99, ..USER };
        submit(&mut world, USER, 8, Service::default()).expect("it starts");
        let job = submit(&mut world, stranger, 1, Service::default()).expect("it waits");
        assert_eq!(told(&mut world, job).account.as_deref(), Some(name));
        let array = JobSpec {
            needs: storm_rm::Needs {
                array: Some("0-1".parse().expect("an array")),
                ..Default::default()
            },
            ..spec(1, false, false)
        };
        let array = world.act(|core, now| core.submit(now, USER, array)).expect("it waits");
        world.restart(|_| false, |_| false);
        for task in [1, 2] {
            let view = told(&mut world, JobId(array.0 + task));
            assert_eq!(view.account.as_deref(), Some("mine"));
        }
    }
}
