//! From submission to the end: files, their absence, the breakdown, gang rows.

use crate::client::{job, shipped};
use crate::cluster::{Cluster, Shape};
use crate::seeds::for_seeds;
use std::time::Duration;
use storm_mm::api::JobState;
use storm_nm::JobKey;
use storm_primitives::NodeId;
use storm_rm::{JobIncarnation, JobSpec, Rank, StepRef};

#[test]
fn a_job_with_files_runs_on_all_its_nodes_and_a_relaunch_ships_nothing() {
    for_seeds(8, |seed| {
        let cluster = Cluster::start(seed, Shape::fcfs(4, 2));
        let program = cluster.contents.add("program", 30_000, 1);
        let data = cluster.contents.add("data", 1, 2);
        cluster.clone().run(async move {
            let mut spec = shipped(job(8, &["p", "compute-ms", "5", "print", "rank"]), program);
            spec.step.files = vec![data];
            let mut first = cluster.client.run(spec.clone()).await;
            let end = first.end().await;
            assert_eq!((end.state, end.exit_code), (JobState::Completed, 0), "{end:?}");
            assert_eq!(first.states, [JobState::Running]);
            for rank in 0..8 {
                assert_eq!(first.stdout(rank), format!("rank {rank}\n").into_bytes());
            }
            let breakdown = end.breakdown.expect("it was launched");
            assert_eq!((breakdown.sent_bytes, breakdown.skipped_bytes), (30_001, 0));
            assert!(breakdown.send_ms > 0.0 && breakdown.exec_ms > 0.0);
            assert!(breakdown.total_ms >= breakdown.send_ms + breakdown.exec_ms);

            let again = cluster.client.run(spec).await.end().await;
            let breakdown = again.breakdown.expect("it was launched");
            assert_eq!((breakdown.sent_bytes, breakdown.skipped_bytes), (0, 30_001));
            let detail = cluster.client.show(first.job).await;
            assert_eq!(detail.ranks.len(), 8);
            assert!(detail.ranks.iter().all(|rank| rank.exit.is_some()));
            assert_eq!(detail.runs, 1);
        });
    });
}

#[test]
fn two_gang_jobs_share_all_elements_in_turn_and_both_progress() {
    for_seeds(5, |seed| {
        let cluster = Cluster::start(seed, Shape::gang(2, 2));
        cluster.clone().run(async move {
            let spec = job(4, &["p", "compute-ms", "200"]);
            let mut first = cluster.client.run(spec.clone()).await;
            first.until(JobState::Running).await;
            let mut second = cluster.client.run(spec).await;
            second.until(JobState::Running).await;
            cluster.pause(Duration::from_millis(100)).await;
            let used = |incarnation, job| {
                let key = JobKey {
                    step: StepRef::program(job),
                    incarnation: JobIncarnation(incarnation),
                };
                cluster.hosts.borrow()[&NodeId(2)].cpu_time(key, Rank(3))
            };
            let (one, two) = (used(1, first.job), used(2, second.job));
            let least = Duration::from_millis(35);
            assert!(one > least && two > least, "one has {one:?}, the other {two:?}");
            assert!(one + two < Duration::from_millis(130), "they overlap: {one:?}, {two:?}");
            let rows: Vec<_> = cluster.client.queue().await.into_iter().map(|j| j.row).collect();
            assert_ne!(rows[0], rows[1]);
            assert_eq!(first.end().await.state, JobState::Completed);
            assert_eq!(second.end().await.state, JobState::Completed);
        });
    });
}

#[test]
fn a_job_in_a_new_first_row_starts_although_another_row_was_active_last() {
    for_seeds(3, |seed| {
        let cluster = Cluster::start(seed, Shape::gang(1, 2));
        cluster.clone().run(async move {
            let mut first = cluster.client.run(job(2, &["p", "compute-ms", "30"])).await;
            let mut second = cluster.client.run(job(2, &["p", "compute-ms", "200"])).await;
            assert_eq!(first.end().await.state, JobState::Completed);
            assert_eq!(second.end().await.state, JobState::Completed);
            let third = cluster.client.run(job(2, &["p", "compute-ms", "10"])).await.end().await;
            assert_eq!(third.state, JobState::Completed);
        });
    });
}

#[test]
fn a_file_that_the_manager_does_not_have_fails_the_job_with_its_name() {
    for_seeds(2, |seed| {
        let cluster = Cluster::start(seed, Shape::fcfs(2, 1));
        let mut missing = cluster.contents.add("solver", 10, 1);
        missing.hash = storm_rm::ContentHash([7; 32]);
        cluster.clone().run(async move {
            let end = cluster.client.run(shipped(job(2, &["p"]), missing)).await.end().await;
            assert_eq!((end.state, end.exit_code), (JobState::Failed, 1));
            assert!(end.reason.expect("a reason").contains("solver"));
            let next = cluster.client.run(job(2, &["p"])).await.end().await;
            assert_eq!(next.state, JobState::Completed);
        });
    });
}

#[test]
fn a_full_disk_fails_the_job_with_the_nodes_own_words() {
    for_seeds(3, |seed| {
        let cluster = Cluster::start(seed, Shape::fcfs(3, 1));
        let program = cluster.contents.add("solver", 20_000, 1);
        cluster.clone().run(async move {
            cluster.hosts.borrow()[&NodeId(2)].fill_disk(true);
            let spec = shipped(job(3, &["p"]), program);
            let end = cluster.client.run(spec.clone()).await.end().await;
            assert_eq!(end.state, JobState::Failed);
            let reason = end.reason.expect("a reason");
            assert!(reason.contains("solver could not be written"), "{reason}");
            cluster.hosts.borrow()[&NodeId(2)].fill_disk(false);
            assert_eq!(cluster.client.run(spec).await.end().await.state, JobState::Completed);
        });
    });
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let trace = |seed| {
        let cluster = Cluster::start(seed, Shape::gang(3, 2));
        let program = cluster.contents.add("program", 10_000, 1);
        let world = cluster.simulation.clone();
        cluster.clone().run(async move {
            let spec = shipped(job(6, &["p", "compute-ms", "40"]), program);
            let mut all = Vec::new();
            for _ in 0..3 {
                all.push(cluster.client.run(spec.clone()).await);
            }
            cluster.pause(cluster.random(Duration::from_millis(50))).await;
            cluster.network.kill(NodeId(3));
            for one in &mut all {
                one.end().await;
            }
        });
        world.trace().to_text()
    };
    let first = trace(11);
    assert!(first.lines().count() > 20, "{first}");
    assert_eq!(first, trace(11));
    assert_ne!(first, trace(12));
}

#[test]
fn the_manager_keeps_what_a_job_needs_and_no_longer() {
    for_seeds(2, |seed| {
        let cluster = Cluster::start(seed, Shape::fcfs(2, 1));
        let [early, late] = [1, 2].map(|content| cluster.contents.add("program", 9_000, content));
        let minute = Duration::from_secs(60);
        cluster.clone().run(async move {
            let busy = shipped(job(2, &["p", "compute-ms", "65000"]), early.clone());
            let mut first = cluster.client.run(busy).await;
            let mut second = cluster.client.run(shipped(job(2, &["p"]), late.clone())).await;
            cluster.pause(minute).await;
            assert!(cluster.contents.has(&late), "its job waits");
            assert_eq!(first.end().await.state, JobState::Completed);
            assert_eq!(second.end().await.state, JobState::Completed);
            cluster.pause(minute).await;
            assert!(!cluster.contents.has(&early) && !cluster.contents.has(&late));
        });
    });
}

#[test]
fn a_launch_that_hangs_on_a_node_fails_naming_it_and_the_elements_are_free() {
    for_seeds(6, |seed| {
        let shape = if seed % 2 == 0 { Shape::fcfs(3, 2) } else { Shape::gang(3, 2) };
        let cluster = Cluster::start(seed, shape);
        cluster.clone().run(async move {
            cluster.joined().await;
            cluster.host(NodeId(2)).stall_starts(true);
            let limited = JobSpec {
                time_limit: Some(Duration::from_secs(100)),
                ..job(6, &["p", "compute-ms", "100000000"])
            };
            let end = cluster.client.run(limited).await.end().await;
            assert_eq!((end.state, end.exit_code), (JobState::Failed, 126));
            let reason = end.reason.expect("a reason");
            assert_eq!(reason, "its ranks did not start on n2 within 1s");
            cluster.host(NodeId(2)).stall_starts(false);
            let next = cluster.client.run(job(6, &["p"])).await.end().await;
            assert_eq!(next.state, JobState::Completed, "{next:?}");
        });
    });
}

#[test]
fn a_job_that_waits_for_its_turn_is_not_taken_for_a_launch_that_hangs() {
    let shape = Shape { quantum: Duration::from_secs(10), ..Shape::gang(1, 1) };
    let cluster = Cluster::start(1, shape);
    cluster.clone().run(async move {
        cluster.joined().await;
        let first = cluster.client.submit(job(1, &["p", "compute-ms", "40000"])).await;
        let spec = job(1, &["p", "compute-ms", "15000"]);
        let end = cluster.client.run(spec).await.end().await;
        assert_eq!(end.state, JobState::Completed, "{end:?}");
        let end = cluster.client.attach(first).await.end().await;
        assert_eq!(end.state, JobState::Completed, "{end:?}");
    });
}

#[test]
fn a_disk_that_hangs_fails_the_job_and_one_that_is_slow_does_not() {
    for (per_byte, ends) in [
        (Duration::from_millis(1), JobState::Completed),
        (Duration::from_millis(100), JobState::Failed),
    ] {
        let cluster = Cluster::start(1, Shape::fcfs(2, 1));
        let program = cluster.contents.add("program", 40_000, 1);
        cluster.clone().run(async move {
            cluster.joined().await;
            cluster.host(NodeId(2)).slow_disk(per_byte);
            let spec = shipped(job(2, &["p", "compute-ms", "1"]), program);
            let end = cluster.client.run(spec).await.end().await;
            assert_eq!(end.state, ends, "{end:?}");
            let reason = end.reason.unwrap_or_default();
            assert_eq!(
                reason.contains("no progress for 60 s"),
                ends == JobState::Failed,
                "{reason}"
            );
            let next = cluster.client.run(job(2, &["p"])).await.end().await;
            assert_eq!(next.state, JobState::Completed, "{next:?}");
        });
    }
}
