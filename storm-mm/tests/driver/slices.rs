//! Slices of communication, led by the manager while there are jobs that may communicate in them.

use crate::client::job;
use crate::cluster::{Cluster, Shape};
use crate::seeds::for_seeds;
use std::time::Duration;
use storm_mm::api::{JobState, ManagerRequest, Reply};
use storm_primitives::{NodeId, Primitives, Runtime};

fn coscheduled() -> Shape {
    Shape { sched: "bcs", ..Shape::gang(3, 2) }
}

/// The last slice that ended with nothing on the way.
async fn checkpoint(cluster: &Cluster) -> u64 {
    match cluster.client.ask(ManagerRequest::Partitions).await {
        Reply::Partitions { partitions } => {
            assert_eq!(partitions[0].slice_us, Some(500));
            partitions[0].checkpoint.unwrap_or_default()
        }
        reply => panic!("{reply:?}"),
    }
}

#[test]
fn there_are_slices_for_a_job_few_while_nobody_communicates_and_none_without() {
    for_seeds(4, |seed| {
        let cluster = Cluster::start(seed, coscheduled());
        cluster.clone().run(async move {
            let mut before = 0;
            for procs in [2, 6] {
                let spec = job(procs, &["p", "compute-ms", "60"]);
                let end = cluster.client.run(spec).await.end().await;
                assert_eq!(end.state, JobState::Completed, "{end:?}");
                let after = checkpoint(&cluster).await;
                // Slices all the time would be 120.
                assert!((before + 1..before + 12).contains(&after), "{before}, {after}");
                // One more slice may be under way.
                cluster.pause(Duration::from_millis(20)).await;
                before = checkpoint(&cluster).await;
                cluster.pause(Duration::from_millis(300)).await;
                assert_eq!(checkpoint(&cluster).await, before);
            }
        });
    });
}

#[test]
fn while_nobody_communicates_a_slice_comes_now_and_then() {
    for_seeds(4, |seed| {
        let cluster = Cluster::start(seed, coscheduled());
        cluster.clone().run(async move {
            let mut long = cluster.client.run(job(6, &["p", "compute-ms", "60000"])).await;
            long.until(JobState::Running).await;
            cluster.pause(Duration::from_millis(50)).await;
            let before = checkpoint(&cluster).await;
            cluster.pause(Duration::from_secs(1)).await;
            let slices = checkpoint(&cluster).await - before;
            assert!((8..=12).contains(&slices), "{slices} in a second");
        });
    });
}

#[test]
fn a_node_that_dies_is_left_out_and_the_slices_go_on() {
    for_seeds(4, |seed| {
        let cluster = Cluster::start(seed, coscheduled());
        cluster.clone().run(async move {
            let mut hit = cluster.client.run(job(6, &["p", "compute-ms", "60000"])).await;
            hit.until(JobState::Running).await;
            cluster.network.kill(NodeId(3));
            assert_eq!(hit.end().await.state, JobState::NodeFail);
            let before = checkpoint(&cluster).await;
            let next = cluster.client.run(job(4, &["p", "compute-ms", "60"])).await.end().await;
            assert_eq!(next.state, JobState::Completed, "{next:?}");
            assert!(checkpoint(&cluster).await > before);
        });
    });
}

#[test]
fn a_slice_that_ends_with_bytes_on_the_way_ends_the_jobs_and_not_the_manager() {
    for_seeds(4, |seed| {
        let cluster = Cluster::start(seed, coscheduled());
        cluster.clone().run(async move {
            let mut long = cluster.client.run(job(6, &["p", "compute-ms", "60000"])).await;
            long.until(JobState::Running).await;
            // A defect: node 2 never reports that nothing is on the way.
            let (node, plan) = (cluster.network.node(NodeId(2)), cluster.plan.bcs);
            let runtime = node.runtime().clone();
            let lying = runtime.spawn(async move {
                loop {
                    node.memory().store(plan.empty(), 0);
                    node.runtime().sleep(Duration::from_nanos(500)).await;
                }
            });
            let stopped = "buffered coscheduling has stopped: slice";
            let end = long.end().await;
            assert_eq!(end.state, JobState::Failed, "{end:?}");
            assert!(end.reason.is_some_and(|reason| reason.starts_with(stopped)));
            // After the defect nothing can be relied on, even for a new job.
            let end = cluster.client.run(job(2, &["p", "compute-ms", "60000"])).await.end().await;
            assert_eq!(end.state, JobState::Failed, "{end:?}");
            assert!(end.reason.is_some_and(|reason| reason.starts_with(stopped)));
            drop(lying);
        });
    });
}
