//! Many jobs: order, throughput, more jobs than flags, time limits.

use crate::client::job;
use crate::cluster::{Cluster, Shape};
use crate::seeds::for_seeds;
use std::time::Duration;
use storm_mm::api::{JobState, ManagerRequest, Reply};
use storm_rm::JobSpec;

#[test]
fn first_come_first_served_starts_jobs_in_order() {
    for_seeds(3, |seed| {
        let cluster = Cluster::start(seed, Shape::fcfs(2, 2));
        cluster.clone().run(async move {
            let mut all = Vec::new();
            for procs in [4, 3, 4, 1] {
                all.push(cluster.client.run(job(procs, &["p", "compute-ms", "20"])).await);
            }
            all[0].until(JobState::Running).await;
            let last = all[3].job;
            let explained = cluster.client.ask(ManagerRequest::Explain { job: last }).await;
            let Reply::Explanation { explanation } = explained else { panic!("{explained:?}") };
            assert!(!explanation.reason.is_empty());
            for one in &mut all {
                assert_eq!(one.end().await.state, JobState::Completed);
            }
            let mut starts = Vec::new();
            for one in &all {
                starts.push(cluster.client.show(one.job).await.view.started.expect("it ran"));
            }
            // The fourth job fits next to the second, and must not pass the third.
            assert!(starts.is_sorted(), "{starts:?}");
        });
    });
}

#[test]
fn a_thousand_jobs_queued_at_once_all_end_and_few_flags_are_enough() {
    for_seeds(2, |seed| {
        let shape = Shape { job_slots: 5, ..Shape::fcfs(4, 4) };
        let cluster = Cluster::start(seed, shape);
        cluster.clone().run(async move {
            for _ in 0..1_000 {
                cluster.client.submit(job(1, &["p"])).await;
            }
            while !cluster.client.queue().await.is_empty() {
                cluster.pause(Duration::from_millis(50)).await;
            }
            let ended = cluster.client.history().await;
            assert_eq!(ended.len(), 1_000);
            assert!(ended.iter().all(|job| job.state == JobState::Completed));
        });
    });
}

#[test]
fn gang_jobs_beyond_the_flags_wait_and_say_why() {
    for_seeds(3, |seed| {
        let shape = Shape { job_slots: 1, ..Shape::gang(1, 2) };
        let cluster = Cluster::start(seed, shape);
        cluster.clone().run(async move {
            let spec = job(2, &["p", "compute-ms", "50"]);
            let mut first = cluster.client.run(spec.clone()).await;
            let mut second = cluster.client.run(spec.clone()).await;
            let third = cluster.client.submit(spec).await;
            first.until(JobState::Running).await;
            let reason = cluster.client.show(third).await.view.reason.expect("a reason");
            assert!(reason.contains("one of 1 jobs"), "{reason}");
            cluster.client.cancel(third).await;
            assert_eq!(first.end().await.state, JobState::Completed);
            assert_eq!(second.end().await.state, JobState::Completed);
        });
    });
}

#[test]
fn a_time_limit_counts_only_the_time_that_a_job_runs() {
    for_seeds(3, |seed| {
        let cluster = Cluster::start(seed, Shape::gang(1, 2));
        cluster.clone().run(async move {
            let limited = |limit_ms| JobSpec {
                time_limit: Some(Duration::from_millis(limit_ms)),
                ..job(2, &["p", "compute-ms", "150"])
            };
            let mut rival = cluster.client.run(job(2, &["p", "compute-ms", "2000"])).await;
            rival.until(JobState::Running).await;
            // Computing for 150 ms takes 300 ms of turns.
            let enough = cluster.client.run(limited(200)).await.end().await;
            assert_eq!(enough.state, JobState::Completed);
            let end = cluster.client.run(limited(100)).await.end().await;
            assert_eq!((end.state, end.exit_code), (JobState::Timeout, 143));
            assert_eq!(rival.end().await.state, JobState::Completed);
        });
    });
}

#[test]
fn ended_jobs_beyond_the_history_are_forgotten() {
    for_seeds(1, |seed| {
        let cluster = Cluster::start(seed, Shape { history_limit: 3, ..Shape::fcfs(1, 1) });
        cluster.clone().run(async move {
            for _ in 0..5 {
                cluster.client.run(job(1, &["p"])).await.end().await;
            }
            let left: Vec<u64> = cluster.client.history().await.iter().map(|j| j.id.0).collect();
            assert_eq!(left, [5, 4, 3]);
        });
    });
}
