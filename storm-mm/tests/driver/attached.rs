//! Attached clients: output, flow control, input, late and vanished clients.

use crate::client::{input, job, reading};
use crate::cluster::{Cluster, Shape};
use crate::seeds::for_seeds;
use futures_util::FutureExt;
use std::time::Duration;
use storm_mm::api::{ErrorCode, JobState, ManagerRequest, Reply};
use storm_primitives::NodeId;
use storm_rm::{InputSpec, JobId, JobSpec, Needs};

#[test]
fn a_client_that_attaches_after_the_end_is_told_how_it_ended() {
    for_seeds(2, |seed| {
        let cluster = Cluster::start(seed, Shape::fcfs(1, 1));
        cluster.clone().run(async move {
            let mut running = cluster.client.run(job(1, &["p", "exit", "3"])).await;
            let end = running.end().await;
            assert_eq!((end.state, end.exit_code), (JobState::Failed, 3));
            let late = cluster.client.attach(running.job).await.end().await;
            assert_eq!(late, end);
        });
    });
}

#[test]
fn a_client_that_attaches_later_gets_what_follows() {
    for_seeds(3, |seed| {
        let cluster = Cluster::start(seed, Shape::fcfs(1, 1));
        cluster.clone().run(async move {
            let spec = job(1, &["p", "compute-ms", "50", "print", "later"]);
            let job = cluster.client.submit(spec).await;
            cluster.pause(Duration::from_millis(20)).await;
            let mut following = cluster.client.attach(job).await;
            assert_eq!(following.end().await.state, JobState::Completed);
            assert_eq!(following.stdout(0), b"later 0\n");
        });
    });
}

#[test]
fn a_waiter_for_jobs_hears_of_each_end_in_order() {
    for_seeds(3, |seed| {
        let cluster = Cluster::start(seed, Shape::fcfs(2, 1));
        cluster.clone().run(async move {
            let early = cluster.client.submit(job(1, &["p", "exit", "3"])).await;
            assert_eq!(cluster.client.attach(early).await.end().await.exit_code, 3);
            let array = Some("0-2".parse().expect("an array"));
            let spec = job(1, &["p", "compute-ms", "50"]);
            let needs = Needs { array, ..Needs::default() };
            let array = cluster.client.submit(JobSpec { needs, ..spec }).await;
            // Another user waits: a user that sees the jobs may also wait for their ends.
            let asked = ManagerRequest::Wait { jobs: vec![array, early, early] };
            let waits = cluster.admin().send(asked).await;
            let (mut heard, mut more) = (Vec::new(), true);
            while more {
                let Reply::Jobs { jobs, more: further } = waits.next().await.expect("news").reply
                else {
                    panic!("no listing")
                };
                more = further;
                heard.extend(jobs.iter().map(|job| (job.id.0, job.exit_code)));
            }
            heard.sort_unstable();
            let of_array = (1..=3).map(|index| (array.0 + index, Some(0)));
            let expected: Vec<_> = [(early.0, Some(3))].into_iter().chain(of_array).collect();
            assert_eq!(heard, expected);
            let nobody = ManagerRequest::Wait { jobs: vec![JobId(99)] };
            let Reply::Error { error } = cluster.client.ask(nobody).await else {
                panic!("there is no such job")
            };
            assert_eq!(error.code, ErrorCode::NoSuchJob);
        });
    });
}

#[test]
fn nobody_waits_for_more_jobs_than_the_manager_wants_to_remember() {
    /// One user may wait 13 times for an array of this size.
    const JOBS: usize = 10_000;
    let cluster = Cluster::start(1, Shape::fcfs(1, 1));
    cluster.clone().run(async move {
        let array = Some(format!("1-{JOBS}").parse().expect("an array"));
        let needs = Needs { array, hold: true, ..Needs::default() };
        let array = cluster.client.submit(JobSpec { needs, ..job(1, &["p"]) }).await;
        let wait = || cluster.client.send(ManagerRequest::Wait { jobs: vec![array] });
        let mut waits = Vec::new();
        for _ in 0..13 {
            waits.push(wait().await);
            let first = waits[waits.len() - 1].next().await.expect("an answer").reply;
            assert!(matches!(first, Reply::Jobs { more: true, .. }), "{first:?}");
        }
        let refused = wait().await.next().await.expect("an answer").reply;
        assert!(matches!(refused, Reply::Error { .. }), "{refused:?}");
        // A client that has left waits no more.
        waits.pop();
        let again = wait().await.next().await.expect("an answer").reply;
        assert!(matches!(again, Reply::Jobs { more: true, .. }), "{again:?}");
        // All jobs end at once: no client may be dropped for the burst of replies.
        cluster.client.cancel(array).await;
        for waits in waits {
            let mut heard = 0;
            loop {
                let news = waits.next().await.expect("news").reply;
                let Reply::Jobs { jobs, more } = news else { panic!("{news:?}") };
                heard += jobs.len();
                if !more {
                    break;
                }
            }
            assert_eq!(heard, JOBS);
        }
    });
}

#[test]
fn a_slow_client_holds_the_output_back_and_loses_nothing() {
    const OUTPUT_BYTES: usize = 8 << 20;
    for_seeds(2, |seed| {
        let cluster = Cluster::start(seed, Shape::fcfs(1, 1));
        cluster.clone().run(async move {
            let spec = job(1, &["p", "write-bytes", "8388608"]);
            let mut following = cluster.client.run_with(spec, 64 << 10).await;
            following.until(JobState::Running).await;
            cluster.pause(Duration::from_secs(5)).await;
            let listed = cluster.client.show(following.job).await;
            assert_eq!(listed.view.state, JobState::Running, "its output is held");
            assert_eq!(following.end().await.state, JobState::Completed);
            assert_eq!(following.stdout(0).len(), OUTPUT_BYTES);
        });
    });
}

#[test]
fn a_client_that_vanishes_while_it_holds_output_does_not_stop_the_job() {
    for_seeds(2, |seed| {
        let cluster = Cluster::start(seed, Shape::fcfs(1, 1));
        cluster.clone().run(async move {
            let spec = job(1, &["p", "write-bytes", "8388608"]);
            let mut following = cluster.client.run_with(spec, 64 << 10).await;
            following.until(JobState::Running).await;
            cluster.pause(Duration::from_secs(5)).await;
            let mut other = cluster.client.attach(following.job).await;
            drop(following);
            assert_eq!(other.end().await.state, JobState::Completed);
        });
    });
}

#[test]
fn client_input_reaches_the_ranks_that_read() {
    for_seeds(3, |seed| {
        let cluster = Cluster::start(seed, Shape::fcfs(2, 1));
        cluster.clone().run(async move {
            let spec = reading(InputSpec::All, job(2, &["p", "echo"]));
            let mut following = cluster.client.run(spec).await;
            following.until(JobState::Running).await;
            let job = following.job;
            assert_eq!(cluster.client.ask(input(job, b"hello ", false)).await, Reply::Ok);
            assert_eq!(cluster.client.ask(input(job, b"world", true)).await, Reply::Ok);
            assert_eq!(following.end().await.state, JobState::Completed);
            assert_eq!(following.stdout(0), b"hello world");
            assert_eq!(following.stdout(1), b"hello world");
        });
    });
}

/// More than every buffer on the way holds.
const LONG_INPUT: &[u8] = &[b'i'; 3 << 20];

#[test]
fn input_waits_for_a_job_that_does_not_read_and_arrives_whole() {
    for_seeds(2, |seed| {
        let shape = if seed % 2 == 0 { Shape::fcfs(2, 1) } else { Shape::gang(2, 1) };
        let cluster = Cluster::start(seed, shape);
        cluster.clone().run(async move {
            // Under gang scheduling it also has to wait for its turns.
            let rival = cluster.client.submit(job(2, &["p", "compute-ms", "3000"])).await;
            let spec = job(2, &["p", "compute-ms", "2000", "echo"]);
            let mut following = cluster.client.run(reading(InputSpec::All, spec)).await;
            following.until(JobState::Running).await;
            let sent = cluster.client.send(input(following.job, LONG_INPUT, true)).await;
            cluster.pause(Duration::from_secs(1)).await;
            assert!(sent.next().now_or_never().is_none(), "not before there is room for more");
            assert_eq!(following.end().await.state, JobState::Completed);
            assert_eq!(sent.next().await.expect("an answer").reply, Reply::Ok);
            for rank in 0..2 {
                assert!(following.stdout(rank) == LONG_INPUT);
            }
            assert!(cluster.client.attach(rival).await.end().await.state == JobState::Completed);
        });
    });
}

#[test]
fn input_that_a_job_never_reads_is_answered_when_the_job_ends() {
    for_seeds(2, |seed| {
        let cluster = Cluster::start(seed, Shape::fcfs(2, 1));
        cluster.clone().run(async move {
            let spec = job(2, &["p", "compute-ms", "1000"]);
            let spec = reading(InputSpec::RankZero, spec);
            let mut following = cluster.client.run(spec).await;
            following.until(JobState::Running).await;
            let job = following.job;
            let sent = cluster.client.send(input(job, LONG_INPUT, false)).await;
            let end = following.end().await;
            assert_eq!((end.state, end.exit_code), (JobState::Completed, 0), "{end:?}");
            assert_eq!(sent.next().await.expect("an answer").reply, Reply::Ok);
            assert_eq!(cluster.client.ask(input(job, b"late", true)).await, Reply::Ok);
        });
    });
}

#[test]
fn more_input_than_the_manager_holds_is_refused_and_the_job_goes_on() {
    let cluster = Cluster::start(1, Shape::fcfs(1, 1));
    cluster.clone().run(async move {
        let spec = job(1, &["p", "compute-ms", "1000"]);
        let spec = reading(InputSpec::RankZero, spec);
        let mut following = cluster.client.run(spec).await;
        following.until(JobState::Running).await;
        let job = following.job;
        let mut waiting = Vec::new();
        let refusal = loop {
            let sent = cluster.client.send(input(job, LONG_INPUT, false)).await;
            cluster.pause(Duration::from_millis(1)).await;
            match sent.next().now_or_never() {
                Some(answer) => break answer.expect("an answer").reply,
                None => waiting.push(sent),
            }
        };
        let Reply::Error { error } = refusal else { panic!("{refusal:?}") };
        assert_eq!(error.code, ErrorCode::TooLarge);
        assert!(waiting.len() < 6, "{} wait", waiting.len());
        assert_eq!(following.end().await.state, JobState::Completed);
    });
}

#[test]
fn a_dead_node_does_not_hold_input_back() {
    for_seeds(6, |seed| {
        let cluster = Cluster::start(seed, Shape::fcfs(2, 1));
        cluster.clone().run(async move {
            cluster.joined().await;
            let spec = job(2, &["p", "compute-ms", "100000"]);
            let mut following = cluster.client.run(reading(InputSpec::All, spec)).await;
            following.until(JobState::Running).await;
            let sent = cluster.client.send(input(following.job, LONG_INPUT, true)).await;
            cluster.pause(cluster.random(Duration::from_millis(20))).await;
            cluster.network.kill(NodeId(2));
            assert_eq!(following.end().await.state, JobState::NodeFail);
            assert_eq!(sent.next().await.expect("an answer").reply, Reply::Ok);
        });
    });
}
