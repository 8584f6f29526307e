//! Strobes on modelled nodes: the CPU time of each job, to the microsecond.

use crate::support::{World, file, ms, scenario, us};
use bytes::Bytes;
use std::rc::Rc;
use std::time::Duration;
use storm_nm::modelled::{Model, Script, Step};
use storm_nm::{ExitReason, JobKey};
use storm_primitives::NodeId;
use storm_rm::message::{Command, ExitStatus, Report, Slices, Stream};
use storm_rm::{InputSpec, JobId, JobIncarnation, Rank, Row, RowSet, StepRef};

const SIGTERM: i32 = 15;
/// A heartbeat reaches all nodes of the simulated network well within this.
const SWEEP: Duration = Duration::from_micros(300);

fn compute(time: Duration) -> Model {
    Model { program: Rc::new(move |_| Script::compute(time)), ..Model::default() }
}

fn key(job: u64) -> JobKey {
    JobKey { step: StepRef::program(JobId(job)), incarnation: JobIncarnation(1) }
}

fn row(row: u32) -> RowSet {
    RowSet::single(Row(row))
}

/// Launches jobs 1 and 2 in rows 0 and 1, row 0 active.
async fn two_rows(world: &World) {
    world.strobe(0).await;
    world.launch(world.job(1, row(0))).await;
    world.launch(world.job(2, row(1))).await;
    world.sleep(ms(2)).await;
}

fn close(actual: Duration, expected: Duration, slack: Duration) {
    let low = expected.saturating_sub(slack);
    assert!(actual >= low && actual <= expected + slack, "{actual:?} is not about {expected:?}");
}

#[test]
fn a_job_of_another_row_starts_stopped_and_executes_nothing() {
    let body = |world: Rc<World>| async move {
        two_rows(&world).await;
        world.sleep(ms(50)).await;
        assert!(world.host(1).cpu_time(key(1), Rank(0)) > ms(40));
        assert_eq!(world.host(1).cpu_time(key(2), Rank(0)), Duration::ZERO);
        world.strobe(1).await;
        world.all_started(2, 1).await;
    };
    let ((), trace) = scenario(20, 2, compute(ms(500)), body);
    assert!(trace.contains("launch 2.0:1 stopped=true"), "{trace}");
}

#[test]
fn two_rows_share_the_time_exactly() {
    let body = |world: Rc<World>| async move {
        two_rows(&world).await;
        let used = |job| world.host(2).cpu_time(key(job), Rank(2));
        let before = [used(1), used(2)];
        for slice in 1..=20 {
            world.strobe(slice % 2).await;
            world.sleep(ms(2)).await;
        }
        let gained = [used(1) - before[0], used(2) - before[1]];
        for gained in gained {
            close(gained, ms(20), SWEEP * 20);
        }
        // The jobs never run both at once: together they used no more time than has passed.
        let (start, end) = (before[0] + before[1], used(1) + used(2));
        assert!(end - start <= ms(40) + SWEEP * 20);
        let exits = world.exits_of(1);
        for slice in 1..=1000 {
            world.strobe(slice % 2).await;
            world.sleep(ms(2)).await;
        }
        for exit in exits.await.values() {
            assert_eq!(exit.user_us, 100_000, "stopping neither adds nor takes work");
        }
    };
    scenario(21, 2, compute(ms(100)), body);
}

/// A strobe of row 1, after which the rows take turns by the nodes' clocks.
fn ten_slices(world: &World) -> Command {
    let following = (1..10).map(|slice| Row((slice + 1) % 2)).collect();
    Command::Slices(Slices { strobe: world.next_strobe(1), quantum_ns: 2_000_000, following })
}

#[test]
fn nodes_begin_the_slices_that_follow_by_their_own_clocks() {
    let body = |world: Rc<World>| async move {
        two_rows(&world).await;
        let used = |job| world.host(1).cpu_time(key(job), Rank(0));
        let first = used(1);
        world.say(vec![ten_slices(&world)]).await;
        world.sleep(ms(19)).await;
        // Five slices of each; the last has just begun.
        close(used(1) - first, ms(9), ms(1) + SWEEP);
        close(used(2), ms(10), SWEEP * 2);
        world.sleep(ms(21)).await;
        close(used(2), ms(10), SWEEP * 2);
        close(used(1) - first, ms(30), SWEEP * 2);
    };
    let ((), trace) = scenario(27, 2, compute(ms(500)), body);
    assert_eq!(trace.matches("stop 1.0:1").count(), 10, "five on each of two nodes\n{trace}");
}

/// A regression: slices that were on their way to a node that died reached its next life.
#[test]
fn slices_from_before_a_join_was_answered_are_forgotten() {
    let body = |world: Rc<World>| async move {
        world.say(vec![ten_slices(&world)]).await;
        world.sleep(ms(5)).await;
        world
            .say(vec![Command::Resume {
                jobs: Vec::new(),
                next_run: JobIncarnation(1),
                clients: None,
            }])
            .await;
        world.launch(world.job(1, row(0))).await;
        world.sleep(ms(30)).await;
        close(world.host(1).cpu_time(key(1), Rank(0)), ms(30), ms(5));
    };
    scenario(29, 2, compute(ms(500)), body);
}

#[test]
fn events_between_slices_change_the_switches() {
    let body = |world: Rc<World>| async move {
        two_rows(&world).await;
        let used = |job| world.host(1).cpu_time(key(job), Rank(0));
        world.say(vec![ten_slices(&world)]).await;
        world.sleep(ms(3)).await;
        let (first, second) = (used(1), used(2));
        // Row 0 has its second slice. Job 1 runs in all slices from here on.
        let both = RowSet(0b11);
        world.say(vec![Command::SetRows { job: JobId(1), rows: both }]).await;
        world.sleep(ms(10)).await;
        close(used(1) - first, ms(10), SWEEP * 2);
        close(used(2) - second, ms(5), SWEEP * 2);
        // Job 1 runs in the slices of row 1 only from here on. The present slice is of row 1.
        world.say(vec![Command::SetRows { job: JobId(1), rows: row(1) }]).await;
        world.say(vec![Command::SetRows { job: JobId(2), rows: row(0) }]).await;
        let (first, second) = (used(1), used(2));
        world.sleep(ms(6)).await;
        close(used(1) - first + (used(2) - second), ms(6), SWEEP * 2);
    };
    scenario(30, 1, compute(ms(500)), body);
}

/// A strobe of row 1, after which the rows take turns for 300 slices of a millisecond.
fn many_slices(world: &World) -> Command {
    let following = (1..300).map(|slice| Row((slice + 1) % 2)).collect();
    Command::Slices(Slices { strobe: world.next_strobe(1), quantum_ns: 1_000_000, following })
}

/// Output, input, PMI requests and heartbeats without rows arrive many times in a span.
#[test]
fn what_does_not_concern_the_rows_leaves_the_ordered_slices_alone() {
    let put = Step::Put { key: "k".to_owned(), value: "v".to_owned() };
    let line = Step::Write(Stream::Stdout, Bytes::from_static(b"line\n"));
    let steps = vec![Step::Compute(ms(1)), line, put];
    let script = Script::of(vec![Step::Repeat { times: 1_000, steps }]);
    let model = Model { program: Rc::new(move |_| script.clone()), ..Model::default() };
    let body = |world: Rc<World>| async move {
        world.strobe(0).await;
        for job in [1, 2] {
            let mut launch = world.job(job, row(job as u32 - 1));
            Rc::make_mut(&mut launch.spec).step.input = InputSpec::All;
            world.launch(launch).await;
        }
        world.sleep(ms(2)).await;
        let host = world.host(1);
        world.say(vec![many_slices(&world)]).await;
        let begun = (host.withdrawals(), host.cpu_time(key(1), Rank(0)));
        for _ in 0..100 {
            for job in [1, 2] {
                let data = Bytes::from_static(b"input");
                world
                    .say(vec![Command::Input {
                        step: StepRef::program(JobId(job)),
                        data,
                        eof: false,
                    }])
                    .await;
            }
            world.sleep(ms(2)).await;
        }
        let withdrawals = host.withdrawals() - begun.0;
        assert!(world.output_of(0, Stream::Stdout).len() > 500, "ranks write");
        close(host.cpu_time(key(1), Rank(0)) - begun.1, host.cpu_time(key(2), Rank(0)), ms(2));
        assert_eq!(withdrawals, 0);
    };
    scenario(31, 1, model, body);
}

#[test]
fn a_strobe_recalls_the_slices_that_follow() {
    let body = |world: Rc<World>| async move {
        two_rows(&world).await;
        world.say(vec![ten_slices(&world)]).await;
        world.sleep(ms(5)).await;
        // The slices that follow take nine numbers. A strobe is ignored if the node has reached its
        // number by itself.
        world.strobe(0).await;
        world.sleep(ms(1)).await;
        let second = world.host(1).cpu_time(key(2), Rank(0));
        for _ in 0..9 {
            let _ = world.next_strobe(0);
        }
        world.strobe(1).await;
        world.sleep(ms(40)).await;
        close(world.host(1).cpu_time(key(2), Rank(0)) - second, ms(41), ms(2) + SWEEP);
    };
    scenario(28, 1, compute(ms(500)), body);
}

#[test]
fn a_job_of_both_rows_runs_on_through_the_switch() {
    let body = |world: Rc<World>| async move {
        two_rows(&world).await;
        let both = RowSet(0b11);
        world.say(vec![Command::SetRows { job: JobId(1), rows: both }]).await;
        for slice in 1..=10 {
            world.strobe(slice % 2).await;
            world.sleep(ms(2)).await;
        }
        world.say(vec![Command::SetRows { job: JobId(1), rows: row(1) }]).await;
        world.sleep(ms(2)).await;
        let stopped_at = world.host(1).cpu_time(key(1), Rank(0));
        world.sleep(ms(10)).await;
        assert_eq!(world.host(1).cpu_time(key(1), Rank(0)), stopped_at, "row 0 is active");
    };
    let ((), trace) = scenario(22, 1, compute(ms(500)), body);
    assert_eq!(trace.matches("stop 1.0:1").count(), 1, "{trace}");
}

#[test]
fn a_strobe_that_is_past_changes_nothing() {
    let body = |world: Rc<World>| async move {
        two_rows(&world).await;
        let late = world.next_strobe(1);
        world.strobe(0).await;
        world.say(vec![Command::Strobe(late)]).await;
        world.sleep(ms(10)).await;
        assert_eq!(world.host(1).cpu_time(key(2), Rank(0)), Duration::ZERO);
    };
    scenario(23, 1, compute(ms(500)), body);
}

#[test]
fn a_node_that_slept_through_strobes_ends_in_the_newest_row() {
    let body = |world: Rc<World>| async move {
        two_rows(&world).await;
        world.network.freeze(NodeId(1));
        // The silence is too short for a death, so these strobes are delivered late.
        let missed = vec![world.next_strobe(1), world.next_strobe(0), world.next_strobe(1)];
        let say = world.say(missed.into_iter().map(Command::Strobe).collect());
        let thaw = async {
            world.sleep(ms(3)).await;
            world.network.thaw(NodeId(1));
        };
        futures_util::future::join(say, thaw).await;
        world.sleep(ms(1)).await;
        let second = world.host(1).cpu_time(key(2), Rank(0));
        world.sleep(ms(5)).await;
        close(world.host(1).cpu_time(key(2), Rank(0)) - second, ms(5), us(10));
    };
    scenario(24, 1, compute(ms(500)), body);
}

#[test]
fn strobes_do_not_wait_for_a_slow_disk() {
    let body = |world: Rc<World>| async move {
        two_rows(&world).await;
        // 8 ms for every chunk of 8 KiB.
        world.host(1).slow_disk(us(1));
        let content = vec![9u8; 200_000];
        let program = file("program", &content);
        let shipping = world.ship(1, &program, &content);
        let strobing = async {
            for slice in 1..=150 {
                world.strobe(slice % 2).await;
                world.sleep(ms(1)).await;
            }
        };
        let (shipped, ()) = futures_util::future::join(shipping, strobing).await;
        assert!(shipped.expect("written").write > Duration::ZERO);
        assert!(world.now_ns() > ms(200).as_nanos() as u64, "the disk was slow indeed");
        world.say(vec![Command::Shutdown]).await;
        world.when(|| !world.exits.borrow().is_empty()).await;
        let exits = world.exits.borrow();
        let exit = &exits[&NodeId(1)];
        assert_eq!(exit.reason, ExitReason::Shutdown);
        assert!(exit.switches.since_issue().len() > 150);
        let worst = Duration::from_nanos(exit.switches.since_issue().max());
        assert!(worst < SWEEP * 2, "a strobe took {worst:?}");
    };
    scenario(25, 1, compute(ms(10_000)), body);
}

#[test]
fn a_stopped_job_is_resumed_to_act_on_a_signal_and_stopped_again() {
    let model = Model {
        program: Rc::new(|context| Script {
            ignores: if context.rank == Rank(0) { vec![SIGTERM] } else { Vec::new() },
            ..Script::compute(ms(500))
        }),
        ..Model::default()
    };
    let body = |world: Rc<World>| async move {
        two_rows(&world).await;
        world.strobe(1).await;
        world.sleep(ms(2)).await;
        assert_eq!(world.host(1).live_processes(), 4);
        world
            .say(vec![Command::SignalJob { step: StepRef::program(JobId(1)), signal: SIGTERM }])
            .await;
        world.sleep(ms(20)).await;
        assert_eq!(world.host(1).live_processes(), 3, "the signal has acted");
        let used = world.host(1).cpu_time(key(1), Rank(0));
        world.sleep(ms(20)).await;
        assert_eq!(world.host(1).cpu_time(key(1), Rank(0)), used, "stopped again");
    };
    let ((), trace) = scenario(26, 1, model, body);
    assert_eq!(trace.matches("resume 1.0:1").count(), 1, "{trace}");
    assert_eq!(trace.matches("stop 1.0:1").count(), 2, "{trace}");
}

#[test]
fn a_stopped_job_can_be_killed() {
    let body = |world: Rc<World>| async move {
        two_rows(&world).await;
        world.say(vec![Command::DestroyJob { step: StepRef::program(JobId(2)) }]).await;
        let exits = world.exits_of(2).await;
        assert!(exits.values().all(|exit| exit.status == ExitStatus::Signal(9)));
        let started = world.reports().iter().any(|(_, r)| matches!(r, Report::LaunchFailed { .. }));
        assert!(!started);
    };
    scenario(27, 2, compute(ms(500)), body);
}

#[test]
fn a_node_that_missed_strobes_of_others_follows_the_launch() {
    let body = |world: Rc<World>| async move {
        world.strobe(0).await;
        world.launch(world.job(1, row(0))).await;
        world.sleep(ms(2)).await;
        let mut second = world.job(2, row(1));
        second.active_row = Row(1);
        world.launch(second).await;
        world.sleep(ms(2)).await;
        let used = world.host(1).cpu_time(key(1), Rank(0));
        world.sleep(ms(5)).await;
        assert_eq!(world.host(1).cpu_time(key(1), Rank(0)), used);
        assert!(world.host(1).cpu_time(key(2), Rank(0)) > ms(4));
    };
    scenario(28, 1, compute(ms(500)), body);
}
