//! The manager is killed at 1,000 random points of workloads of 200 jobs. No acknowledged job is
//! lost, none runs twice, and running jobs continue.

use crate::cluster::{Cluster, Shape};
use crate::seeds::for_seeds;
use crate::workload::{SlowJournal, all_ended, kill_again_and_again, submit_all};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use storm_mm::api::JobState;
use storm_mm::job::Phase;
use storm_primitives::sim::Simulation;
use storm_primitives::{NodeId, Runtime};
use storm_rm::JobId;

/// Jobs of a workload.
const JOBS: u64 = 200;
/// Workloads.
const SEEDS: u64 = 40;
/// Kills in each: 1,000 in all.
const KILLS: u32 = 25;

/// Longest time between two submissions: the workload lasts longer than the kills.
const PAUSE: Duration = Duration::from_millis(10);

/// One workload on four nodes with a manager that is killed; the end of each job.
fn workload(
    seed: u64,
    shape: Shape,
    kills: u32,
    node_kills: u32,
) -> (Cluster, SlowJournal, Vec<JobId>, u32) {
    let simulation = Simulation::new(seed);
    simulation.trace().silence(true);
    let journal = SlowJournal::new(&simulation);
    let cluster = Cluster::start_with(&simulation, shape, journal.clone(), Vec::new());
    let (this, log) = (cluster.clone(), journal.clone());
    let (acknowledged, killed) = cluster.run(async move {
        this.joined().await;
        let client = Rc::new(RefCell::new(Some(this.client.clone())));
        let going_on = Rc::new(Cell::new(true));
        let between = Duration::from_millis(40);
        let killer = kill_again_and_again(&this, &client, &log, (kills, between), going_on.clone());
        let nodes = async {
            for _ in 0..node_kills {
                this.pause(this.random(Duration::from_millis(100))).await;
                let node = NodeId(1 + this.random_below(this.shape.nodes.into()) as u32);
                this.network.kill(node);
                this.pause(this.random(Duration::from_millis(30))).await;
                this.rejoin(node);
            }
        };
        let submitting = async {
            let acknowledged = submit_all(&this, &client, JOBS, PAUSE).await;
            going_on.set(false);
            acknowledged
        };
        let (acknowledged, killed, ()) = futures_util::join!(submitting, killer, nodes);
        all_ended(&this, &log).await;
        // The last commands may still be on their way to the nodes.
        this.simulation.runtime().sleep(Duration::from_millis(100)).await;
        (acknowledged, killed)
    });
    (cluster, journal, acknowledged, killed)
}

/// How often each rank of each job began.
fn starts(cluster: &Cluster) -> BTreeMap<(JobId, NodeId), u32> {
    let mut starts = BTreeMap::new();
    for (node, job) in cluster.launches.borrow().iter() {
        *starts.entry((job.step.job, *node)).or_default() += 1;
    }
    starts
}

fn shape_of(seed: u64) -> Shape {
    if seed.is_multiple_of(2) { Shape::gang(4, 2) } else { Shape::fcfs(4, 2) }
}

#[test]
fn killed_at_a_thousand_points_it_loses_no_job_and_runs_none_twice() {
    let kills = Cell::new(0);
    for_seeds(SEEDS, |seed| {
        let (cluster, journal, acknowledged, killed) = workload(seed, shape_of(seed), KILLS, 0);
        assert_eq!(killed, KILLS, "the workload was over before");
        kills.set(kills.get() + killed);
        let records = journal.records();
        for job in &acknowledged {
            assert!(records.contains_key(job), "job {job} was acknowledged and is lost");
        }
        for (job, record) in &records {
            let Phase::Ended(outcome) = &record.phase else { panic!("job {job} did not end") };
            assert_eq!(outcome.state, JobState::Completed, "job {job}: {:?}", record.log);
            assert_eq!(record.runs, 1, "job {job}: {:?}", record.log);
            let nodes = record.ranks.iter().map(|share| (*job, share.node));
            let began = starts(&cluster);
            let twice = nodes.filter(|part| began.get(part) != Some(&1));
            assert_eq!(twice.collect::<Vec<_>>(), [], "parts of job {job} that ran not once");
        }
        assert!(cluster.hosts_are_idle(), "processes are left");
    });
    println!("{} kills", kills.get());
}

#[test]
fn with_nodes_that_die_as_well_a_job_runs_twice_only_if_it_asked_to() {
    for_seeds(12, |seed| {
        let (cluster, journal, acknowledged, _) = workload(seed, shape_of(seed), KILLS, 8);
        let records = journal.records();
        for job in &acknowledged {
            assert!(records.contains_key(job), "job {job} was acknowledged and is lost");
        }
        let began = starts(&cluster);
        for (job, record) in &records {
            let Phase::Ended(outcome) = &record.phase else { panic!("job {job} did not end") };
            let good = matches!(outcome.state, JobState::Completed | JobState::NodeFail);
            assert!(good, "job {job}: {:?}", record.log);
            if !record.spec.requeue {
                let twice = began.iter().filter(|((of, _), times)| of == job && **times > 1);
                assert_eq!(twice.count(), 0, "job {job} ran twice: {:?}", record.log);
            }
        }
    });
}
