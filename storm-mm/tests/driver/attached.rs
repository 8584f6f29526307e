//! Attached clients: output, flow control, input, late and vanished clients.

use crate::client::{input, job};
use crate::cluster::{Cluster, Shape};
use crate::seeds::for_seeds;
use std::time::Duration;
use storm_mm::api::{JobState, Reply};
use storm_rm::{InputSpec, JobSpec};

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
fn what_a_client_types_reaches_the_ranks_that_read() {
    for_seeds(3, |seed| {
        let cluster = Cluster::start(seed, Shape::fcfs(2, 1));
        cluster.clone().run(async move {
            let spec = JobSpec { input: InputSpec::All, ..job(2, &["p", "echo"]) };
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
