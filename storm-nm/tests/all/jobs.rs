//! The life of a job on modelled nodes: start, end, failure, requeue, and the end
//! of the node manager itself.

use crate::support::{World, ms, scenario};
use std::rc::Rc;
use std::time::Duration;
use storm_nm::modelled::{Model, RankContext, Script, Step};
use storm_nm::{ExitReason, LaunchRefused};
use storm_primitives::NodeId;
use storm_rm::message::{Command, ExitStatus, Report};
use storm_rm::{JobId, JobIncarnation, Rank, RowSet, StepRef};

const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

fn programs(program: impl Fn(&RankContext<'_>) -> Script + 'static) -> Model {
    Model { program: Rc::new(program), ..Model::default() }
}

fn compute(time: Duration) -> Model {
    programs(move |_| Script::compute(time))
}

async fn killed(world: &World, job: u64) -> Vec<ExitStatus> {
    world.exits_of(job).await.into_values().map(|exit| exit.status).collect()
}

#[test]
fn a_job_starts_everywhere_and_its_end_is_known_everywhere() {
    let body = |world: Rc<World>| async move {
        world.until(|_, report| matches!(report, Report::Joined(_)).then_some(())).await;
        world.launch(world.job(1, RowSet::ALL)).await;
        world.all_started(1, 1).await;
        let exits = world.exits_of(1).await;
        assert_eq!(exits.len(), 6);
        for exit in exits.values() {
            assert_eq!(exit.status, ExitStatus::Code(0));
            assert_eq!(exit.user_us, 3000, "as long as it computed");
        }
        world.all_terminated(1, 1).await;
        world.say(vec![Command::ReleaseJob { step: StepRef::program(JobId(1)) }]).await;
        world.sleep(ms(1)).await;
    };
    let ((), trace) = scenario(1, 3, compute(ms(3)), body);
    assert_eq!(trace.matches("forget 1.0:1").count(), 3);
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let run = |seed| {
        let body = |world: Rc<World>| async move {
            for job in 1..=3 {
                world.launch(world.job(job, RowSet(1 << (job % 2)))).await;
            }
            for strobe in 0..40 {
                world.strobe(strobe % 2).await;
                world.sleep(ms(1)).await;
            }
            for job in 1..=3 {
                world.exits_of(job).await;
            }
        };
        scenario(seed, 4, compute(ms(5)), body).1
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn a_program_that_cannot_be_executed_is_reported_and_the_others_can_be_killed() {
    let model = programs(|context| {
        let refused = LaunchRefused {
            reason: "cannot execute the program: No such file or directory".to_owned(),
            exit_code: LaunchRefused::NOT_FOUND,
        };
        let exec_failure = (context.rank == Rank(3)).then_some(refused);
        Script { exec_failure, ..Script::compute(ms(1000)) }
    });
    let body = |world: Rc<World>| async move {
        world.launch(world.job(1, RowSet::ALL)).await;
        let failure = world.until(|node, report| match report {
            Report::LaunchFailed { rank, reason, exit_code, .. } => {
                Some((node, *rank, reason.clone(), *exit_code))
            }
            _ => None,
        });
        let (node, rank, reason, exit_code) = failure.await;
        assert_eq!((node, rank, exit_code), (NodeId(2), Rank(3), 127));
        let expected = "rank 3 cannot start on n2 (host2): \
                        cannot execute the program: No such file or directory";
        assert_eq!(reason, expected);
        world.say(vec![Command::DestroyJob { step: StepRef::program(JobId(1)) }]).await;
        let exits = world.exits_of(1).await;
        assert_eq!(exits[&Rank(3)].status, ExitStatus::Code(127));
        assert_eq!(exits[&Rank(0)].status, ExitStatus::Signal(SIGKILL));
        world.all_terminated(1, 1).await;
        assert_eq!(world.host(1).live_processes(), 0);
    };
    scenario(2, 2, model, body);
}

#[test]
fn a_rank_that_fails_is_reported_while_the_others_run() {
    let model = programs(|context| match context.rank {
        Rank(1) => Script::compute(ms(1)).ending(ExitStatus::Signal(11)),
        _ => Script::compute(ms(500)),
    });
    let body = |world: Rc<World>| async move {
        world.launch(world.job(1, RowSet::ALL)).await;
        let failed = |_, report: &Report| match report {
            Report::RankFailed { exit, .. } => Some(exit.clone()),
            _ => None,
        };
        let exit = world.until(failed).await;
        assert_eq!((exit.rank, exit.status), (Rank(1), ExitStatus::Signal(11)));
        assert!(world.now_ns() < ms(5).as_nanos() as u64, "not when all have ended");
        assert_eq!(world.exits_of(1).await.len(), 4);
    };
    scenario(3, 2, model, body);
}

#[test]
fn the_last_rank_of_a_node_that_fails_is_reported_for_those_elsewhere() {
    let model = programs(|context| match context.rank {
        Rank(0 | 1) => Script::compute(ms(1)).ending(ExitStatus::Signal(11)),
        _ => Script::compute(ms(500)),
    });
    let body = |world: Rc<World>| async move {
        world.launch(world.job(1, RowSet::ALL)).await;
        world.sleep(ms(20)).await;
        let told = |report: &Report| matches!(report, Report::RankFailed { .. });
        assert_eq!(world.reports().iter().filter(|(_, report)| told(report)).count(), 1);
        world.say(vec![Command::DestroyJob { step: StepRef::program(JobId(1)) }]).await;
        world.exits_of(1).await;
        let told = world.reports().iter().filter(|(_, report)| told(report)).count();
        assert_eq!(told, 1, "those that were killed on request are no news");
    };
    scenario(16, 2, model, body);
}

#[test]
fn a_signal_and_a_kill_end_a_job() {
    let model = programs(|context| {
        let ignores = if context.rank == Rank(0) { vec![SIGTERM] } else { Vec::new() };
        Script { ignores, ..Script::compute(ms(10_000)) }
    });
    let body = |world: Rc<World>| async move {
        world.launch(world.job(1, RowSet::ALL)).await;
        world.all_started(1, 1).await;
        world
            .say(vec![Command::SignalJob { step: StepRef::program(JobId(1)), signal: SIGTERM }])
            .await;
        world.sleep(ms(5)).await;
        assert_eq!(world.host(1).live_processes(), 1, "the one that ignores it");
        world.say(vec![Command::DestroyJob { step: StepRef::program(JobId(1)) }]).await;
        let ends = killed(&world, 1).await;
        let (kill, term) = (ExitStatus::Signal(SIGKILL), ExitStatus::Signal(SIGTERM));
        assert_eq!(ends, [kill, term]);
    };
    scenario(4, 1, model, body);
}

#[test]
fn a_job_destroyed_before_it_has_processes_ends_without_any() {
    let body = |world: Rc<World>| async move {
        let launch = world.job(1, RowSet::ALL);
        let destroy = Command::DestroyJob { step: StepRef::program(JobId(1)) };
        world.say(vec![Command::LaunchJob(Rc::new(launch)), destroy]).await;
        let ends = killed(&world, 1).await;
        assert_eq!(ends, vec![ExitStatus::Signal(SIGKILL); 4]);
        world.all_terminated(1, 1).await;
    };
    let ((), trace) = scenario(5, 2, compute(ms(50)), body);
    assert!(!trace.contains("launch 1.0:1"), "{trace}");
}

#[test]
fn a_requeued_job_is_not_confused_with_its_earlier_run() {
    let body = |world: Rc<World>| async move {
        world.launch(world.job(1, RowSet::ALL)).await;
        world.all_started(1, 1).await;
        let mut again = world.job(1, RowSet::ALL);
        again.incarnation = JobIncarnation(2);
        world.launch(again).await;
        world.all_started(1, 2).await;
        world.all_terminated(1, 2).await;
        for (_, report) in world.reports() {
            if let Report::Terminated { incarnation, ranks, .. } = report {
                assert_eq!(incarnation, JobIncarnation(2), "the first run has no news");
                assert!(ranks.iter().all(|exit| exit.status == ExitStatus::Code(0)));
            }
        }
    };
    let ((), trace) = scenario(6, 2, compute(ms(20)), body);
    assert_eq!(trace.matches("forget 1.0:1").count(), 2);
}

#[test]
fn a_child_left_behind_is_killed_before_the_end_is_announced() {
    let model = programs(|_| Script { leaves_child: true, ..Script::compute(ms(1)) });
    let body = |world: Rc<World>| async move {
        world.launch(world.job(1, RowSet::ALL)).await;
        world.exits_of(1).await;
    };
    let ((), trace) = scenario(7, 1, model, body);
    let (end, told) = (trace.find("end 1.0:1"), trace.find("Terminated"));
    assert!(end.is_some() && end < told, "{trace}");
}

#[test]
fn jobs_of_another_user_are_refused_where_the_manager_is_not_root() {
    let model = Model { only_uid: Some(1234), ..Model::default() };
    let body = |world: Rc<World>| async move {
        world.launch(world.job(1, RowSet::ALL)).await;
        let refused = |_, report: &Report| match report {
            Report::LaunchFailed { reason, exit_code, .. } => Some((reason.clone(), *exit_code)),
            _ => None,
        };
        let (reason, exit_code) = world.until(refused).await;
        assert!(reason.contains("runs as user 1234, not as root"), "{reason}");
        assert_eq!(exit_code, 126);
        world.all_terminated(1, 1).await;
    };
    scenario(8, 1, model, body);
}

#[test]
fn more_ranks_than_processing_elements_are_refused() {
    let model = Model { pes: 1, ..Model::default() };
    let body = |world: Rc<World>| async move {
        world.launch(world.job(1, RowSet::ALL)).await;
        let refused = |_, report: &Report| match report {
            Report::LaunchFailed { reason, .. } => Some(reason.clone()),
            _ => None,
        };
        assert!(world.until(refused).await.contains("2 ranks do not fit 1 processing elements"));
    };
    scenario(9, 1, model, body);
}

#[test]
fn shutdown_ends_the_jobs_tells_how_and_leaves_nothing() {
    let body = |world: Rc<World>| async move {
        world.launch(world.job(1, RowSet::ALL)).await;
        world.all_started(1, 1).await;
        world.say(vec![Command::Shutdown]).await;
        let ends = killed(&world, 1).await;
        assert_eq!(ends, vec![ExitStatus::Signal(SIGKILL); 4]);
        world.when(|| world.exits.borrow().len() == 2).await;
        for (node, exit) in world.exits.borrow().iter() {
            assert_eq!(exit.reason, ExitReason::Shutdown);
            assert!(world.host(node.0).is_clean());
        }
    };
    scenario(10, 2, compute(ms(60_000)), body);
}

#[test]
fn a_node_with_fewer_processing_elements_than_configured_leaves_and_one_with_enough_does_not() {
    let body = |world: Rc<World>| async move {
        world.launch(world.job(1, RowSet::ALL)).await;
        world.all_started(1, 1).await;
        // This command is for an earlier life of the node, which offered fewer elements.
        world.say(vec![Command::RefuseNode { configured_pes: 2 }]).await;
        world.strobe(0).await;
        assert!(world.exits.borrow().is_empty());
        world.say(vec![Command::RefuseNode { configured_pes: 3 }]).await;
        world.when(|| world.exits.borrow().len() == 1).await;
        for (node, exit) in world.exits.borrow().iter() {
            assert_eq!(exit.reason, ExitReason::TooFewPes { offered: 2, configured: 3 });
            assert!(world.host(node.0).is_clean());
        }
    };
    scenario(18, 1, Model { pes: 2, ..compute(ms(60_000)) }, body);
}

#[test]
fn a_lost_cluster_ends_the_jobs_and_the_manager() {
    let body = |world: Rc<World>| async move {
        world.launch(world.job(1, RowSet::ALL)).await;
        world.all_started(1, 1).await;
        world.network.freeze(NodeId(2));
        // The node is cut off once its silence is noticed. Then the node wakes up alone.
        world.sleep(ms(20)).await;
        world.network.thaw(NodeId(2));
        world.when(|| world.exits.borrow().len() == 1).await;
        assert_eq!(world.exits.borrow()[&NodeId(2)].reason, ExitReason::Disconnected);
        assert!(world.host(2).is_clean());
        assert_eq!(world.host(1).live_processes(), 2, "the other node is not concerned");
    };
    scenario(11, 2, compute(ms(60_000)), body);
}

#[test]
fn a_node_that_lost_its_processes_says_so_and_leaves() {
    let body = |world: Rc<World>| async move {
        world.launch(world.job(1, RowSet::ALL)).await;
        world.all_started(1, 1).await;
        world.host(1).lose_processes();
        world.when(|| world.exits.borrow().contains_key(&NodeId(1))).await;
        assert_eq!(world.exits.borrow()[&NodeId(1)].reason, ExitReason::HostLost);
        let lost = |node, report: &Report| match report {
            Report::ProcessesLost => Some(node),
            Report::Terminated { .. } => panic!("the end of a part that was lost: {report:?}"),
            _ => None,
        };
        assert_eq!(world.until(lost).await, NodeId(1));
    };
    scenario(12, 2, compute(ms(60_000)), body);
}

#[test]
fn the_pmi_barrier_crosses_nodes_and_carries_the_keys() {
    let model = programs(|context| {
        let own = Step::Put {
            key: format!("card-{}", context.rank),
            value: format!("address of {}", context.rank),
        };
        let left = (context.rank.0 + context.size - 1) % context.size;
        Script::of(vec![own, Step::Fence, Step::Get { key: format!("card-{left}") }])
    });
    let body = |world: Rc<World>| async move {
        world.launch(world.job(1, RowSet::ALL)).await;
        let mut all = Vec::new();
        for node in world.nodes().iter() {
            let fence = |from, report: &Report| match report {
                Report::Fence { sequence: 1, puts, .. } if from == node => Some(puts.clone()),
                _ => None,
            };
            all.extend(world.until(fence).await);
        }
        assert_eq!(all.len(), 6);
        let done = Command::FenceDone { step: StepRef::program(JobId(1)), sequence: 1, puts: all };
        world.say(vec![done]).await;
        world.exits_of(1).await;
        for rank in 0..6 {
            let got = world.output_of(rank, storm_rm::message::Stream::Stdout);
            let left = (rank + 5) % 6;
            assert_eq!(String::from_utf8_lossy(&got), format!("address of {left}"));
        }
    };
    scenario(13, 3, model, body);
}

#[test]
fn an_abort_is_told_with_its_code() {
    let model = programs(|context| match context.rank {
        Rank(1) => Script::of(vec![Step::Abort { exit_code: 7 }]),
        _ => Script::compute(ms(1000)),
    });
    let body = |world: Rc<World>| async move {
        world.launch(world.job(1, RowSet::ALL)).await;
        let aborted = |_, report: &Report| match report {
            Report::Aborted { rank, exit_code, .. } => Some((*rank, *exit_code)),
            _ => None,
        };
        assert_eq!(world.until(aborted).await, (Rank(1), 7));
    };
    scenario(14, 1, model, body);
}

#[test]
fn keys_too_large_for_a_report_end_the_whole_job_with_that_reason() {
    let model = programs(|context| {
        let put = |key| Step::Put { key: format!("key-{key}"), value: "v".repeat(1000) };
        // One rank may put less than a report carries; two may put more.
        let keys = if context.rank <= Rank(1) { 2200 } else { 0 };
        Script::of((0..keys).map(put).chain([Step::Fence]).collect())
    });
    let body = |world: Rc<World>| async move {
        world.launch(world.job(1, RowSet::ALL)).await;
        let failed = |node, report: &Report| match report {
            Report::JobFailed { reason, .. } => Some((node, reason.clone())),
            _ => None,
        };
        let (node, reason) = world.until(failed).await;
        assert_eq!(node, NodeId(1));
        let expected = "n1 (host1) cannot go on with it: the keys that its ranks put before a PMI \
                        barrier do not fit a report of 4194304 bytes";
        assert_eq!(reason, expected);
        // The ranks of the other node would stay in the barrier for ever.
        world.say(vec![Command::DestroyJob { step: StepRef::program(JobId(1)) }]).await;
        let ends = killed(&world, 1).await;
        assert_eq!(ends, vec![ExitStatus::Signal(SIGKILL); 4]);
    };
    scenario(15, 2, model, body);
}

#[test]
fn a_rank_that_leaves_ends_those_who_wait_for_it_in_a_barrier() {
    let model = programs(|context| match context.rank {
        Rank(1) => Script::of(Vec::new()),
        _ => Script::of(vec![Step::Fence]),
    });
    let body = |world: Rc<World>| async move {
        world.launch(world.job(1, RowSet::ALL)).await;
        let failed = |_, report: &Report| match report {
            Report::JobFailed { reason, .. } => Some(reason.clone()),
            _ => None,
        };
        let reason = world.until(failed).await;
        let expected = "n1 (host1) cannot go on with it: rank 1 is gone and rank 0 waits for it \
                        in a PMI barrier";
        assert_eq!(reason, expected);
        let ends = world.exits_of(1).await;
        assert_eq!(ends.len(), 2, "nobody waits for ever");
    };
    scenario(16, 1, model, body);
}

#[test]
fn a_rank_that_leaves_is_told_for_those_who_wait_on_other_nodes() {
    let model = programs(|context| match context.rank {
        Rank(2) => Script::of(vec![Step::Put { key: "k".to_owned(), value: "v".to_owned() }]),
        Rank(3) => Script::compute(ms(60_000)),
        _ => Script::of(vec![Step::Fence]),
    });
    let body = |world: Rc<World>| async move {
        world.launch(world.job(1, RowSet::ALL)).await;
        let left = |node, report: &Report| match report {
            Report::RankLeft { rank, .. } => Some((node, *rank)),
            _ => None,
        };
        assert_eq!(world.until(left).await, (NodeId(2), Rank(2)));
    };
    scenario(17, 2, model, body);
}
