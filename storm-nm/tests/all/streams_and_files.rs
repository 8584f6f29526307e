//! Output, input and files on modelled nodes. Nothing is lost, out of order or without bound, and a
//! failure has a reason.

use crate::support::{self, World, file, ms, scenario};
use bytes::Bytes;
use std::rc::Rc;
use std::time::Duration;
use storm_nm::modelled::{Model, Script, Step};
use storm_primitives::NodeSet;
use storm_rm::file_transfer::TransferError;
use storm_rm::message::{Command, ExitStatus, Report, Stream};
use storm_rm::{Destination, InputSpec, JobId, Program, Rank, RowSet, StepRef};

fn pattern(rank: u32, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i as u32 * 7 + rank * 13) as u8).collect()
}

fn writers(len: usize) -> Model {
    let program = move |context: &storm_nm::modelled::RankContext<'_>| {
        let text = Bytes::from(pattern(context.rank.0, len));
        let stderr = Bytes::from(format!("rank {} done", context.rank));
        Script::of(vec![Step::Write(Stream::Stdout, text), Step::Write(Stream::Stderr, stderr)])
    };
    Model { program: Rc::new(program), ..Model::default() }
}

async fn file_failure(world: &World) -> String {
    let failed = |_, report: &Report| match report {
        Report::FileFailed { reason, .. } => Some(reason.clone()),
        _ => None,
    };
    world.until(failed).await
}

#[test]
fn all_output_comes_whole_and_in_order_before_the_end_is_told() {
    let body = |world: Rc<World>| async move {
        world.launch(world.job(1, RowSet::ALL)).await;
        world.exits_of(1).await;
        for rank in 0..4 {
            assert!(world.output_of(rank, Stream::Stdout) == pattern(rank, 150_000));
            let said = world.output_of(rank, Stream::Stderr);
            assert_eq!(said, format!("rank {rank} done").into_bytes());
        }
        for node in world.nodes().iter() {
            let reports = world.reports();
            let own = reports.iter().filter(|(from, _)| *from == node).map(|(_, report)| report);
            let end = own.clone().position(|r| matches!(r, Report::Terminated { .. }));
            let last = own.clone().rev().position(|r| matches!(r, Report::Output { .. }));
            assert!(end.is_some_and(|end| end > own.count() - 1 - last.unwrap_or(0)));
        }
    };
    scenario(40, 2, writers(150_000), body);
}

#[test]
fn output_of_a_client_that_does_not_keep_up_waits_in_the_ranks() {
    let body = |world: Rc<World>| async move {
        let launch = Command::LaunchJob(Rc::new(world.job(1, RowSet::ALL)));
        let hold = Command::HoldOutput { step: StepRef::program(JobId(1)), hold: true };
        world.say(vec![launch, hold]).await;
        world.sleep(ms(100)).await;
        assert_eq!(world.output_of(0, Stream::Stdout), b"");
        assert_eq!(world.host(1).live_processes(), 2, "they wait for their pipes");
        world
            .say(vec![Command::HoldOutput { step: StepRef::program(JobId(1)), hold: false }])
            .await;
        world.exits_of(1).await;
        assert!(world.output_of(1, Stream::Stdout) == pattern(1, 200_000));
    };
    scenario(41, 1, writers(200_000), body);
}

#[test]
fn a_held_job_that_is_destroyed_does_not_hang() {
    let body = |world: Rc<World>| async move {
        world.launch(world.job(1, RowSet::ALL)).await;
        world.say(vec![Command::HoldOutput { step: StepRef::program(JobId(1)), hold: true }]).await;
        world.sleep(ms(5)).await;
        world.say(vec![Command::DestroyJob { step: StepRef::program(JobId(1)) }]).await;
        let exits = world.exits_of(1).await;
        assert!(exits.values().all(|exit| exit.status == ExitStatus::Signal(9)));
    };
    scenario(42, 1, writers(5_000_000), body);
}

fn echoes() -> Model {
    Model { program: Rc::new(|_| Script::of(vec![Step::Echo])), ..Model::default() }
}

#[test]
fn input_reaches_the_ranks_that_read_it() {
    let body = |world: Rc<World>| async move {
        let mut launch = world.job(1, RowSet::ALL);
        let mut spec = support::spec(4);
        spec.step.input = InputSpec::All;
        launch.spec = Rc::new(spec);
        world.launch(launch).await;
        for piece in ["to be, ", "or not", " to be"] {
            let data = Bytes::from(piece);
            world
                .say(vec![Command::Input { step: StepRef::program(JobId(1)), data, eof: false }])
                .await;
        }
        let end =
            Command::Input { step: StepRef::program(JobId(1)), data: Bytes::new(), eof: true };
        world.say(vec![end]).await;
        world.exits_of(1).await;
        for rank in 0..4 {
            assert_eq!(world.output_of(rank, Stream::Stdout), b"to be, or not to be");
        }
    };
    scenario(43, 2, echoes(), body);
}

/// Launches a job on one node. The job's input is for all ranks or for the first.
async fn launch_reader(world: &World, input: InputSpec) {
    let mut launch = world.job(1, RowSet::ALL);
    Rc::make_mut(&mut launch.spec).step.input = input;
    world.launch(launch).await;
}

async fn send(world: &World, pieces: usize) {
    for _ in 0..pieces {
        let data = Bytes::from(vec![0; PIECE]);
        world
            .say(vec![Command::Input { step: StepRef::program(JobId(1)), data, eof: false }])
            .await;
    }
}

const PIECE: usize = 32 * 1024;

fn taken(world: &World) -> u64 {
    let taken = |(_, report): &(_, Report)| match report {
        Report::InputTaken { taken_bytes, .. } => Some(*taken_bytes),
        _ => None,
    };
    world.reports().iter().filter_map(taken).next_back().unwrap_or(0)
}

#[test]
fn input_that_is_not_read_is_not_reported_as_taken_and_kills_nobody() {
    let program = |context: &storm_nm::modelled::RankContext<'_>| match context.rank {
        Rank(0) => Script::of(vec![Step::Compute(ms(2_000)), Step::Echo]),
        _ => Script::of(vec![Step::Echo]),
    };
    let model = Model { program: Rc::new(program), ..Model::default() };
    let body = |world: Rc<World>| async move {
        launch_reader(&world, InputSpec::All).await;
        send(&world, 32).await;
        world.sleep(ms(1_000)).await;
        assert!(taken(&world) <= 2 * PIECE as u64, "no more than a pipe holds");
        let end =
            Command::Input { step: StepRef::program(JobId(1)), data: Bytes::new(), eof: true };
        world.say(vec![end]).await;
        let exits = world.exits_of(1).await;
        assert!(exits.values().all(|exit| exit.status == ExitStatus::Code(0)), "{exits:?}");
        for rank in 0..2 {
            assert_eq!(world.output_of(rank, Stream::Stdout).len(), 32 * PIECE);
        }
        assert_eq!(taken(&world), 32 * PIECE as u64);
    };
    scenario(44, 1, model, body);
}

#[test]
fn input_to_a_rank_that_is_gone_counts_as_taken() {
    let program = |context: &storm_nm::modelled::RankContext<'_>| match context.rank {
        Rank(0) => Script::compute(ms(100)),
        _ => Script::of(vec![Step::Echo]),
    };
    let model = Model { program: Rc::new(program), ..Model::default() };
    let body = |world: Rc<World>| async move {
        launch_reader(&world, InputSpec::All).await;
        send(&world, 8).await;
        world.when(|| taken(&world) == 8 * PIECE as u64).await;
        send(&world, 8).await;
        world.when(|| taken(&world) == 16 * PIECE as u64).await;
        let end =
            Command::Input { step: StepRef::program(JobId(1)), data: Bytes::new(), eof: true };
        world.say(vec![end]).await;
        world.exits_of(1).await;
        assert_eq!(world.output_of(1, Stream::Stdout).len(), 16 * PIECE, "the other reads on");
    };
    scenario(53, 1, model, body);
}

#[test]
fn a_file_is_received_once_and_then_known() {
    let body = |world: Rc<World>| async move {
        let content = pattern(1, 100_000);
        let program = file("program", &content);
        let first = world.ship(1, &program, &content).await.expect("shipped");
        assert_eq!(first.sent_to, world.nodes());
        let second = world.ship(2, &program, &content).await.expect("there");
        assert!(second.sent_to.is_empty(), "every node has it");
        let mut launch = world.job(1, RowSet::ALL);
        let mut spec = support::spec(6);
        spec.step.program = Program::Shipped(program);
        launch.spec = Rc::new(spec);
        world.launch(launch).await;
        world.all_started(1, 1).await;
    };
    scenario(45, 3, Model::default(), body);
}

#[test]
fn an_empty_file_and_one_of_whole_chunks_arrive() {
    let body = |world: Rc<World>| async move {
        for (generation, len) in [(1, 0), (2, 16_384), (3, 16_385), (4, 1)] {
            let content = pattern(0, len);
            let shipped = world.ship(generation, &file("f", &content), &content).await;
            // An empty file is written as soon as it is announced.
            let sent_to = if len == 0 { NodeSet::new() } else { world.nodes() };
            assert_eq!(shipped.expect("shipped").sent_to, sent_to, "{len} bytes");
        }
    };
    scenario(46, 2, Model::default(), body);
}

#[test]
fn a_full_disk_fails_the_file_with_a_reason_and_not_the_other_nodes() {
    let body = |world: Rc<World>| async move {
        let content = pattern(2, 100_000);
        world.host(3).fill_disk(true);
        let outcome = world.ship(1, &file("program", &content), &content).await;
        let Err(TransferError::NotWritten { nodes }) = outcome else { panic!("{outcome:?}") };
        assert_eq!(nodes.to_string(), "n3");
        let reason = file_failure(&world).await;
        assert_eq!(reason, "n3 cannot receive program: no storage space");
        world.host(3).fill_disk(false);
        let again = world.ship(2, &file("program", &content), &content).await.expect("shipped");
        assert!(again.sent_to.contains(storm_primitives::NodeId(3)));
    };
    scenario(47, 4, Model::default(), body);
}

#[test]
fn a_disk_that_fills_half_way_fails_only_its_node() {
    let body = |world: Rc<World>| async move {
        let content = pattern(3, 200_000);
        let program = file("program", &content);
        let ship = world.ship(1, &program, &content);
        let fill = async {
            world.sleep(Duration::from_micros(300)).await;
            world.host(2).fill_disk(true);
        };
        let (outcome, ()) = futures_util::future::join(ship, fill).await;
        let Err(TransferError::NotWritten { nodes }) = outcome else { panic!("{outcome:?}") };
        assert_eq!(nodes.to_string(), "n2");
        assert!(file_failure(&world).await.starts_with("n2 cannot receive program"));
    };
    scenario(48, 3, Model::default(), body);
}

#[test]
fn damaged_content_is_never_executed() {
    let body = |world: Rc<World>| async move {
        let content = pattern(4, 50_000);
        let program = file("program", &content);
        let mut damaged = content.clone();
        damaged[40_000] ^= 1;
        let outcome = world.ship(1, &program, &damaged).await;
        assert!(matches!(outcome, Err(TransferError::NotWritten { .. })), "{outcome:?}");
        assert!(file_failure(&world).await.ends_with("the content is damaged"));
        let mut launch = world.job(1, RowSet::ALL);
        let mut spec = support::spec(2);
        spec.step.program = Program::Shipped(program);
        launch.spec = Rc::new(spec);
        world.launch(launch).await;
        let refused = |_, report: &Report| match report {
            Report::LaunchFailed { reason, exit_code, .. } => Some((reason.clone(), *exit_code)),
            _ => None,
        };
        let (reason, exit_code) = world.until(refused).await;
        assert!(reason.ends_with("the content of program is not in the cache"), "{reason}");
        assert_eq!(exit_code, 127);
    };
    scenario(49, 1, Model::default(), body);
}

#[test]
fn a_file_for_a_path_is_placed_before_it_counts_as_written() {
    let body = |world: Rc<World>| async move {
        let content = pattern(5, 20_000);
        let mut data = file("data", &content);
        data.destination = Destination::Path("/scratch/data".into());
        for generation in 1..=2 {
            world.ship(generation, &data, &content).await.expect("shipped or there");
        }
    };
    let ((), trace) = scenario(50, 2, Model::default(), body);
    assert_eq!(trace.matches("placed").count(), 4, "also where the content was there: {trace}");
}

#[test]
fn an_abandoned_transfer_does_not_disturb_the_next() {
    let body = |world: Rc<World>| async move {
        let first = file("first", &pattern(6, 60_000));
        world.say(vec![Command::ReceiveFile(world.announcement(1, &first))]).await;
        let content = pattern(7, 60_000);
        let shipped = world.ship(2, &file("second", &content), &content).await.expect("shipped");
        assert_eq!(shipped.sent_to, world.nodes());
    };
    scenario(51, 2, Model::default(), body);
}

#[test]
fn the_cache_evicts_what_was_used_least_recently() {
    let model = Model { cache_bytes: 100_000, ..Model::default() };
    let body = |world: Rc<World>| async move {
        let contents: Vec<Vec<u8>> = (0..3).map(|i| pattern(i, 40_000)).collect();
        for (generation, content) in (1..).zip(&contents) {
            world.ship(generation, &file("f", content), content).await.expect("shipped");
        }
        let third = world.ship(4, &file("f", &contents[2]), &contents[2]).await.expect("there");
        assert!(third.sent_to.is_empty());
        let first = world.ship(5, &file("f", &contents[0]), &contents[0]).await.expect("shipped");
        assert_eq!(first.sent_to, world.nodes(), "it was evicted for the third");
    };
    scenario(52, 1, model, body);
}
