//! Jobs that wait while managers begin with edited configurations: none is lost, and no running job
//! is touched.

use crate::client::job;
use crate::cluster::Shape;
use crate::edits::{edit, running, start};
use crate::seeds::for_seeds;
use std::time::Duration;
use storm_mm::CoreConfig;
use storm_mm::api::JobState;

/// Longer than the jobs of this test run.
const RUN: Duration = Duration::from_secs(6);

/// An edit, and the reason of jobs that wait after it.
type Edit = (fn(&mut CoreConfig), &'static str);

fn renamed(config: &mut CoreConfig) {
    config.partitions[0].name = "others".to_owned();
}

fn smaller(config: &mut CoreConfig) {
    config.nodes.iter_mut().for_each(|node| node.pes = 1);
}

#[test]
fn jobs_that_wait_are_there_after_any_edits_and_say_what_they_lack() {
    for_seeds(20, |seed| {
        let (cluster, journal) = start(seed, Shape::fcfs(2, 2));
        cluster.clone().run(async move {
            cluster.joined().await;
            let long = running(&cluster, job(2, &["p", "compute-ms", "5000"])).await;
            let mut waiting = Vec::new();
            for _ in 0..3 {
                waiting.push(cluster.client.submit(job(4, &["p"])).await);
            }
            let edits: [Edit; 2] = [(renamed, "PartitionConfig"), (smaller, "BadConstraints")];
            let first = cluster.random(Duration::from_nanos(2)).as_nanos() as usize % 2;
            for (change, told) in [edits[first], edits[1 - first]] {
                let client = edit(&cluster, &journal, change).await;
                for job in &waiting {
                    let view = client.show(*job).await.view;
                    let reason = view.reason.unwrap_or_default();
                    assert_eq!(view.state, JobState::Pending, "{reason}");
                    assert!(reason.contains(told), "{reason}");
                }
                let found = client.show(long).await;
                assert_eq!((found.view.state, found.runs), (JobState::Running, 1));
            }
            let client = edit(&cluster, &journal, |_| ()).await;
            cluster.pause(RUN).await;
            for job in [long].into_iter().chain(waiting) {
                let found = client.show(job).await;
                assert_eq!((found.view.state, found.runs), (JobState::Completed, 1));
            }
        });
    });
}
