//! Tables: in each phase of a job's life, the name of its state and its fate. The fate is for a
//! cancel, the death of its node, and the shutdown of the cluster.

use super::invariants::check_all;
use super::world::{NODES, USER, World, spec};
use crate::api::{ApiError, ErrorCode, JobFilter, JobState, Part};
use crate::job::{EndCause, Phase};
use storm_primitives::NodeId;
use storm_rm::message::{ExitStatus, RankExit, Report};
use storm_rm::{
    FirstStep, InputSpec, JobId, OsBytes, OutputSpec, Program, Rank, StepRef, StepSpec,
};

/// The phases of the life of a job on all nodes.
const PHASES: [&str; 7] =
    ["pending", "staging", "staged", "launched", "running", "ending", "partly over"];

/// A job in a phase, together with a rival that holds it there if one is needed.
fn in_phase(phase: &str, requeue: bool) -> (World, JobId) {
    let sched = if phase == "pending" { "fcfs" } else { "gang" };
    let mut world = World::joined(sched, 8);
    let shipped = matches!(phase, "staging" | "staged");
    match phase {
        "pending" => {
            world.submit(spec(8, false, false));
        }
        "staged" => {
            world.submit(spec(8, false, false));
            world.submit(spec(8, false, false));
            assert!(world.core.slice(super::world::PARTITION).is_some());
        }
        _ => {}
    }
    let job = world.submit(spec(8, shipped, requeue));
    match phase {
        "staged" => {
            world.staged(0, Ok(Default::default()));
        }
        "running" | "ending" | "partly over" => world.started(0),
        _ => {}
    }
    if phase == "ending" {
        world.report(
            NodeId(1),
            Report::RankFailed {
                step: StepRef::program(job),
                incarnation: world.record(job).incarnation,
                exit: storm_rm::message::RankExit {
                    rank: storm_rm::Rank(0),
                    status: ExitStatus::Signal(11),
                    user_us: 0,
                    system_us: 0,
                    max_rss_kib: 0,
                },
                joined: false,
            },
        );
    }
    if phase == "partly over" {
        let part = *world.parts.keys().next().unwrap();
        world.part_over(part, ExitStatus::Code(0));
    }
    check_all(&world);
    (world, job)
}

fn state_of(world: &World, job: JobId) -> JobState {
    world.record(job).state()
}

#[test]
fn the_state_of_each_phase_has_slurms_name() {
    let names = PHASES.map(|phase| {
        let (world, job) = in_phase(phase, false);
        state_of(&world, job).name()
    });
    let (pending, running) = ("PENDING", "RUNNING");
    let expected = [pending, pending, pending, pending, running, running, running];
    assert_eq!(names, expected);
}

#[test]
fn a_job_cancelled_in_any_phase_ends_cancelled_unless_it_was_failing() {
    for phase in PHASES {
        let (mut world, job) = in_phase(phase, true);
        assert!(world.cancel(job), "{phase}");
        check_all(&world);
        world.finish();
        check_all(&world);
        let expected = if phase == "ending" { JobState::Failed } else { JobState::Cancelled };
        assert_eq!(state_of(&world, job), expected, "{phase}");
        assert!(!world.cancel(job), "it is over");
    }
}

/// The ways in which a node is lost.
const LOSSES: [fn(&mut World, NodeId); 2] = [World::node_down, World::processes_lost];

#[test]
fn the_loss_of_a_node_in_any_phase_is_blamed_on_it() {
    for (phase, lose) in PHASES.iter().flat_map(|phase| LOSSES.map(|lose| (*phase, lose))) {
        let (mut world, job) = in_phase(phase, false);
        lose(&mut world, NodeId(NODES));
        check_all(&world);
        world.finish();
        check_all(&world);
        match phase {
            "pending" => {
                assert_eq!(state_of(&world, job), JobState::Completed, "{phase}");
            }
            "ending" => assert_eq!(state_of(&world, job), JobState::Failed),
            _ => {
                let Phase::Ended(outcome) = &world.record(job).phase else { panic!("{phase}") };
                assert_eq!(outcome.state, JobState::NodeFail, "{phase}");
                assert_eq!(outcome.reason.as_deref(), Some("node n4 died or was cut off"));
            }
        }
    }
}

#[test]
fn a_job_that_wants_it_runs_again_whatever_phase_its_node_was_lost_in() {
    for (phase, lose) in PHASES.iter().flat_map(|phase| LOSSES.map(|lose| (*phase, lose))) {
        let (mut world, job) = in_phase(phase, true);
        lose(&mut world, NodeId(NODES));
        world.finish();
        check_all(&world);
        let expected = if phase == "ending" { JobState::Failed } else { JobState::Completed };
        assert_eq!(state_of(&world, job), expected, "{phase}");
    }
}

/// A user lists jobs in a state and cancels them; meanwhile one of them may have begun.
#[test]
fn only_jobs_in_the_states_that_were_asked_for_are_cancelled() {
    let (mut world, job) = in_phase("running", false);
    let mut cancel = |states: &[JobState]| {
        world.act(|core, now| core.cancel_all(now, USER, &[job, JobId(99)], None, states))
    };
    let codes =
        |done: Vec<Result<(), ApiError>>| done.into_iter().map(|one| one.map_err(|e| e.code));
    let waiting: Vec<_> = codes(cancel(&[JobState::Pending])).collect();
    assert_eq!(waiting, [Err(ErrorCode::OtherState), Err(ErrorCode::NoSuchJob)]);
    let running: Vec<_> = codes(cancel(&[JobState::Running])).collect();
    assert_eq!(running, [Ok(()), Err(ErrorCode::NoSuchJob)]);
    world.finish();
    assert_eq!(state_of(&world, job), JobState::Cancelled);
}

#[test]
fn a_cancelled_job_is_not_queued_again_though_its_node_died_first() {
    let (mut world, job) = in_phase("running", true);
    world.node_down(NodeId(NODES));
    assert!(matches!(world.record(job).phase, Phase::Ending(EndCause::NodeLost { .. })));
    assert!(world.cancel(job));
    world.finish();
    assert_eq!(state_of(&world, job), JobState::Cancelled);
}

#[test]
fn a_cluster_goes_down_whatever_phase_a_job_is_in() {
    for phase in PHASES {
        let (mut world, job) = in_phase(phase, true);
        let launches = world.core.live.launches().issued;
        world.act(|core, now| core.shut_down(now));
        check_all(&world);
        world.finish();
        check_all(&world);
        assert!(world.core.is_down(), "{phase}");
        assert!(state_of(&world, job).is_final());
        assert_eq!(world.core.live.launches().issued, launches, "{phase}");
    }
}

#[test]
fn more_jobs_than_slots_wait_in_order_without_end_of_the_stack() {
    let mut world = World::joined("fcfs", 2);
    let jobs: Vec<JobId> = (0..5_000).map(|_| world.submit(spec(1, false, false))).collect();
    check_all(&world);
    for job in &jobs {
        let part = *world.parts.keys().find(|(_, of, _)| of == job).expect("it is its turn");
        world.part_over(part, ExitStatus::Code(0));
    }
    check_all(&world);
    assert_eq!(world.unfinished(), []);
}

#[test]
fn an_exchange_that_no_heartbeat_can_carry_fails_the_job_instead_of_hanging_it() {
    let mut world = World::joined("fcfs", 2);
    let job = world.submit(spec(1, false, false));
    let node = world.parts.keys().next().unwrap().0;
    let puts = vec![("key".to_owned(), "v".repeat(60_000))];
    world.report(node, Report::Fence { step: StepRef::program(job), sequence: 1, puts });
    world.finish();
    let Phase::Ended(outcome) = &world.record(job).phase else { panic!("it goes on") };
    assert_eq!(outcome.state, JobState::Failed);
    assert!(outcome.reason.as_deref().unwrap().contains("PMI"), "{outcome:?}");
}

#[test]
fn a_job_that_one_node_cannot_serve_ends_everywhere_with_that_nodes_reason() {
    let (mut world, job) = in_phase("running", true);
    let incarnation = world.record(job).incarnation;
    let reason = "n2 (host) cannot go on with it: too many keys".to_owned();
    world.report(
        NodeId(2),
        Report::JobFailed { step: StepRef::program(job), incarnation, reason: reason.clone() },
    );
    let doomed = world.parts.values().filter(|(_, doomed)| *doomed).count();
    assert_eq!(doomed, NODES as usize, "all its parts are told to end");
    world.finish();
    let Phase::Ended(outcome) = &world.record(job).phase else { panic!("it goes on") };
    assert_eq!((outcome.state, outcome.exit_code), (JobState::Failed, 1));
    assert_eq!(outcome.reason, Some(reason));
}

#[test]
fn a_barrier_that_a_rank_has_left_for_ever_ends_the_job() {
    for left_first in [true, false] {
        let (mut world, job) = in_phase("running", true);
        let incarnation = world.record(job).incarnation;
        let left =
            Report::RankLeft { step: StepRef::program(job), incarnation, rank: storm_rm::Rank(5) };
        let fence = Report::Fence { step: StepRef::program(job), sequence: 1, puts: Vec::new() };
        let (first, second) = if left_first { (left, fence) } else { (fence, left) };
        let node = |report: &Report| NodeId(1 + u32::from(matches!(report, Report::Fence { .. })));
        world.report(node(&first), first);
        assert!(world.parts.values().all(|(_, doomed)| !doomed), "nobody waits in vain yet");
        world.report(node(&second), second);
        world.finish();
        let Phase::Ended(outcome) = &world.record(job).phase else { panic!("it goes on") };
        assert_eq!((outcome.state, outcome.exit_code), (JobState::Failed, 1));
        let reason = "rank 5 has ended and others wait for it in a PMI barrier";
        assert_eq!(outcome.reason.as_deref(), Some(reason));
    }
}

#[test]
fn a_barrier_without_a_node_whose_ranks_never_spoke_pmi_ends_the_job() {
    for over_first in [true, false] {
        let (mut world, job) = in_phase("running", true);
        let incarnation = world.record(job).incarnation;
        let over =
            Report::Terminated { step: StepRef::program(job), incarnation, ranks: Vec::new() };
        let fence = Report::Fence { step: StepRef::program(job), sequence: 1, puts: Vec::new() };
        let (first, second) = if over_first { (over, fence) } else { (fence, over) };
        let node = |report: &Report| NodeId(1 + u32::from(matches!(report, Report::Fence { .. })));
        world.report(node(&first), first);
        assert!(world.parts.values().all(|(_, doomed)| !doomed), "nobody waits in vain yet");
        world.report(node(&second), second);
        world.finish();
        let Phase::Ended(outcome) = &world.record(job).phase else { panic!("it goes on") };
        assert_eq!((outcome.state, outcome.exit_code), (JobState::Failed, 1));
        let reason = "rank 0 has ended and others wait for it in a PMI barrier";
        assert_eq!(outcome.reason.as_deref(), Some(reason));
    }
}

#[test]
fn a_rank_that_leaves_its_peers_ends_the_job_and_one_that_had_none_does_not() {
    for (code, joined, expected) in [(0, true, Some(1)), (7, true, Some(7)), (7, false, None)] {
        let (mut world, job) = in_phase("running", true);
        let incarnation = world.record(job).incarnation;
        let (rank, status) = (Rank(3), ExitStatus::Code(code));
        let exit = RankExit { rank, status, user_us: 0, system_us: 0, max_rss_kib: 0 };
        world.report(
            NodeId(2),
            Report::RankFailed { step: StepRef::program(job), incarnation, exit, joined },
        );
        let doomed = world.parts.values().filter(|(_, doomed)| *doomed).count();
        assert_eq!(doomed, if joined { NODES as usize } else { 0 });
        world.finish();
        let Phase::Ended(outcome) = &world.record(job).phase else { panic!("it goes on") };
        let failed = (outcome.state == JobState::Failed).then_some(outcome.exit_code);
        assert_eq!(failed, expected, "{outcome:?}");
        if joined {
            let reason = outcome.reason.as_deref().unwrap();
            assert!(reason.starts_with("rank 3 on n2 exited with"), "{reason}");
        }
    }
}

#[test]
fn a_crash_counts_before_an_abort_and_both_are_named() {
    for (signal, expected) in [(11, 139), (7, 135), (6, 14), (9, 14)] {
        let (mut world, job) = in_phase("running", true);
        let incarnation = world.record(job).incarnation;
        let aborted = Report::Aborted {
            step: StepRef::program(job),
            incarnation,
            rank: Rank(3),
            exit_code: 14,
        };
        world.report(NodeId(2), aborted);
        let part = *world.parts.keys().next().unwrap();
        world.part_over(part, ExitStatus::Signal(signal));
        world.finish();
        let Phase::Ended(outcome) = &world.record(job).phase else { panic!("it goes on") };
        assert_eq!((outcome.state, outcome.exit_code), (JobState::Failed, expected));
        let reason = outcome.reason.as_deref().unwrap();
        let aborted = "rank 3 aborted the job with exit code 14";
        let crashed = format!("rank 0 on n1 was ended by signal {signal}; {aborted}");
        assert_eq!(reason, if expected == 14 { aborted } else { &crashed });
    }
}

#[test]
fn an_abort_with_zero_is_a_failure() {
    let (mut world, job) = in_phase("running", true);
    let incarnation = world.record(job).incarnation;
    world.report(
        NodeId(2),
        Report::Aborted { step: StepRef::program(job), incarnation, rank: Rank(3), exit_code: 0 },
    );
    world.finish();
    let Phase::Ended(outcome) = &world.record(job).phase else { panic!("it goes on") };
    assert_eq!((outcome.state, outcome.exit_code), (JobState::Failed, 1));
}

#[test]
fn texts_in_listings_are_short() {
    let mut world = World::joined("fcfs", 2);
    let mut named = spec(1, false, false);
    named.name = "n".repeat(1024);
    let admitted = world.act(|core, now| core.submit(now, super::world::USER, named.clone()));
    assert!(admitted.is_ok(), "{admitted:?}");
    named.name.push('n');
    let refused = world.act(|core, now| core.submit(now, super::world::USER, named));
    assert_eq!(refused.unwrap_err().code, crate::api::ErrorCode::TooLarge);
    let mut constrained = spec(1, false, false);
    constrained.resources.constraint = Some(vec!["a"; 513].join("|"));
    let refused = world.act(|core, now| core.submit(now, super::world::USER, constrained));
    assert_eq!(refused.unwrap_err().code, crate::api::ErrorCode::TooLarge);
    check_all(&world);
}

/// Regression: one user's array made lines that no client takes, and listings failed for all.
#[test]
fn paths_in_listings_are_short_and_long_ones_make_short_parts() {
    let mut world = World::joined("fcfs", 2);
    let refused = |result: Result<_, ApiError>| {
        assert_eq!(result.expect_err("too long").code, ErrorCode::TooLarge);
    };
    let path = |bytes| OsBytes::from(vec![0xff; bytes]);
    let edits: [fn(&mut StepSpec, OsBytes); 4] = [
        |step, path| step.cwd = path,
        |step, path| step.input = InputSpec::File(path),
        |step, path| step.program = Program::OnNodes(path),
        |step, path| {
            step.output = OutputSpec::Files { stdout: "out".into(), stderr: Some(path) };
        },
    ];
    let mut longest = spec(1, false, false);
    for edit in edits {
        let mut long = spec(1, false, false);
        edit(&mut long.step, path(4097));
        refused(world.act(|core, now| core.submit(now, USER, long)));
        edit(&mut longest.step, path(4096));
    }
    // A path that is too long to exist is not told as the script's.
    longest.first = FirstStep::Script;
    longest.step.argv = vec![OsBytes::from(vec![b'/'; 20_000])];
    longest.needs.array = Some("0-63".parse().expect("an array"));
    world.submit(longest);
    let filter = JobFilter { attributes: true, ..JobFilter::default() };
    let (mut listed, mut after, mut goes_on) = (0, None, true);
    while goes_on {
        let part = Part { after, most: 64 };
        let (jobs, more) = world.core.list_part(world.now, &filter, part);
        let bytes = serde_json::to_vec(&jobs).expect("encodes").len();
        assert!(bytes < 160 << 10, "{bytes} bytes in a part");
        (listed, after, goes_on) = (listed + jobs.len(), jobs.last().map(|job| job.id), more);
    }
    assert_eq!(listed, 64);
    check_all(&world);
}

#[test]
fn a_specification_that_no_heartbeat_can_carry_is_refused() {
    let mut world = World::joined("fcfs", 2);
    let mut large = spec(1, false, false);
    large.step.files = (0..2_000)
        .map(|index| storm_rm::FileSpec {
            hash: storm_rm::ContentHash([0; 32]),
            size_bytes: 1,
            mode: 0o644,
            name: format!("file-{index}").into(),
            destination: storm_rm::Destination::JobDirectory,
        })
        .collect();
    let refused = world.act(|core, now| core.submit(now, super::world::USER, large));
    assert_eq!(refused.unwrap_err().code, crate::api::ErrorCode::TooLarge);
    check_all(&world);
}

#[test]
fn partitions_that_make_no_sense_are_refused() {
    use crate::{Core, PartitionError};
    let refused = |change: fn(&mut crate::CoreConfig)| {
        let mut config = super::world::config("gang", 2);
        change(&mut config);
        Core::new(config, [], storm_primitives::Instant::ORIGIN).err().expect("it is refused")
    };
    let error = refused(|config| config.partitions.clear());
    assert_eq!(error, PartitionError::None);
    let error = refused(|config| config.partitions[0].nodes.push(99));
    assert!(matches!(error, PartitionError::NoSuchNode { index: 99, .. }), "{error}");
    let error = refused(|config| config.partitions[0].nodes.push(0));
    assert!(matches!(error, PartitionError::Overlap { .. }), "{error}");
    let error = refused(|config| config.partitions[0].sched = "lottery".to_owned());
    assert!(matches!(error, PartitionError::Policy { .. }), "{error}");
    let error = refused(|config| config.partitions.push(config.partitions[0].clone()));
    assert!(matches!(error, PartitionError::Duplicate(_)), "{error}");
}

#[test]
fn a_node_says_nothing_of_the_ranks_of_others() {
    let (mut world, job) = in_phase("running", false);
    let (node, _, incarnation) = *world.parts.keys().next().expect("it runs");
    let exit = |rank, user_us| RankExit {
        rank: Rank(rank),
        status: ExitStatus::Code(7),
        user_us,
        system_us: u64::MAX,
        max_rss_kib: 0,
    };
    let ranks = (0..1000).map(|rank| exit(rank, u64::MAX)).collect();
    world.report(node, Report::Terminated { step: StepRef::program(job), incarnation, ranks });
    let shown = world.core.show(world.now, job).expect("it was submitted");
    assert_eq!(shown.cpu_us, u64::MAX);
    let told = shown.ranks.iter().filter(|rank| rank.exit.is_some());
    assert_eq!(told.count() as u32, super::world::PES);
    assert_eq!(world.core.live.get(job).unwrap().exits().len() as u32, super::world::PES);
}
