//! Jobs that wait while a manager starts with another configuration. None is lost, and the reason
//! of each names its lack. All run when the configuration meets their needs again.

use super::invariants::check_all;
use super::world::{ADMIN, NODES, USER, World, spec};
use crate::api::{ErrorCode, HistoryQuery, JobState, Service};
use crate::job::{JobRecord, Phase};
use crate::{AccountConfig, CoreConfig, NamedIn, QosConfig, ServiceConfig, UnknownUser};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashSet};
use storm_primitives::NodeId;
use storm_rm::message::ExitStatus;
use storm_rm::{Condition, ContentHash, Dependency, JobId, JobSpec, Needs};

fn renamed(config: &mut CoreConfig) {
    config.partitions[0].name = "others".to_owned();
}

fn smaller(config: &mut CoreConfig) {
    config.nodes.iter_mut().for_each(|node| node.pes = 1);
}

fn needy(needs: Needs) -> JobSpec {
    JobSpec { needs, ..spec(1, false, false) }
}

fn after(on: JobId, kill_on_invalid_dep: bool) -> JobSpec {
    let conditions = vec![Condition::AfterOk(on)];
    let dependency = Some(Dependency { any: false, conditions });
    needy(Needs { dependency, kill_on_invalid_dep, ..Needs::default() })
}

fn restart(world: &mut World, edit: fn(&mut CoreConfig)) {
    world.edit = edit;
    world.restart(|_| false, |_| false);
}

fn why(world: &World, job: JobId) -> String {
    let told = world.core.explain(world.now, job).expect("there is one").reason;
    assert_eq!(world.core.view(world.now, world.record(job)).reason.as_ref(), Some(&told));
    told
}

/// The jobs that are not over.
fn records(world: &World) -> BTreeMap<JobId, JobRecord> {
    let unfinished = world.unfinished().into_iter();
    unfinished.map(|job| (job, world.record(job).clone())).collect()
}

#[test]
fn jobs_of_a_partition_that_is_gone_wait_for_it_with_all_that_concerns_them() {
    let mut world = World::serving("fcfs", 8, ServiceConfig::default());
    let plain = world.submit(spec(8, false, false));
    let array = world.submit(needy(Needs {
        array: Some("1-4%2".parse().expect("an array")),
        ..Needs::default()
    }));
    let held = world.submit(needy(Needs { hold: true, ..Needs::default() }));
    let cancelled = world.submit(spec(2, false, true));
    let [waits, killed] = [false, true].map(|kill| world.submit(after(cancelled, kill)));
    restart(&mut world, renamed);
    let lack = "partition all is not in the configuration: the job waits until the manager is \
                started with it (PartitionConfig)";
    for job in [plain, JobId(array.0 + 1), JobId(array.0 + 4)] {
        assert_eq!(why(&world, job), lack);
    }
    assert_eq!(why(&world, held), format!("it is held by its user (JobHeldUser); {lack}"));
    // New jobs are refused, or are placed where there is room.
    let asked = JobSpec { partition: Some("all".to_owned()), ..spec(1, false, false) };
    let refused = world.act(|core, now| core.submit(now, USER, asked)).expect_err("none there");
    assert_eq!(refused.code, ErrorCode::NoSuchPartition);
    let new = world.submit(spec(1, false, false));
    assert_eq!(world.record(new).partition, "others");
    // Holds, releases and ends work as always.
    world.act(|core, now| core.hold(now, ADMIN, plain)).expect("it waits");
    assert!(why(&world, plain).starts_with("it is held by an administrator (JobHeldAdmin); "));
    world.act(|core, now| core.release_hold(now, ADMIN, plain)).expect("it is held");
    assert_eq!(why(&world, plain), lack);
    assert!(world.cancel(cancelled));
    assert_eq!(world.record(cancelled).state(), JobState::Cancelled);
    assert_eq!(world.record(killed).state(), JobState::Cancelled);
    assert!(why(&world, waits).contains("DependencyNeverSatisfied"));
    check_all(&world);
    let before = records(&world);
    restart(&mut world, renamed);
    assert_eq!(records(&world), before, "the journal says the same again");
    restart(&mut world, |_| ());
    assert!(!why(&world, plain).contains("configuration"), "it waits for its nodes alone");
    world.edit = |_| ();
    world.cancel(new);
    world.finish();
    check_all(&world);
    let completed = |job: &JobId| world.record(*job).state() == JobState::Completed;
    let tasks = (1..=4).map(|task| JobId(array.0 + task));
    assert!([plain, held].into_iter().chain(tasks).all(|job| completed(&job)));
}

#[test]
fn a_job_that_its_partition_cannot_run_any_more_waits_for_nodes_that_can() {
    let mut world = World::serving("gang", 8, ServiceConfig::default());
    let with = |procs, constraint: Option<&str>| {
        let mut spec = spec(procs, false, true);
        spec.resources.constraint = constraint.map(str::to_owned);
        spec
    };
    fn featured(config: &mut CoreConfig) {
        config.nodes.iter_mut().for_each(|node| node.features = vec!["gpu".to_owned()]);
    }
    restart(&mut world, featured);
    let jobs = [(8, None), (1, Some("gpu")), (4, None)];
    let [large, picky, small] = jobs.map(|(procs, wanted)| world.submit(with(procs, wanted)));
    restart(&mut world, smaller);
    let told = why(&world, large);
    assert!(told.starts_with("partition all as it is configured now cannot run it: 8 processes"));
    assert!(told.ends_with("(BadConstraints)"), "{told}");
    assert!(why(&world, picky).contains("no node of the partition has feature gpu"));
    restart(&mut world, |config| config.heartbeat_bytes = 16);
    assert!(why(&world, small).starts_with("heartbeat-bytes in the configuration is too small"));
    restart(&mut world, smaller);
    (1..=NODES).for_each(|node| world.node_up(NodeId(node)));
    assert_eq!(world.record(small).phase, Phase::Starting, "who is not concerned goes on");
    let asked = with(8, None);
    let refused = world.act(|core, now| core.submit(now, USER, asked)).expect_err("too large");
    assert_eq!(refused.code, ErrorCode::Infeasible);
    restart(&mut world, featured);
    world.finish();
    check_all(&world);
    assert!([large, picky, small].iter().all(|job| {
        world.record(*job).state() == JobState::Completed && world.record(*job).runs == 1
    }));
}

/// A job runs over the edit, and its node loses the job. The job then waits for the thing that the
/// configuration lacks.
#[test]
fn a_job_that_is_to_run_again_waits_for_what_is_gone_as_well() {
    let mut world = World::joined("fcfs", 8);
    let job = world.submit(spec(8, false, true));
    world.started(0);
    // After this edit the job is still on the machine.
    restart(&mut world, |config| config.nodes[3].features = vec!["new".to_owned()]);
    assert_eq!(world.record(job).phase, Phase::Running);
    world.core.jobs.lack(job, crate::manager::jobs::Unmet::Partition("all".to_owned()));
    world.node_down(NodeId(2));
    let parts: Vec<_> = world.parts.keys().copied().collect();
    parts.into_iter().for_each(|part| world.part_over(part, ExitStatus::Signal(9)));
    assert_eq!(world.record(job).phase, Phase::Pending);
    assert!(why(&world, job).contains("PartitionConfig"));
    restart(&mut world, |_| ());
    world.finish();
    assert_eq!((world.record(job).state(), world.record(job).runs), (JobState::Completed, 2));
}

#[test]
fn an_ended_job_keeps_its_partition_and_policy() {
    let mut world = World::joined("fcfs", 8);
    let job = world.submit(spec(2, false, false));
    world.started(0);
    while let Some(part) = world.parts.keys().next().copied() {
        world.part_over(part, ExitStatus::Code(0));
    }
    let shown = |world: &World| {
        let query = HistoryQuery { limit: 9, ..HistoryQuery::default() };
        let view = world.core.history(world.now, &query).remove(0);
        assert_eq!(view.id, job);
        (view.partition, view.sched, view.node_list)
    };
    let before = shown(&world);
    assert_eq!((before.0.as_str(), before.1.as_str()), ("all", "fcfs"));
    fn others(config: &mut CoreConfig) {
        config.partitions[0].sched = "gang".to_owned();
    }
    for edit in [renamed, others, |_: &mut CoreConfig| (), others, renamed] {
        restart(&mut world, edit);
        assert_eq!(shown(&world), before);
    }
}

fn serving() -> ServiceConfig {
    let account = AccountConfig {
        name: "mine".to_owned(),
        parent: None,
        shares: 1,
        default: false,
        users: vec![(USER.uid, 3)],
    };
    let users = vec![USER.uid];
    let qos = QosConfig { name: "high".to_owned(), users, ..QosConfig::default() };
    ServiceConfig { accounts: vec![account], qos: vec![qos], ..ServiceConfig::default() }
}

#[test]
fn jobs_wait_for_their_account_and_their_quality_of_service() {
    let mut world = World::serving("fcfs", 8, serving());
    let submit = |world: &mut World, qos: Option<&str>| {
        let service = Service { qos: qos.map(str::to_owned), ..Service::default() };
        let spec = spec(1, false, false);
        world.act(|core, now| core.submit_to(now, USER, spec, service, None)).expect("may")
    };
    let [of_account, of_both] = [None, Some("high")].map(|qos| submit(&mut world, qos));
    restart(&mut world, |config| config.service.accounts[0].name = "ours".to_owned());
    assert!(why(&world, of_account).starts_with("account mine is not in the configuration"));
    restart(&mut world, |config| config.service.qos.clear());
    assert!(why(&world, of_both).starts_with("quality of service high is not in the conf"));
    assert!(!why(&world, of_account).contains("configuration"));
    restart(&mut world, |_| ());
    world.finish();
}

#[test]
fn jobs_of_users_whom_the_host_does_not_know_wait_until_it_does() {
    let mut world = World::serving("fcfs", 8, serving());
    let service = Service { qos: Some("high".to_owned()), ..Service::default() };
    let spec_of = || spec(1, false, false);
    let asked = service.clone();
    let submitted = world.act(|core, now| core.submit_to(now, USER, spec_of(), asked, None));
    let job = submitted.expect("may");
    fn unknown(config: &mut CoreConfig) {
        let service = &mut config.service;
        service.accounts[0].users.clear();
        service.qos[0].users.clear();
        let places =
            [NamedIn::Admins, NamedIn::Account("mine".to_owned()), NamedIn::Qos("high".to_owned())];
        let name = "ann".to_owned();
        let user = |named_in| UnknownUser { name: name.clone(), named_in, shares: 3 };
        service.unknown_users = places.map(user).into();
    }
    restart(&mut world, unknown);
    assert!(why(&world, job).starts_with("account mine is for ann, and the manager's host knows"));
    let refused = world
        .act(|core, now| core.submit_to(now, USER, spec_of(), service.clone(), None))
        .expect_err("a quality of service of one who is not known is not everybody's");
    assert_eq!(refused.code, ErrorCode::NotPermitted);
    assert!(!world.core.is_admin(USER));
    world.act(|core, now| core.user_known(now, "bob", 1));
    assert!(why(&world, job).contains("InvalidAccount"), "that was another");
    world.act(|core, now| core.user_known(now, "ann", USER.uid));
    assert!(!why(&world, job).contains("Invalid"), "it waits for its nodes alone");
    assert!(world.core.is_admin(USER));
    let again = world.act(|core, now| core.submit_to(now, USER, spec_of(), service, None));
    assert!(again.is_ok());
    let now = world.now;
    let shares = world.core.list_shares(now);
    let own = shares.iter().find(|line| line.user.as_ref().is_some_and(|u| u.uid == USER.uid));
    assert_eq!(own.map(|line| (line.account.as_str(), line.shares)), Some(("mine", 3)));
    world.finish();
    check_all(&world);
}

#[test]
fn a_job_whose_program_is_gone_from_the_spool_waits_until_it_is_sent_again() {
    let mut world = World::serving("fcfs", 8, ServiceConfig::default());
    let [lacks, other] = [true, false].map(|shipped| world.submit(spec(1, shipped, false)));
    restart(&mut world, |_| ());
    let missing = HashSet::from([(0, ContentHash([1; 32])), (USER.uid, ContentHash([1; 32]))]);
    world.act(|core, now| core.contents_missing(now, &missing));
    assert!(why(&world, lacks).contains("MissingFiles"));
    (1..=NODES).for_each(|node| world.node_up(NodeId(node)));
    assert_eq!(world.record(other).phase, Phase::Starting);
    assert_eq!(world.record(lacks).phase, Phase::Pending);
    world.submit(spec(1, true, false));
    assert_eq!(world.record(lacks).phase, Phase::Starting);
    world.finish();
    check_all(&world);
}

#[derive(Clone, Debug)]
enum Step {
    Submit(u32),
    Array(u32),
    After(usize),
    Hold(usize),
    Release(usize),
    Cancel(usize),
    Restart(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1..9_u32).prop_map(Step::Submit),
        1 => (1..4_u32).prop_map(Step::Array),
        1 => any::<usize>().prop_map(Step::After),
        1 => any::<usize>().prop_map(Step::Hold),
        1 => any::<usize>().prop_map(Step::Release),
        1 => any::<usize>().prop_map(Step::Cancel),
        4 => (0..4_usize).prop_map(Step::Restart),
    ]
}

fn take(world: &mut World, step: &Step) {
    let known: Vec<JobId> = world.core.jobs.keys().copied().collect();
    let pick = |index: usize| known.get(index % known.len().max(1)).copied();
    let submit = |world: &mut World, spec: JobSpec| {
        // A job without a place is refused.
        let _ = world.act(|core, now| core.submit(now, USER, spec));
    };
    match step {
        Step::Submit(procs) => submit(world, spec(*procs, false, procs % 2 == 0)),
        Step::Array(limit) => {
            let array = Some(format!("1-5%{limit}").parse().expect("an array"));
            submit(world, needy(Needs { array, ..Needs::default() }));
        }
        Step::After(index) => {
            if let Some(on) = pick(*index) {
                submit(world, after(on, false));
            }
        }
        Step::Hold(index) => {
            pick(*index).map(|job| world.act(|core, now| core.hold(now, USER, job)));
        }
        Step::Release(index) => {
            pick(*index).map(|job| world.act(|core, now| core.release_hold(now, USER, job)));
        }
        Step::Cancel(index) => {
            pick(*index).map(|job| world.cancel(job));
        }
        Step::Restart(edit) => {
            let edits: [fn(&mut CoreConfig); 4] = [
                |_| (),
                renamed,
                smaller,
                |config| {
                    renamed(config);
                    smaller(config);
                },
            ];
            restart(world, edits[*edit]);
        }
    }
}

proptest! {
    #[test]
    fn no_edit_of_the_configuration_ends_a_job_that_waits(
        steps in prop::collection::vec(step(), 0..60), gang in any::<bool>(),
    ) {
        let sched = if gang { "gang" } else { "easy" };
        let mut world = World::serving(sched, 8, ServiceConfig::default());
        for step in &steps {
            take(&mut world, step);
            check_all(&world);
            let ended = world.core.jobs.values().filter_map(|record| match &record.phase {
                Phase::Ended(outcome) => Some(outcome.state),
                _ => None,
            });
            prop_assert!(ended.into_iter().all(|state| state == JobState::Cancelled));
        }
        // Jobs submitted under the other name move back with the partition.
        restart(&mut world, renamed);
        let here = |world: &World, name: &str| {
            let all = world.core.jobs.values();
            let here = all.filter(|r| r.partition == name && r.phase == Phase::Pending);
            here.map(|record| record.id).collect::<Vec<JobId>>()
        };
        for job in here(&world, "others") {
            world.cancel(job);
        }
        restart(&mut world, |_| ());
        let waiting = here(&world, "all");
        world.finish();
        check_all(&world);
        for job in waiting {
            let state = world.record(job).state();
            let never = state == JobState::Cancelled && world.record(job).spec.needs.dependency.is_some();
            prop_assert!(state == JobState::Completed || never, "job {job} is {state}");
        }
    }
}
