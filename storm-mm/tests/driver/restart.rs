//! A manager that is killed: the next one, on the same journal, knows every job
//! that was acknowledged.

use crate::client::job;
use crate::cluster::{Cluster, Shape};
use crate::seeds::for_seeds;
use std::collections::BTreeMap;
use std::time::Duration;
use storm_mm::api::JobState;
use storm_mm::journal::MemoryJournal;
use storm_primitives::NodeId;
use storm_primitives::sim::Simulation;
use storm_rm::JobSpec;

#[test]
fn a_new_manager_knows_every_acknowledged_job_and_runs_what_waited() {
    for_seeds(20, |seed| {
        let simulation = Simulation::new(seed);
        let journal = MemoryJournal::default();
        let shape = Shape::fcfs(2, 2);
        let before = Cluster::start_on(&simulation, shape.clone(), &journal);
        let first = before.clone();
        let acknowledged = before.run(async move {
            let mut jobs = Vec::new();
            for index in 0..10_u64 {
                let spec = job(2, &["p", "compute-ms", "10"]);
                let spec = JobSpec { requeue: index % 2 == 0, ..spec };
                jobs.push((first.client.submit(spec.clone()).await, spec.requeue));
            }
            first.pause(first.random(Duration::from_millis(40))).await;
            let mut done = BTreeMap::new();
            for view in first.client.history().await {
                done.insert(view.id, view.state);
            }
            first.network.kill(NodeId::MM);
            first.pause(Duration::from_millis(20)).await;
            (jobs, done)
        });
        let after = Cluster::start_on(&simulation, shape, &journal);
        after.clone().run(async move {
            let (jobs, done) = acknowledged;
            for (job, requeue) in jobs {
                let end = after.client.attach(job).await.end().await;
                if let Some(state) = done.get(&job) {
                    assert_eq!(end.state, *state);
                }
                match end.state {
                    JobState::Completed => {}
                    JobState::Failed if !requeue => {
                        let reason = end.reason.expect("a reason");
                        assert!(reason.contains("restarted while it ran"), "{reason}");
                    }
                    other => panic!("job {job} is {other}: {:?}", end.reason),
                }
            }
            let next = after.client.submit(job(1, &["p"])).await;
            assert_eq!(next.0, 11);
        });
    });
}
