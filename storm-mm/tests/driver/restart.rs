//! A manager that is killed: the next manager, on the same journal, has every acknowledged job, and
//! finds the running jobs again.

use crate::client::{End, input, job, reading};
use crate::cluster::{Cluster, NODE_FENCE, Shape};
use crate::seeds::for_seeds;
use crate::workload::SlowJournal;
use std::time::Duration;
use storm_mm::api::{JobState, Reply};
use storm_primitives::sim::Simulation;
use storm_primitives::{NodeId, NodeSet, Runtime};
use storm_rm::{InputSpec, JobSpec};

/// Longer than it takes the nodes to be back.
const BACK: Duration = Duration::from_millis(300);

fn start(seed: u64, shape: Shape) -> (Cluster, SlowJournal) {
    let simulation = Simulation::new(seed);
    let journal = SlowJournal::new(&simulation);
    let cluster = Cluster::start_with(&simulation, shape, journal.clone(), Vec::new());
    (cluster, journal)
}

/// Kills the manager, and starts another on its journal.
async fn restart(cluster: &Cluster, journal: &SlowJournal) -> Cluster {
    cluster.kill_manager();
    cluster.pause(cluster.random(Duration::from_millis(50))).await;
    let client = cluster.start_manager(journal.clone(), journal.entries());
    Cluster { client, ..cluster.clone() }
}

#[test]
fn jobs_run_on_without_a_manager_and_a_new_one_is_done_at_once() {
    for_seeds(20, |seed| {
        let shape = if seed % 2 == 0 { Shape::gang(2, 2) } else { Shape::fcfs(2, 2) };
        let (cluster, journal) = start(seed, shape);
        cluster.clone().run(async move {
            cluster.joined().await;
            let long = cluster.client.submit(job(2, &["p", "compute-ms", "2000"])).await;
            let mut following = cluster.client.attach(long).await;
            following.until(JobState::Running).await;
            let cluster = restart(&cluster, &journal).await;
            let began = cluster.simulation.now();
            let next = cluster.client.submit(job(2, &["p", "compute-ms", "1"])).await;
            let end = cluster.client.attach(next).await.end().await;
            assert_eq!(end.state, JobState::Completed, "{end:?}");
            assert!(cluster.simulation.now() - began < Duration::from_millis(500));
            let found = cluster.client.show(long).await;
            assert_eq!(found.view.state, JobState::Running, "{:?}", found.log);
            let end = cluster.client.attach(long).await.end().await;
            assert_eq!((end.state, end.exit_code), (JobState::Completed, 0), "{end:?}");
            assert_eq!(cluster.client.show(long).await.runs, 1);
        });
    });
}

#[test]
fn a_job_that_ends_while_there_is_no_manager_has_ended_as_it_did() {
    for_seeds(10, |seed| {
        let (cluster, journal) = start(seed, Shape::fcfs(2, 2));
        cluster.clone().run(async move {
            let words = ["p", "compute-ms", "30", "exit", "7"];
            let mut seven = cluster.client.run(job(2, &words)).await;
            let mut killed =
                cluster.client.run(job(2, &["p", "compute-ms", "30", "die", "9"])).await;
            seven.until(JobState::Running).await;
            killed.until(JobState::Running).await;
            cluster.kill_manager();
            cluster.pause(Duration::from_millis(100)).await;
            let client = cluster.start_manager(journal.clone(), journal.entries());
            let End { state, exit_code, .. } = client.attach(seven.job).await.end().await;
            assert_eq!((state, exit_code), (JobState::Failed, 7));
            let End { state, exit_code, .. } = client.attach(killed.job).await.end().await;
            assert_eq!((state, exit_code), (JobState::Failed, 128 + 9));
        });
    });
}

#[test]
fn a_client_that_comes_back_misses_no_output_of_the_time_between() {
    for_seeds(10, |seed| {
        let (cluster, journal) = start(seed, Shape::fcfs(2, 1));
        cluster.clone().run(async move {
            let words = ["p", "compute-ms", "100", "print", "late", "compute-ms", "400"];
            let mut before = cluster.client.run(job(2, &words)).await;
            before.until(JobState::Running).await;
            cluster.kill_manager();
            cluster.pause(Duration::from_millis(200)).await;
            let client = cluster.start_manager(journal.clone(), journal.entries());
            cluster.pause(BACK).await;
            let mut after = client.attach(before.job).await;
            assert_eq!(after.end().await.state, JobState::Completed);
            for rank in 0..2 {
                assert_eq!(after.stdout(rank), format!("late {rank}\n").as_bytes());
            }
        });
    });
}

#[test]
fn a_job_whose_client_does_not_come_back_is_not_held_up() {
    let (cluster, journal) = start(1, Shape::fcfs(1, 1));
    cluster.clone().run(async move {
        let words = ["p", "compute-ms", "100", "write-bytes", "4000000"];
        let mut before = cluster.client.run(job(1, &words)).await;
        before.until(JobState::Running).await;
        let cluster = restart(&cluster, &journal).await;
        cluster.pause(Duration::from_secs(20)).await;
        let end = cluster.client.attach(before.job).await.end().await;
        assert_eq!(end.state, JobState::Completed, "{end:?}");
    });
}

/// Regression: a run that began under the next manager wrote before its client was back.
#[test]
fn a_run_that_begins_after_the_restart_waits_for_its_client_with_its_output() {
    for_seeds(10, |seed| {
        let shape = if seed % 2 == 0 { Shape::gang(1, 1) } else { Shape::fcfs(1, 1) };
        let (cluster, journal) = start(seed, shape);
        cluster.clone().run(async move {
            cluster.joined().await;
            if seed % 4 < 2 {
                cluster.client.run(job(1, &["p", "compute-ms", "200"])).await;
            }
            let before = cluster.client.run(job(1, &["p", "print", "whole"])).await;
            let cluster = restart(&cluster, &journal).await;
            // A second is enough for the run to begin, and less than the client has.
            cluster.pause(Duration::from_secs(1)).await;
            let mut after = cluster.client.attach(before.job).await;
            assert_eq!(after.end().await.state, JobState::Completed);
            assert_eq!(after.stdout(0), b"whole 0\n");
        });
    });
}

#[test]
fn input_goes_on_where_the_next_manager_begins() {
    for_seeds(5, |seed| {
        let (cluster, journal) = start(seed, Shape::fcfs(1, 1));
        cluster.clone().run(async move {
            let spec = reading(InputSpec::All, job(1, &["p", "echo"]));
            let mut before = cluster.client.run(spec).await;
            before.until(JobState::Running).await;
            let sent = input(before.job, b"before ", false);
            assert_eq!(cluster.client.ask(sent).await, Reply::Ok);
            cluster.pause(Duration::from_millis(20)).await;
            let cluster = restart(&cluster, &journal).await;
            let mut after = cluster.client.attach(before.job).await;
            let sent = input(before.job, b"after", true);
            assert_eq!(cluster.client.ask(sent).await, Reply::Ok);
            assert_eq!(after.end().await.state, JobState::Completed);
            // The first piece was written and read before the restart.
            assert_eq!(after.stdout(0), b"after");
        });
    });
}

#[test]
fn a_node_that_dies_with_the_manager_ends_its_jobs_or_has_them_requeued() {
    for_seeds(10, |seed| {
        let (cluster, journal) = start(seed, Shape::fcfs(2, 1));
        cluster.clone().run(async move {
            cluster.joined().await;
            let spec = job(1, &["p", "compute-ms", "500"]);
            let plain = cluster.client.submit(JobSpec { nodes: Some(1), ..spec.clone() }).await;
            let again = cluster.client.submit(JobSpec { requeue: true, ..spec }).await;
            for job in [plain, again] {
                cluster.client.attach(job).await.until(JobState::Running).await;
            }
            cluster.kill_manager();
            for node in [1, 2].map(NodeId) {
                cluster.network.kill(node);
            }
            let client = cluster.start_manager(journal.clone(), journal.entries());
            for node in [1, 2].map(NodeId) {
                cluster.rejoin(node);
            }
            let end = client.attach(plain).await.end().await;
            assert_eq!(end.state, JobState::NodeFail, "{end:?}");
            let end = client.attach(again).await.end().await;
            assert_eq!(end.state, JobState::Completed, "{end:?}");
            assert_eq!(client.show(again).await.runs, 2);
        });
    });
}

#[test]
fn a_node_that_does_not_come_back_is_given_up_in_time() {
    let (cluster, journal) = start(1, Shape::fcfs(2, 1));
    cluster.clone().run(async move {
        cluster.joined().await;
        let long = cluster.client.submit(job(2, &["p", "compute-ms", "60000"])).await;
        cluster.client.attach(long).await.until(JobState::Running).await;
        cluster.kill_manager();
        cluster.network.kill(NodeId(2));
        let client = cluster.start_manager(journal.clone(), journal.entries());
        let end = client.attach(long).await.end().await;
        assert_eq!(end.state, JobState::NodeFail, "{end:?}");
        assert!(end.reason.expect("a reason").contains("n2"));
        let next = client.submit(job(1, &["p"])).await;
        assert_eq!(client.attach(next).await.end().await.state, JobState::Completed);
    });
}

#[test]
fn a_job_that_no_manager_comes_back_for_is_ended() {
    let (cluster, _) = start(1, Shape::fcfs(1, 1));
    cluster.clone().run(async move {
        let mut following = cluster.client.run(job(1, &["p", "compute-ms", "100000000"])).await;
        following.until(JobState::Running).await;
        cluster.kill_manager();
        cluster.pause(Duration::from_secs(50)).await;
        assert!(!cluster.hosts_are_idle(), "it is kept for a while");
        while cluster.nm_exits.borrow().is_empty() {
            cluster.simulation.runtime().sleep(Duration::from_secs(1)).await;
        }
        assert!(cluster.hosts_are_idle(), "and not for ever");
    });
}

#[test]
fn a_node_that_was_cut_off_is_told_to_end_what_is_lost() {
    for_seeds(10, |seed| {
        let (cluster, _) = start(seed, Shape::fcfs(2, 1));
        cluster.clone().run(async move {
            cluster.joined().await;
            let lost = cluster.client.submit(job(2, &["p", "compute-ms", "100000"])).await;
            cluster.client.attach(lost).await.until(JobState::Running).await;
            cluster.network.freeze(NodeId(2));
            let end = cluster.client.attach(lost).await.end().await;
            assert_eq!(end.state, JobState::NodeFail, "{end:?}");
            cluster.network.thaw(NodeId(2));
            let next = cluster.client.submit(job(2, &["p"])).await;
            assert_eq!(cluster.client.attach(next).await.end().await.state, JobState::Completed);
            cluster.pause(BACK).await;
            assert!(cluster.hosts_are_idle(), "the lost job is not left running");
        });
    });
}

/// Longest time until a lost node detects that it is lost.
const NOTICED: Duration = Duration::from_secs(5);

#[test]
fn a_job_runs_again_only_when_a_node_that_was_cut_off_runs_it_no_more() {
    for_seeds(20, |seed| {
        let shape = Shape { requeue_fence: NODE_FENCE + NOTICED, ..Shape::fcfs(2, 1) };
        let (cluster, journal) = start(seed, shape);
        cluster.clone().run(async move {
            cluster.joined().await;
            let spec = job(1, &["p", "compute-ms", "60000"]);
            let mut following = cluster.client.run(JobSpec { requeue: true, ..spec }).await;
            following.until(JobState::Running).await;
            let job = following.job;
            let (first, _) = cluster.launches.borrow()[0];
            *cluster.shut_out.borrow_mut() = NodeSet::single(first);
            cluster.network.freeze(first);
            following.until(JobState::Pending).await;
            cluster.network.thaw(first);
            assert_eq!(cluster.host(first).live_processes(), 1, "it runs on");
            let restarts = seed % 2 == 0;
            let cluster =
                if restarts { restart(&cluster, &journal).await } else { cluster.clone() };
            cluster.until_launches(2).await;
            assert_eq!(cluster.host(first).live_processes(), 0, "it would run twice");
            assert_ne!(cluster.launches.borrow()[1].0, first);
            let end = cluster.client.attach(job).await.end().await;
            assert_eq!(end.state, JobState::Completed, "{end:?}");
        });
    });
}

#[test]
fn a_job_runs_again_at_once_when_its_node_is_back() {
    for_seeds(10, |seed| {
        let shape = Shape { requeue_fence: Duration::from_secs(200), ..Shape::fcfs(2, 1) };
        let (cluster, journal) = start(seed, shape);
        cluster.clone().run(async move {
            cluster.joined().await;
            let spec = job(1, &["p", "compute-ms", "1000"]);
            let mut following = cluster.client.run(JobSpec { requeue: true, ..spec }).await;
            following.until(JobState::Running).await;
            let (first, _) = cluster.launches.borrow()[0];
            cluster.network.kill(first);
            following.until(JobState::Pending).await;
            let waits = cluster.client.show(following.job).await.view.reason;
            assert!(
                waits.as_ref().is_some_and(|why| why.contains("may still run it")),
                "{waits:?}"
            );
            let cluster = if seed % 2 == 0 { restart(&cluster, &journal).await } else { cluster };
            cluster.pause(BACK).await;
            assert_eq!(cluster.launches.borrow().len(), 1, "another node is free, and waits");
            let began = cluster.simulation.now();
            cluster.rejoin(first);
            cluster.until_launches(2).await;
            assert!(cluster.simulation.now() - began < Duration::from_secs(1));
            let end = cluster.client.attach(following.job).await.end().await;
            assert_eq!(end.state, JobState::Completed, "{end:?}");
        });
    });
}

#[test]
fn a_job_runs_again_within_a_second_when_a_node_manager_is_known_to_have_died() {
    for_seeds(10, |seed| {
        let shape = Shape { requeue_fence: Duration::from_secs(200), ..Shape::fcfs(2, 1) };
        let (cluster, _) = start(seed, shape);
        cluster.clone().run(async move {
            cluster.joined().await;
            let spec = job(1, &["p", "compute-ms", "1000"]);
            let mut following = cluster.client.run(JobSpec { requeue: true, ..spec }).await;
            following.until(JobState::Running).await;
            let (first, _) = cluster.launches.borrow()[0];
            let began = cluster.simulation.now();
            cluster.network.end_process(first);
            following.until(JobState::Pending).await;
            cluster.until_launches(2).await;
            assert!(cluster.simulation.now() - began < Duration::from_secs(1), "seed {seed}");
            assert_ne!(cluster.launches.borrow()[1].0, first);
            let end = following.end().await;
            assert_eq!(end.state, JobState::Completed, "{end:?}");
        });
    });
}

#[test]
fn a_job_that_waits_to_run_again_can_be_cancelled() {
    let shape = Shape { requeue_fence: Duration::from_secs(200), ..Shape::fcfs(2, 1) };
    let (cluster, _) = start(1, shape);
    cluster.clone().run(async move {
        cluster.joined().await;
        let spec = JobSpec { requeue: true, ..job(1, &["p", "compute-ms", "1000"]) };
        let mut following = cluster.client.run(spec).await;
        following.until(JobState::Running).await;
        let (first, _) = cluster.launches.borrow()[0];
        cluster.network.kill(first);
        following.until(JobState::Pending).await;
        cluster.client.cancel(following.job).await;
        assert_eq!(following.end().await.state, JobState::Cancelled);
        cluster.rejoin(first);
        cluster.joined().await;
        assert_eq!(cluster.launches.borrow().len(), 1);
    });
}

#[test]
fn a_time_limit_goes_on_over_a_restart_whatever_the_policy() {
    const LIMIT: Duration = Duration::from_millis(1600);
    /// Before the restarts, each at most 50 ms without a manager.
    const RESTARTS: u32 = 3;
    /// Longest time from the start of a job until the client receives this event.
    const NEWS: Duration = Duration::from_millis(5);
    for_seeds(10, |seed| {
        let shape = if seed % 2 == 0 { Shape::gang(2, 1) } else { Shape::fcfs(2, 1) };
        let (cluster, journal) = start(seed, shape);
        cluster.clone().run(async move {
            cluster.joined().await;
            let spec = job(2, &["p", "compute-ms", "100000"]);
            let spec = JobSpec { time_limit: Some(LIMIT), ..spec };
            let mut following = cluster.client.run(spec).await;
            following.until(JobState::Running).await;
            let (job, began) = (following.job, cluster.simulation.now());
            let mut cluster = cluster.clone();
            for _ in 0..RESTARTS {
                cluster.pause(LIMIT / 4).await;
                cluster = restart(&cluster, &journal).await;
            }
            let end = cluster.client.attach(job).await.end().await;
            let took = cluster.simulation.now() - began;
            assert_eq!(end.state, JobState::Timeout, "{end:?}");
            assert!(took + NEWS >= LIMIT, "{took:?}");
            // For each restart: the time that the journal does not cover, and the time without a
            // manager.
            let lost = (LIMIT / 16 + Duration::from_millis(300)) * RESTARTS;
            assert!(took < LIMIT + lost, "{took:?}");
        });
    });
}
