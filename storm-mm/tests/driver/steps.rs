//! Steps that a script's clients start in its place: their ranks, their output and input, their
//! clients' leaving, and a manager that is killed.

use crate::client::{Client, End, Following, job, reading, shipped};
use crate::cluster::{Cluster, Shape};
use crate::seeds::for_seeds;
use crate::workload::SlowJournal;
use bytes::Bytes;
use std::time::Duration;
use storm_mm::api::{
    Call, ClientEnd, ClientId, ErrorCode, FromClient, JobState, ManagerRequest, Reply, ReplyStream,
    reply_channel,
};
use storm_primitives::sim::Simulation;
use storm_rm::{
    FirstStep, InputSpec, JobId, JobIncarnation, JobSpec, StepAsk, StepLayout, StepSize, StepSpec,
};

/// The client of all steps here.
const OWN: ClientId = ClientId(9);
const BUFFER_BYTES: usize = 1 << 20;

/// A script on all elements that runs for so long.
async fn script(cluster: &Cluster, ms: &str) -> (JobId, JobIncarnation) {
    cluster.joined().await;
    let procs = cluster.shape.nodes * cluster.shape.pes;
    let spec = JobSpec { first: FirstStep::Script, ..job(procs, &["p", "compute-ms", ms]) };
    let job = cluster.client.submit(spec).await;
    let mut following = cluster.client.attach(job).await;
    following.until(JobState::Running).await;
    (job, JobIncarnation(1))
}

fn step(words: &[&str]) -> StepSpec {
    job(1, words).step
}

fn asks(
    (job, run): (JobId, JobIncarnation),
    ask: u64,
    procs: u32,
    spec: StepSpec,
) -> ManagerRequest {
    let (ask, size, layout) = (StepAsk(ask), StepSize::of_procs(procs), StepLayout::default());
    ManagerRequest::RunStep { job, run, ask, size, layout, spec: Box::new(spec) }
}

async fn send(client: &Client, request: ManagerRequest) -> ReplyStream {
    let replies = reply_channel(BUFFER_BYTES);
    let sink = replies.sink(1, true);
    let call = Call { peer: client.peer, client: OWN, request, replies: sink };
    client.calls.send(FromClient::Call(call)).await.expect("the manager takes calls");
    replies
}

/// Asks for a step, and waits until it has its elements.
async fn begun(client: &Client, job: JobId, request: ManagerRequest) -> (u32, Following) {
    let replies = send(client, request).await;
    loop {
        match replies.next().await.expect("an event").reply {
            Reply::Step { step: Some(number), .. } => {
                return (number, Following::new(job, replies));
            }
            Reply::Step { step: None, .. } => {}
            other => panic!("no step: {other:?}"),
        }
    }
}

async fn ended(client: &Client, place: (JobId, JobIncarnation), ask: u64, words: &[&str]) -> End {
    let request = asks(place, ask, 1, step(words));
    begun(client, place.0, request).await.1.end().await
}

#[test]
fn steps_run_in_their_place_and_give_output_and_status() {
    for_seeds(10, |seed| {
        let shape = if seed % 2 == 0 { Shape::gang(2, 2) } else { Shape::fcfs(2, 2) };
        let cluster = Cluster::start(seed, shape);
        cluster.clone().run(async move {
            let place = script(&cluster, "3000").await;
            let spec = step(&["p", "fence", "", "print", "rank", "exit", "3"]);
            let request = asks(place, 1, 4, spec);
            let (number, mut following) = begun(&cluster.client, place.0, request.clone()).await;
            assert_eq!(number, 0);
            let end = following.end().await;
            assert_eq!((end.state, end.exit_code), (JobState::Failed, 3), "{end:?}");
            for rank in 0..4 {
                assert_eq!(following.stdout(rank), format!("rank {rank}\n").as_bytes());
            }
            let (number, mut again) = begun(&cluster.client, place.0, request).await;
            assert_eq!((number, again.end().await), (0, end), "the same number is the same step");
            let end = ended(&cluster.client, place, 2, &["p"]).await;
            assert_eq!(end.state, JobState::Completed, "{end:?}");
            let end = cluster.client.attach(place.0).await.end().await;
            assert_eq!(end.state, JobState::Completed);
            let launches = cluster.launches.borrow().len();
            assert_eq!(launches, 1 + 2 + 1, "parts of the script, of step 0 and of step 1");
        });
    });
}

#[test]
fn many_steps_at_once_each_run_once() {
    for_seeds(5, |seed| {
        let cluster = Cluster::start(seed, Shape::fcfs(2, 2));
        cluster.clone().run(async move {
            let place = script(&cluster, "5000").await;
            let mut all = Vec::new();
            for ask in 0..20 {
                let spec = step(&["p", "compute-ms", "5", "print", "one"]);
                all.push(send(&cluster.client, asks(place, ask, 1, spec)).await);
            }
            for replies in all {
                let mut outputs = 0;
                loop {
                    match replies.next().await.expect("an event").reply {
                        Reply::Output { .. } => outputs += 1,
                        Reply::Ended { state, .. } => break assert_eq!(state, JobState::Completed),
                        Reply::Step { .. } | Reply::State { .. } => {}
                        other => panic!("{other:?}"),
                    }
                }
                assert_eq!(outputs, 1);
            }
        });
    });
}

#[test]
fn a_step_gets_its_files_and_the_input_of_its_client() {
    for_seeds(3, |seed| {
        let cluster = Cluster::start(seed, Shape::fcfs(2, 1));
        cluster.clone().run(async move {
            let place = script(&cluster, "3000").await;
            let file = cluster.contents.add("program", 10_000, 7);
            let spec = reading(InputSpec::All, shipped(job(2, &["p", "echo"]), file));
            let request = asks(place, 1, 2, spec.step);
            let (_, mut following) = begun(&cluster.client, place.0, request).await;
            following.until(JobState::Running).await;
            for (data, eof) in [("hello ", false), ("world", true)] {
                let input = ManagerRequest::Input {
                    job: place.0,
                    data: Bytes::from_static(data.as_bytes()),
                    eof,
                    resent_from: None,
                    ask: Some(StepAsk(1)),
                };
                assert_eq!(cluster.client.ask(input).await, Reply::Ok);
            }
            assert_eq!(following.end().await.state, JobState::Completed);
            assert_eq!(following.stdout(0), b"hello world");
            assert_eq!(following.stdout(1), b"hello world");
        });
    });
}

#[test]
fn a_step_ends_with_its_client_and_the_next_has_its_elements() {
    for_seeds(3, |seed| {
        let cluster = Cluster::start(seed, Shape::fcfs(1, 2));
        cluster.clone().run(async move {
            let place = script(&cluster, "20000").await;
            let words = ["p", "compute-ms", "100000"];
            let request = asks(place, 1, 2, step(&words));
            let (_, mut following) = begun(&cluster.client, place.0, request).await;
            following.until(JobState::Running).await;
            let left = FromClient::Left { client: OWN, end: ClientEnd::Meant };
            cluster.client.calls.send(left).await.expect("the manager takes it");
            let end = ended(&cluster.client, place, 2, &["p"]).await;
            assert_eq!(end.state, JobState::Completed, "{end:?}");
            let request = asks(place, 3, 2, step(&words));
            let (_, mut following) = begun(&cluster.client, place.0, request).await;
            let end_step = ManagerRequest::EndStep { job: place.0, ask: StepAsk(3) };
            assert_eq!(cluster.client.ask(end_step).await, Reply::Ok);
            assert_eq!(following.end().await.state, JobState::Cancelled);
        });
    });
}

#[test]
fn the_end_of_the_script_ends_steps_that_run_and_those_that_wait() {
    for_seeds(3, |seed| {
        let cluster = Cluster::start(seed, Shape::fcfs(1, 2));
        cluster.clone().run(async move {
            let place = script(&cluster, "300").await;
            let request = asks(place, 1, 2, step(&["p", "compute-ms", "100000"]));
            let (_, mut first) = begun(&cluster.client, place.0, request).await;
            let waits = send(&cluster.client, asks(place, 2, 1, step(&["p"]))).await;
            let reply = waits.next().await.expect("an answer").reply;
            assert!(matches!(reply, Reply::Step { step: None, .. }), "{reply:?}");
            assert_eq!(first.end().await.state, JobState::Cancelled);
            let reply = waits.next().await.expect("an end").reply;
            assert!(matches!(reply, Reply::Ended { .. }), "{reply:?}");
            let end = cluster.client.attach(place.0).await.end().await;
            assert_eq!(end.state, JobState::Completed, "{end:?}");
            let late = send(&cluster.client, asks(place, 3, 1, step(&["p"]))).await;
            let Reply::Error { error } = late.next().await.expect("an answer").reply else {
                panic!("the place is over")
            };
            assert_eq!(error.code, ErrorCode::JobEnded);
            assert!(cluster.hosts_are_idle());
        });
    });
}

#[test]
fn steps_outlive_the_manager_and_are_found_by_the_number_of_their_request() {
    for_seeds(10, |seed| {
        let simulation = Simulation::new(seed);
        let journal = SlowJournal::new(&simulation);
        let shape = Shape::fcfs(2, 2);
        let cluster = Cluster::start_with(&simulation, shape, journal.clone(), Vec::new());
        cluster.clone().run(async move {
            let place = script(&cluster, "5000").await;
            let spec = step(&["p", "compute-ms", "1000", "print", "late", "exit", "4"]);
            let request = asks(place, 1, 4, spec);
            let (_, mut following) = begun(&cluster.client, place.0, request.clone()).await;
            if seed % 2 == 0 {
                following.until(JobState::Running).await;
            }
            cluster.kill_manager();
            cluster.pause(cluster.random(Duration::from_millis(50))).await;
            let client = cluster.start_manager(journal.clone(), journal.entries());
            let (number, mut following) = begun(&client, place.0, request).await;
            let end = following.end().await;
            assert_eq!((number, end.state, end.exit_code), (0, JobState::Failed, 4), "{end:?}");
            for rank in 0..4 {
                assert_eq!(following.stdout(rank), format!("late {rank}\n").as_bytes());
            }
            assert_eq!(client.attach(place.0).await.end().await.state, JobState::Completed);
            assert_eq!(cluster.launches.borrow().len(), 1 + 2, "nothing was launched twice");
        });
    });
}
