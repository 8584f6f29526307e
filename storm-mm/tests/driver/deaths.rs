//! Nodes die at any instant: their jobs end naming them, or run again.

use crate::client::{job, shipped};
use crate::cluster::{Cluster, Shape};
use crate::seeds::for_seeds;
use std::time::Duration;
use storm_mm::api::{JobState, NodeState};
use storm_primitives::NodeId;
use storm_primitives::sim::NodeFault;
use storm_rm::JobSpec;

#[test]
fn a_node_that_dies_at_any_instant_ends_its_job_and_is_named() {
    for_seeds(60, |seed| {
        let shape = if seed % 2 == 0 { Shape::fcfs(4, 2) } else { Shape::gang(4, 2) };
        let cluster = Cluster::start(seed, shape);
        let program = cluster.contents.add("program", 40_000, 1);
        cluster.clone().run(async move {
            cluster.joined().await;
            let spec = shipped(job(8, &["p", "compute-ms", "10"]), program);
            let mut following = cluster.client.run(spec.clone()).await;
            cluster.pause(cluster.random(Duration::from_millis(20))).await;
            cluster.network.kill(NodeId(3));
            let end = following.end().await;
            match end.state {
                JobState::NodeFail => {
                    let reason = end.reason.expect("a reason");
                    assert_eq!(reason, "node n3 died or was cut off");
                }
                // The job had ended when the death became known.
                state => assert_eq!(state, JobState::Completed, "{:?}", end.reason),
            }
            cluster.until_node(NodeId(3), NodeState::Down).await;
            let smaller = JobSpec { procs: 6, ..spec };
            let next = cluster.client.run(smaller).await.end().await;
            assert_eq!(next.state, JobState::Completed, "{next:?}");
        });
    });
}

#[test]
fn a_job_that_wants_it_runs_again_when_its_node_is_back() {
    for_seeds(30, |seed| {
        let shape = if seed % 2 == 0 { Shape::fcfs(3, 1) } else { Shape::gang(3, 1) };
        let cluster = Cluster::start(seed, shape);
        let program = cluster.contents.add("program", 40_000, 1);
        cluster.clone().run(async move {
            cluster.joined().await;
            let spec = shipped(job(3, &["p", "compute-ms", "30", "print", "done"]), program);
            let mut following = cluster.client.run(JobSpec { requeue: true, ..spec }).await;
            cluster.pause(cluster.random(Duration::from_millis(25))).await;
            cluster.network.kill(NodeId(2));
            following.until(JobState::Pending).await;
            cluster.pause(Duration::from_millis(30)).await;
            cluster.rejoin(NodeId(2));
            let end = following.end().await;
            assert_eq!(end.state, JobState::Completed, "{end:?}");
            let detail = cluster.client.show(following.job).await;
            assert_eq!(detail.ranks.len(), 3);
            assert!(detail.log.iter().any(|entry| entry.event == "requeued"));
            assert_eq!(following.stdout(1).last(), Some(&b'\n'));
        });
    });
}

#[test]
fn a_node_that_loses_its_processes_at_any_instant_ends_its_job_and_is_named() {
    for_seeds(40, |seed| {
        let shape = if seed % 2 == 0 { Shape::fcfs(3, 2) } else { Shape::gang(3, 2) };
        let cluster = Cluster::start(seed, shape);
        cluster.clone().run(async move {
            cluster.joined().await;
            // The other jobs never end by themselves.
            let spec = job(6, &["p", "compute-ms", "100000000"]);
            let mut following = cluster.client.run(spec).await;
            cluster.pause(cluster.random(Duration::from_millis(20))).await;
            cluster.host(NodeId(1)).lose_processes();
            let end = following.end().await;
            assert_eq!(end.state, JobState::NodeFail, "{end:?}");
            assert_eq!(end.reason.as_deref(), Some("node n1 died or was cut off"));
            cluster.until_node(NodeId(1), NodeState::Down).await;
            let next = cluster.client.run(job(4, &["p", "compute-ms", "10"])).await.end().await;
            assert_eq!(next.state, JobState::Completed, "{next:?}");
        });
    });
}

#[test]
fn a_job_that_wants_it_runs_again_when_a_node_lost_its_processes() {
    for_seeds(10, |seed| {
        let cluster = Cluster::start(seed, Shape::fcfs(3, 1));
        cluster.clone().run(async move {
            cluster.joined().await;
            let spec = job(2, &["p", "compute-ms", "50"]);
            let mut following = cluster.client.run(JobSpec { requeue: true, ..spec }).await;
            following.until(JobState::Running).await;
            cluster.host(NodeId(1)).lose_processes();
            following.until(JobState::Pending).await;
            let end = following.end().await;
            assert_eq!(end.state, JobState::Completed, "{end:?}");
            let detail = cluster.client.show(following.job).await;
            assert!(detail.log.iter().any(|entry| entry.event == "requeued"));
        });
    });
}

#[test]
fn a_cancelled_job_does_not_run_again_when_its_node_dies() {
    for_seeds(10, |seed| {
        let cluster = Cluster::start(seed, Shape::fcfs(3, 1));
        cluster.clone().run(async move {
            let spec = job(3, &["p", "ignore", "15", "compute-ms", "10000"]);
            let mut following = cluster.client.run(JobSpec { requeue: true, ..spec }).await;
            following.until(JobState::Running).await;
            cluster.client.cancel(following.job).await;
            cluster.pause(cluster.random(Duration::from_millis(120))).await;
            cluster.network.kill(NodeId(2));
            assert_eq!(following.end().await.state, JobState::Cancelled);
        });
    });
}

#[test]
fn a_death_outside_a_job_does_not_touch_it() {
    for_seeds(10, |seed| {
        let cluster = Cluster::start(seed, Shape::fcfs(4, 1));
        cluster.clone().run(async move {
            cluster.joined().await;
            let mut following = cluster.client.run(job(2, &["p", "compute-ms", "20"])).await;
            cluster.pause(cluster.random(Duration::from_millis(20))).await;
            cluster.network.kill(NodeId(4));
            assert_eq!(following.end().await.state, JobState::Completed);
        });
    });
}

#[test]
fn a_node_that_comes_and_goes_keeps_working_heartbeats() {
    for_seeds(3, |seed| {
        let cluster = Cluster::start(seed, Shape::fcfs(2, 1));
        cluster.clone().run(async move {
            for _ in 0..12 {
                cluster.network.kill(NodeId(1));
                cluster.pause(Duration::from_millis(10)).await;
                cluster.rejoin(NodeId(1));
                let end = cluster.client.run(job(2, &["p"])).await.end().await;
                assert_eq!(end.state, JobState::Completed, "{end:?}");
            }
        });
    });
}

/// The writer of heartbeats waited for a node to release entries that only its former incarnation
/// had been sent. The other nodes received nothing any more.
#[test]
fn a_node_that_died_and_is_back_at_once_does_not_hold_up_the_heartbeats() {
    for_seeds(40, |seed| {
        // Strobes fill the queue of a node that takes none before it counts as silent.
        let shape = Shape { quantum: Duration::from_micros(300), ..Shape::gang(3, 1) };
        let cluster = Cluster::start(seed, shape);
        cluster.clone().run(async move {
            cluster.joined().await;
            let spec = JobSpec { requeue: true, ..job(3, &["p", "compute-ms", "20"]) };
            let mut sharing =
                [cluster.client.run(spec.clone()).await, cluster.client.run(spec).await];
            for following in &mut sharing {
                following.until(JobState::Running).await;
            }
            cluster.network.freeze(NodeId(2));
            let frozen = Duration::from_millis(2) + cluster.random(Duration::from_millis(2));
            cluster.pause(frozen).await;
            cluster.network.kill(NodeId(2));
            cluster.rejoin(NodeId(2));
            for following in &mut sharing {
                let end = following.end().await;
                assert_eq!(end.state, JobState::Completed, "{end:?}");
            }
        });
    });
}

/// A node that stood still before its first probe did not take the probe. Until it counted as dead,
/// no node received anything, and a cancelled job of another node ran on.
#[test]
fn a_node_that_stands_still_when_it_is_probed_does_not_hold_up_the_others() {
    const DETECTION: Duration = Duration::from_secs(10);
    for_seeds(40, |seed| {
        let cluster = Cluster::start(seed, Shape { detection: DETECTION, ..Shape::fcfs(2, 2) });
        let program = cluster.contents.add("program", 40_000, 1);
        cluster.clone().run(async move {
            cluster.joined().await;
            cluster.network.kill(NodeId(2));
            cluster.until_node(NodeId(2), NodeState::Down).await;
            let mut first = cluster.client.run(job(2, &["p", "compute-ms", "100000"])).await;
            first.until(JobState::Running).await;
            cluster.rejoin(NodeId(2));
            cluster.until_node(NodeId(2), NodeState::Idle).await;
            let mut second = cluster.client.run(shipped(job(4, &["p"]), program)).await;
            cluster.network.freeze(NodeId(2));
            // The node may or may not be probed in between.
            cluster.pause(cluster.random(DETECTION / 10)).await;
            cluster.client.cancel(first.job).await;
            assert_eq!(first.end().await.state, JobState::Cancelled);
            assert_ne!(cluster.client.nodes().await[1].state, NodeState::Down);
            let waits = cluster.client.show(second.job).await.view.reason.expect("a reason");
            assert!(waits.contains("files are being sent"), "{waits}");
            assert_eq!(second.end().await.state, JobState::NodeFail);
        });
    });
}

/// The manager polled all nodes and waited for a slow node; another node died meanwhile and
/// rejoined. The answer that this node was dead was then applied to its new incarnation. This
/// incarnation does not join again, so the node stayed down for ever.
#[test]
fn a_node_that_is_back_before_its_death_is_told_is_not_lost_again() {
    const SLOW: Duration = Duration::from_secs(1);
    for_seeds(20, |seed| {
        let cluster = Cluster::start(seed, Shape { detection: SLOW * 10, ..Shape::fcfs(2, 1) });
        cluster.clone().run(async move {
            cluster.joined().await;
            cluster.network.inflict(NodeId(2), NodeFault::Delay(SLOW));
            cluster.pause(SLOW + cluster.random(SLOW)).await;
            cluster.network.end_process(NodeId(1));
            cluster.until_node(NodeId(1), NodeState::Down).await;
            cluster.rejoin(NodeId(1));
            cluster.until_node(NodeId(1), NodeState::Idle).await;
            cluster.pause(SLOW * 10).await;
            assert_eq!(cluster.client.nodes().await[0].state, NodeState::Idle);
        });
    });
}
