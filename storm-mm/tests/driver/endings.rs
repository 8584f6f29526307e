//! The ends of jobs: cancelled at every phase, killed ranks, shutdown.

use crate::client::{job, shipped};
use crate::cluster::{Cluster, Shape};
use crate::seeds::for_seeds;
use std::time::Duration;
use storm_mm::api::{ErrorCode, JobState, ManagerRequest, Reply};
use storm_nm::ExitReason;
use storm_rm::{ContentHash, FirstStep, JobSpec};

#[test]
fn a_job_is_cancelled_at_any_instant_of_its_life_and_the_next_one_runs() {
    for_seeds(40, |seed| {
        let shape = if seed % 2 == 0 { Shape::fcfs(3, 2) } else { Shape::gang(3, 2) };
        let cluster = Cluster::start(seed, shape);
        let program = cluster.contents.add("program", 40_000, 1);
        cluster.clone().run(async move {
            let rival = cluster.client.submit(job(6, &["p", "compute-ms", "15"])).await;
            let spec = shipped(job(6, &["p", "compute-ms", "10"]), program);
            let mut following = cluster.client.run(spec.clone()).await;
            cluster.pause(cluster.random(Duration::from_millis(60))).await;
            let request = ManagerRequest::Cancel {
                jobs: vec![following.job],
                signal: None,
                states: Vec::new(),
            };
            let reply = cluster.client.ask(request).await;
            let Reply::Cancelled { jobs } = reply else { panic!("{reply:?}") };
            let end = following.end().await;
            match &jobs[0].error {
                None => assert_eq!(end.state, JobState::Cancelled, "{end:?}"),
                Some(error) => {
                    assert_eq!(error.code, ErrorCode::JobEnded);
                    assert_eq!(end.state, JobState::Completed, "{end:?}");
                }
            }
            let next = cluster.client.run(spec).await.end().await;
            assert_eq!(next.state, JobState::Completed);
            assert_eq!(cluster.client.attach(rival).await.end().await.state, JobState::Completed);
        });
    });
}

#[test]
fn a_job_that_ignores_the_request_to_end_is_killed() {
    for_seeds(3, |seed| {
        let cluster = Cluster::start(seed, Shape::fcfs(2, 1));
        cluster.clone().run(async move {
            let spec = job(2, &["p", "ignore", "15", "compute-ms", "60000"]);
            let mut following = cluster.client.run(spec).await;
            following.until(JobState::Running).await;
            cluster.client.cancel(following.job).await;
            let end = following.end().await;
            assert_eq!((end.state, end.exit_code), (JobState::Cancelled, 143));
            let live: usize = cluster.hosts.borrow().values().map(|h| h.live_processes()).sum();
            assert_eq!(live, 0);
        });
    });
}

#[test]
fn a_rank_ended_by_a_signal_ends_the_others_and_is_named() {
    for_seeds(5, |seed| {
        let cluster = Cluster::start(seed, Shape::fcfs(3, 1));
        cluster.clone().run(async move {
            let end = cluster.client.run(job(3, &["p", "die", "11"])).await.end().await;
            assert_eq!((end.state, end.exit_code), (JobState::Failed, 139));
            assert_eq!(end.reason.as_deref(), Some("rank 0 on n1 was ended by signal 11"));
        });
    });
}

#[test]
fn strangers_may_neither_cancel_nor_shut_down() {
    for_seeds(1, |seed| {
        let cluster = Cluster::start(seed, Shape::fcfs(1, 1));
        cluster.clone().run(async move {
            let own = cluster.client.submit(job(1, &["p", "compute-ms", "50"])).await;
            let mut stranger = cluster.client.clone();
            stranger.peer.uid = 4242;
            let request =
                ManagerRequest::Cancel { jobs: vec![own], signal: None, states: Vec::new() };
            let Reply::Cancelled { jobs } = stranger.ask(request).await else { panic!() };
            assert_eq!(jobs[0].error.as_ref().unwrap().code, ErrorCode::NotPermitted);
            for request in [ManagerRequest::Shutdown, ManagerRequest::Attach { job: own }] {
                let Reply::Error { error } = stranger.ask(request).await else { panic!() };
                assert_eq!(error.code, ErrorCode::NotPermitted);
            }
            assert_eq!(cluster.client.attach(own).await.end().await.state, JobState::Completed);
        });
    });
}

#[test]
fn a_script_is_given_back_to_its_owner_and_to_nobody_else() {
    for_seeds(2, |seed| {
        let cluster = Cluster::start(seed, Shape::fcfs(1, 1));
        let file = cluster.contents.add("job.sh", 200_000, 3);
        cluster.clone().run(async move {
            let plain = shipped(job(1, &["p", "compute-ms", "50"]), file.clone());
            let script = JobSpec { first: FirstStep::Script, ..plain.clone() };
            let (own, program) =
                (cluster.client.submit(script).await, cluster.client.submit(plain).await);
            let ask = |job| ManagerRequest::Script { job };
            let Reply::Script { job, name, data } = cluster.client.ask(ask(own)).await else {
                panic!()
            };
            assert_eq!((job, name.as_str()), (own, "job.sh"));
            assert_eq!(ContentHash::of(&data), file.hash);
            let Reply::Error { error } = cluster.client.ask(ask(program)).await else { panic!() };
            assert_eq!(error.code, ErrorCode::BadRequest, "a program is no script");
            let mut stranger = cluster.client.clone();
            stranger.peer.uid = 4242;
            let Reply::Error { error } = stranger.ask(ask(own)).await else { panic!() };
            assert_eq!(error.code, ErrorCode::NotPermitted);
        });
    });
}

#[test]
fn a_cluster_with_jobs_in_every_phase_shuts_down_and_leaves_nothing() {
    for_seeds(30, |seed| {
        let shape = if seed % 2 == 0 { Shape::fcfs(3, 2) } else { Shape::gang(3, 2) };
        let cluster = Cluster::start(seed, shape);
        let program = cluster.contents.add("program", 40_000, 1);
        cluster.clone().run(async move {
            let mut all = Vec::new();
            for index in 0..8_u64 {
                let spec = job(6, &["p", "ignore", "15", "compute-ms", "20"]);
                let spec = if index % 2 == 0 { spec } else { shipped(spec, program.clone()) };
                all.push(cluster.client.run(spec).await);
            }
            cluster.pause(cluster.random(Duration::from_millis(80))).await;
            assert_eq!(cluster.admin().ask(ManagerRequest::Shutdown).await, Reply::Ok);
            for one in &mut all {
                let end = one.end().await;
                assert!(end.state.is_final());
            }
            while cluster.mm_end.borrow().is_none() {
                cluster.pause(Duration::from_millis(10)).await;
            }
            assert!(matches!(*cluster.mm_end.borrow(), Some(Ok(()))));
            let exits = cluster.nm_exits.borrow();
            assert_eq!(exits.len(), 3);
            assert!(exits.values().all(|exit| exit.reason == ExitReason::Shutdown));
            assert!(cluster.hosts.borrow().values().all(|host| host.is_clean()));
        });
    });
}

/// Keys of this size did not fit into an item of the queue, and the job ended.
#[test]
fn keys_that_are_longer_than_an_item_of_a_nodes_queue_go_in_parts() {
    for_seeds(3, |seed| {
        let cluster = Cluster::start(seed, Shape::fcfs(3, 1));
        cluster.clone().run(async move {
            let spec = job(3, &["p", "put-bytes", "10000", "fence"]);
            let end = cluster.client.run(spec).await.end().await;
            assert_eq!((end.state, end.exit_code), (JobState::Completed, 0), "{:?}", end.reason);
        });
    });
}

#[test]
fn a_job_whose_keys_no_heartbeat_can_carry_ends_on_all_nodes_with_that_reason() {
    for_seeds(3, |seed| {
        let cluster = Cluster::start(seed, Shape::fcfs(3, 1));
        cluster.clone().run(async move {
            let spec = job(3, &["p", "put-bytes", "60000", "fence"]);
            let end = cluster.client.run(spec).await.end().await;
            assert_eq!((end.state, end.exit_code), (JobState::Failed, 1));
            let reason = end.reason.expect("a reason");
            assert!(reason.contains("`heartbeat-bytes` in [network]"), "{reason}");
            let next = cluster.client.run(job(3, &["p"])).await.end().await;
            assert_eq!(next.state, JobState::Completed);
        });
    });
}
