//! Nodes that die and return at once while the journal is slow: no incarnation receives messages
//! for an earlier incarnation.

use crate::client::{input, job, reading, shipped};
use crate::cluster::{Cluster, Shape};
use crate::durability::Disk;
use crate::seeds::for_seeds;
use crate::workload::SlowJournal;
use std::collections::BTreeSet;
use std::time::Duration;
use storm_mm::api::{JobState, Reply};
use storm_primitives::sim::{NodeFault, Simulation};
use storm_primitives::{NodeId, NodeSet};
use storm_rm::{InputSpec, JobSpec};

/// Longer than it takes to notice that a node is silent, and for the node to rejoin.
const BACK: Duration = Duration::from_secs(5);

fn start(seed: u64, shape: Shape) -> (Cluster, Disk) {
    let simulation = Simulation::new(seed);
    let disk = Disk::new(&simulation);
    (Cluster::start_with(&simulation, shape, disk.clone(), Vec::new()), disk)
}

/// The node dies, or is cut off and keeps its memory, and returns before anything notices.
async fn dies_and_returns(cluster: &Cluster, node: NodeId, dies: bool) {
    if dies {
        cluster.network.kill(node);
        cluster.rejoin(node);
        cluster.pause(cluster.random(Duration::from_millis(50))).await;
    } else {
        cluster.network.inflict(node, NodeFault::Cut);
        cluster.pause(BACK).await;
    }
}

/// A launch that waited for the journal reached the node's next incarnation, and the job was never
/// ended.
#[test]
fn a_launch_that_waits_for_the_journal_is_not_for_the_next_life_of_a_node() {
    for_seeds(24, |seed| {
        let shape = if seed % 2 == 0 { Shape::fcfs(2, 1) } else { Shape::gang(2, 1) };
        let (cluster, disk) = start(seed, shape);
        let program = cluster.contents.add("program", 40_000, 1);
        cluster.clone().run(async move {
            cluster.joined().await;
            let spec = shipped(job(2, &["p", "compute-ms", "100000000"]), program);
            let mut endless = cluster.client.run(spec).await;
            // Once its file is there, its launch waits with the journal entries of another job's
            // submission.
            disk.stuck.set(true);
            let other = cluster.client.submit(job(1, &["p"]));
            let meanwhile = async {
                cluster.pause(cluster.random(Duration::from_millis(20))).await;
                dies_and_returns(&cluster, NodeId(2), seed % 4 < 2).await;
                disk.stuck.set(false);
            };
            let (_, ()) = futures_util::future::join(other, meanwhile).await;
            assert_eq!(endless.end().await.state, JobState::NodeFail);
            cluster.pause(BACK).await;
            assert!(cluster.hosts_are_idle(), "{:?}", cluster.launches.borrow());
            let trace = cluster.simulation.trace().to_text();
            // The next incarnation of the node does not have the program any more.
            assert!(!trace.contains("refuse 1.1"), "the launch reached the next life");
        });
    });
}

#[test]
fn no_job_outlives_its_end_when_nodes_die_and_return_while_the_journal_is_slow() {
    const JOBS: usize = 30;
    for_seeds(40, |seed| {
        let simulation = Simulation::new(seed);
        let journal = SlowJournal::with_commits(&simulation, Duration::from_millis(4));
        let shape = if seed % 2 == 0 { Shape::fcfs(3, 2) } else { Shape::gang(3, 2) };
        let cluster = Cluster::start_with(&simulation, shape, journal.clone(), Vec::new());
        cluster.clone().run(async move {
            cluster.joined().await;
            let mut all = Vec::new();
            for number in 0..JOBS {
                let procs = 1 + cluster.random_below(6) as u32;
                // Some jobs would never end by themselves.
                let ms = if number % 5 == 4 { "100000000" } else { "3" };
                let requeue = number % 2 == 0 && ms == "3";
                let spec = JobSpec { requeue, ..job(procs, &["p", "compute-ms", ms]) };
                all.push(cluster.client.submit(spec).await);
                cluster.pause(cluster.random(Duration::from_millis(6))).await;
                if number % 3 == 2 {
                    let node = NodeId(1 + cluster.random_below(3) as u32);
                    cluster.network.kill(node);
                    cluster.rejoin(node);
                }
                if number % 5 == 4 {
                    cluster.pause(cluster.random(Duration::from_millis(20))).await;
                    let last = all[all.len() - 1];
                    if cluster.client.show(last).await.view.state != JobState::NodeFail {
                        cluster.client.cancel(last).await;
                    }
                }
            }
            while !cluster.client.queue().await.is_empty() {
                cluster.pause(Duration::from_millis(5)).await;
            }
            cluster.pause(BACK).await;
            assert!(cluster.hosts_are_idle(), "{:?}", cluster.launches.borrow());
            let launches = cluster.launches.borrow();
            let once: BTreeSet<_> = launches.iter().collect();
            assert_eq!(once.len(), launches.len(), "a part of a job was started twice");
        });
    });
}

/// Input to the ranks overtook the answer to the join of their node, which waits for the journal.
#[test]
fn input_for_a_job_that_goes_on_comes_after_the_answer_to_the_joins_of_its_nodes() {
    for_seeds(10, |seed| {
        let (cluster, disk) = start(seed, Shape::fcfs(2, 1));
        cluster.clone().run(async move {
            cluster.joined().await;
            let spec = reading(InputSpec::All, job(2, &["p", "echo"]));
            let mut following = cluster.client.run(spec).await;
            following.until(JobState::Running).await;
            cluster.kill_manager();
            cluster.pause(cluster.random(Duration::from_millis(30))).await;
            let client = cluster.start_manager(disk.clone(), disk.memory.entries());
            let mut again = client.attach(following.job).await;
            disk.stuck.set(true);
            let submitted = client.submit(job(1, &["p"]));
            let meanwhile = async {
                let sent = client.send(input(following.job, b"all of it", true)).await;
                cluster.pause(Duration::from_millis(300)).await;
                disk.stuck.set(false);
                assert_eq!(sent.next().await.expect("an answer").reply, Reply::Ok);
            };
            futures_util::future::join(submitted, meanwhile).await;
            let end = again.end().await;
            assert_eq!(end.state, JobState::Completed, "{end:?}");
            assert_eq!(
                (again.stdout(0), again.stdout(1)),
                (b"all of it".into(), b"all of it".into())
            );
        });
    });
}

/// A node that rejoined was not notified that the client of a job was behind.
#[test]
fn a_node_that_comes_back_later_holds_the_output_that_the_others_hold() {
    for_seeds(4, |seed| {
        let (cluster, disk) = start(seed, Shape::fcfs(2, 1));
        cluster.clone().run(async move {
            cluster.joined().await;
            let spec = job(2, &["p", "compute-ms", "400", "write-bytes", "33554432"]);
            let mut following = cluster.client.run(spec).await;
            following.until(JobState::Running).await;
            *cluster.shut_out.borrow_mut() = NodeSet::single(NodeId(2));
            cluster.kill_manager();
            let client = cluster.start_manager(disk.clone(), disk.memory.entries());
            let mut again = client.attach(following.job).await;
            cluster.pause(Duration::from_millis(900)).await;
            *cluster.shut_out.borrow_mut() = NodeSet::new();
            cluster.pause(BACK).await;
            for node in [1, 2].map(NodeId) {
                assert_eq!(cluster.host(node).live_processes(), 1, "{node} does not hold it");
            }
            assert_eq!(again.end().await.state, JobState::Completed);
        });
    });
}
