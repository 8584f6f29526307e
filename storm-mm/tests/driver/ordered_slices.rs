//! Slices that a strobe orders and nodes begin by their own clocks, while the manager sleeps
//! between strobes.

use crate::client::job;
use crate::cluster::{Cluster, Shape};
use crate::seeds::for_seeds;
use std::collections::BTreeSet;
use std::time::Duration;
use storm_mm::api::{JobState, ManagerRequest, Reply};
use storm_primitives::NodeId;

const QUANTUM: Duration = Duration::from_millis(1);

fn ordered_ahead() -> Shape {
    Shape { quantum: QUANTUM, strobe_span: QUANTUM * 20, ..Shape::gang(2, 1) }
}

/// The number of trace lines so far that contain `what`.
fn count(cluster: &Cluster, what: &str) -> usize {
    cluster.simulation.trace().to_text().lines().filter(|line| line.contains(what)).count()
}

#[test]
fn two_jobs_take_turns_and_nodes_begin_the_same_slices() {
    for_seeds(4, |seed| {
        let cluster = Cluster::start(seed, ordered_ahead());
        cluster.clone().run(async move {
            let mut one = cluster.client.run(job(2, &["p", "compute-ms", "100"])).await;
            let mut two = cluster.client.run(job(2, &["p", "compute-ms", "100"])).await;
            one.until(JobState::Running).await;
            two.until(JobState::Running).await;
            let began = cluster.simulation.now();
            assert_eq!(one.end().await.state, JobState::Completed);
            assert_eq!(two.end().await.state, JobState::Completed);
            let took = cluster.simulation.now() - began;
            assert!(took > QUANTUM * 150 && took < QUANTUM * 215, "{took:?} for 2 x 100 ms");
            // One resumption for each slice and node.
            let resumed = count(&cluster, "resume");
            assert!(resumed > 2 * 130, "{resumed} resumptions");
            assert_eq!(cluster.admin().ask(ManagerRequest::Shutdown).await, Reply::Ok);
            while cluster.nm_exits.borrow().len() < 2 {
                cluster.pause(QUANTUM).await;
            }
            let exits = cluster.nm_exits.borrow();
            let strobes = |node: u32| -> BTreeSet<u64> {
                let log = &exits[&NodeId(node)].switches;
                log.records().filter(|record| record.resumed > 0).map(|r| r.strobe.number).collect()
            };
            // The nodes have begun the same slices, except where a job was added or removed.
            assert!(strobes(1).symmetric_difference(&strobes(2)).count() < 10);
        });
    });
}

#[test]
fn a_cancelled_job_gives_its_slices_away_though_they_were_ordered() {
    for_seeds(4, |seed| {
        let cluster = Cluster::start(seed, ordered_ahead());
        cluster.clone().run(async move {
            let mut long = cluster.client.run(job(2, &["p", "compute-ms", "60000"])).await;
            let mut short = cluster.client.run(job(2, &["p", "compute-ms", "100"])).await;
            long.until(JobState::Running).await;
            short.until(JobState::Running).await;
            // In the middle of the slices that a strobe has ordered.
            cluster.pause(QUANTUM * 7 / 2).await;
            let began = cluster.simulation.now();
            cluster.client.cancel(long.job).await;
            assert_eq!(long.end().await.state, JobState::Cancelled);
            assert_eq!(short.end().await.state, JobState::Completed);
            let took = cluster.simulation.now() - began;
            assert!(took < QUANTUM * 110, "{took:?}: it still had half of the slices");
        });
    });
}
