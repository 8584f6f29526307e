//! Node Managers that stand still, with jobs that are to be queued again. The keeper ends those
//! jobs in time, whatever happens to the Node Manager and the manager.

use crate::client::job;
use crate::cluster::{Cluster, NODE_FENCE, NODE_LEASE, Shape};
use crate::seeds::for_seeds;
use crate::workload::SlowJournal;
use std::time::Duration;
use storm_mm::api::{JobState, NodeState};
use storm_primitives::sim::Simulation;
use storm_rm::JobSpec;

/// Longer than a node needs to notice that it is lost, and to kill.
const NOTICED: Duration = Duration::from_secs(1);

fn start(seed: u64, shape: Shape) -> (Cluster, SlowJournal) {
    let simulation = Simulation::new(seed);
    let journal = SlowJournal::new(&simulation);
    let cluster = Cluster::start_with(&simulation, shape, journal.clone(), Vec::new());
    (cluster, journal)
}

fn again(ms: &'static str) -> JobSpec {
    JobSpec { requeue: true, ..job(1, &["p", "compute-ms", ms]) }
}

#[test]
fn a_job_runs_again_only_when_a_node_that_stands_still_runs_it_no_more() {
    for_seeds(40, |seed| {
        let fence = NODE_LEASE.max(NODE_FENCE) + NOTICED;
        let (cluster, journal) = start(seed, Shape { requeue_fence: fence, ..Shape::fcfs(2, 1) });
        cluster.clone().run(async move {
            cluster.joined().await;
            let mut following = cluster.client.run(again("60000")).await;
            following.until(JobState::Running).await;
            let job = following.job;
            // A random time between two renewals.
            cluster.pause(cluster.random(Duration::from_secs(2))).await;
            let (first, _) = cluster.launches.borrow()[0];
            cluster.network.freeze(first);
            following.until(JobState::Pending).await;
            assert_eq!(cluster.host(first).live_processes(), 1, "it runs on");
            let mut cluster = cluster;
            if seed % 2 == 0 {
                cluster.kill_manager();
                cluster.pause(cluster.random(Duration::from_millis(50))).await;
                let client = cluster.start_manager(journal.clone(), journal.entries());
                cluster = Cluster { client, ..cluster.clone() };
            }
            cluster.until_launches(2).await;
            assert_eq!(cluster.host(first).live_processes(), 0, "it would run twice");
            assert_ne!(cluster.launches.borrow()[1].0, first);
            cluster.network.thaw(first);
            cluster.until_node(first, NodeState::Idle).await;
            let end = cluster.client.attach(job).await.end().await;
            assert_eq!(end.state, JobState::Completed, "{end:?}");
            assert_eq!(cluster.client.show(job).await.runs, 2);
            assert!(cluster.hosts_are_idle());
        });
    });
}

#[test]
fn a_node_that_goes_on_before_it_is_missed_tells_what_it_has_ended() {
    for_seeds(20, |seed| {
        let detection = NODE_LEASE * 4;
        let shape = Shape { requeue_fence: NODE_FENCE, detection, ..Shape::fcfs(1, 2) };
        let (cluster, _) = start(seed, shape);
        cluster.clone().run(async move {
            cluster.joined().await;
            let mut following = cluster.client.run(again("20000")).await;
            following.until(JobState::Running).await;
            let stays = cluster.client.submit(job(1, &["p", "compute-ms", "20000"])).await;
            cluster.client.attach(stays).await.until(JobState::Running).await;
            let (node, _) = cluster.launches.borrow()[0];
            cluster.network.freeze(node);
            cluster.pause(NODE_LEASE + cluster.random(NODE_LEASE)).await;
            assert_eq!(cluster.host(node).live_processes(), 1, "the lease is of one of them");
            assert_eq!(cluster.client.show(following.job).await.view.state, JobState::Running);
            cluster.network.thaw(node);
            following.until(JobState::Pending).await;
            following.until(JobState::Running).await;
            let end = following.end().await;
            assert_eq!(end.state, JobState::Completed, "{end:?}");
            assert_eq!(cluster.client.show(following.job).await.runs, 2);
            let end = cluster.client.attach(stays).await.end().await;
            assert_eq!(end.state, JobState::Completed, "{end:?}");
            assert_eq!(cluster.client.show(stays).await.runs, 1);
        });
    });
}

#[test]
fn a_node_that_stands_still_for_less_than_the_lease_keeps_its_job() {
    for_seeds(20, |seed| {
        let detection = NODE_LEASE * 4;
        let (cluster, _) = start(seed, Shape { detection, ..Shape::fcfs(1, 1) });
        cluster.clone().run(async move {
            cluster.joined().await;
            let mut following = cluster.client.run(again("60000")).await;
            following.until(JobState::Running).await;
            let (node, _) = cluster.launches.borrow()[0];
            for _ in 0..5 {
                cluster.network.freeze(node);
                // The lease was renewed at most an eighth of its length ago.
                cluster.pause(cluster.random(NODE_LEASE * 7 / 8)).await;
                cluster.network.thaw(node);
                cluster.pause(Duration::from_millis(1)).await;
            }
            let end = following.end().await;
            assert_eq!(end.state, JobState::Completed, "{end:?}");
            assert_eq!(cluster.client.show(following.job).await.runs, 1);
        });
    });
}

#[test]
fn a_job_that_did_not_ask_for_it_goes_on_while_its_node_manager_stands_still() {
    let (cluster, _) = start(1, Shape { requeue_fence: NODE_FENCE, ..Shape::fcfs(1, 1) });
    cluster.clone().run(async move {
        cluster.joined().await;
        let lost = cluster.client.submit(job(1, &["p", "compute-ms", "60000"])).await;
        cluster.client.attach(lost).await.until(JobState::Running).await;
        let (node, _) = cluster.launches.borrow()[0];
        cluster.network.freeze(node);
        cluster.until_node(node, NodeState::Down).await;
        cluster.pause(NODE_LEASE * 2).await;
        assert_eq!(cluster.host(node).live_processes(), 1);
    });
}
