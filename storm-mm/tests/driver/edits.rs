//! A manager that begins with an edited configuration. Nodes and partitions are added, removed,
//! moved and resized; jobs on nodes that stay are not touched.

use crate::client::{Client, job};
use crate::cluster::{Cluster, Shape, core_config};
use crate::seeds::for_seeds;
use crate::workload::SlowJournal;
use std::time::Duration;
use storm_mm::api::{JobState, NodeState};
use storm_mm::{CoreConfig, NodeConfig, PartitionConfig};
use storm_primitives::NodeId;
use storm_primitives::sim::Simulation;
use storm_rm::{JobId, JobSpec};

/// Longer than the nodes need to rejoin.
const BACK: Duration = Duration::from_millis(300);
/// How long the managers of these tests wait for nodes.
const RECOVERY: Duration = Duration::from_secs(2);

pub(crate) fn start(seed: u64, shape: Shape) -> (Cluster, SlowJournal) {
    let simulation = Simulation::new(seed);
    let journal = SlowJournal::new(&simulation);
    let cluster = Cluster::start_with(&simulation, shape, journal.clone(), Vec::new());
    (cluster, journal)
}

/// Kills the manager, and starts another with an edited configuration. Returns the new client.
pub(crate) async fn edit(
    cluster: &Cluster,
    journal: &SlowJournal,
    change: impl FnOnce(&mut CoreConfig),
) -> Client {
    cluster.kill_manager();
    cluster.pause(cluster.random(Duration::from_millis(50))).await;
    let mut config = core_config(&cluster.shape);
    config.recovery_timeout = RECOVERY;
    change(&mut config);
    let client = cluster.start_manager_as(journal.clone(), journal.entries(), config);
    cluster.pause(BACK).await;
    client
}

/// Makes a partition of each of these names, with these nodes, instead of the partition with all
/// nodes.
fn divide(config: &mut CoreConfig, nodes: &[(&str, u32)], partitions: &[(&str, &[&str])]) {
    let former = config.partitions[0].clone();
    config.nodes = nodes.iter().map(|(name, pes)| NodeConfig::new(*name, *pes)).collect();
    let index = |name: &&str| nodes.iter().position(|(other, _)| other == name).expect("it is one");
    let made = |(name, members): &(&str, &[&str])| PartitionConfig {
        name: (*name).to_owned(),
        nodes: members.iter().map(index).collect(),
        default: false,
        ..former.clone()
    };
    config.partitions = partitions.iter().map(made).collect();
}

pub(crate) async fn running(cluster: &Cluster, spec: JobSpec) -> JobId {
    let mut following = cluster.client.run(spec).await;
    following.until(JobState::Running).await;
    following.job
}

/// Asserts that the job is as it was, and ends normally.
async fn assert_untouched(client: &Client, job: JobId, nodes: &str) {
    let found = client.show(job).await;
    assert_eq!(found.view.state, JobState::Running, "{:?}", found.log);
    assert_eq!((found.view.node_list.as_str(), found.runs), (nodes, 1));
    let end = client.attach(job).await.end().await;
    assert_eq!((end.state, end.exit_code), (JobState::Completed, 0), "{end:?}");
    assert_eq!(client.show(job).await.runs, 1);
}

/// A node's id was its position: the manager searched for jobs on the wrong nodes, and the jobs
/// were lost.
#[test]
fn nodes_that_are_inserted_or_change_places_keep_their_jobs() {
    for_seeds(20, |seed| {
        let shape = if seed % 2 == 0 { Shape::gang(3, 2) } else { Shape::fcfs(3, 2) };
        let (cluster, journal) = start(seed, shape);
        cluster.clone().run(async move {
            cluster.joined().await;
            let wide = running(&cluster, job(4, &["p", "compute-ms", "2000"])).await;
            let single = running(&cluster, job(1, &["p", "compute-ms", "3000"])).await;
            let nodes = [("a1", 2), ("n3", 2), ("n2", 2), ("n1", 2)];
            let client = edit(&cluster, &journal, |config| {
                divide(config, &nodes, &[("main", &["n1", "a1", "n2", "n3"])]);
            })
            .await;
            let listed: Vec<(String, NodeId, NodeState, u32)> = client
                .nodes()
                .await
                .into_iter()
                .map(|node| (node.name, node.id, node.state, node.pes_used))
                .collect();
            let up = [
                ("a1".to_owned(), NodeId(4), NodeState::Unknown, 0),
                ("n3".to_owned(), NodeId(3), NodeState::Mixed, 1),
                ("n2".to_owned(), NodeId(2), NodeState::Allocated, 2),
                ("n1".to_owned(), NodeId(1), NodeState::Allocated, 2),
            ];
            assert_eq!(listed, up);
            let more = client.submit(job(1, &["p", "compute-ms", "1"])).await;
            assert_eq!(client.attach(more).await.end().await.state, JobState::Completed);
            assert_untouched(&client, wide, "n[1-2]").await;
            assert_untouched(&client, single, "n3").await;
        });
    });
}

#[test]
fn a_job_goes_on_when_its_partition_is_renamed_or_divided() {
    for_seeds(20, |seed| {
        let shape = if seed % 2 == 0 { Shape::gang(2, 2) } else { Shape::fcfs(2, 2) };
        let (cluster, journal) = start(seed, shape);
        cluster.clone().run(async move {
            cluster.joined().await;
            let wide = running(&cluster, job(3, &["p", "compute-ms", "2000"])).await;
            let nodes = [("n1", 2), ("n2", 2)];
            let renamed = edit(&cluster, &journal, |config| {
                divide(config, &nodes, &[("other", &["n1", "n2"])])
            });
            let client = renamed.await;
            assert_eq!(client.show(wide).await.view.state, JobState::Running);
            drop(client);
            let divided: [(&str, &[&str]); 2] = [("two", &["n2"]), ("one", &["n1"])];
            let client = edit(&cluster, &journal, |config| divide(config, &nodes, &divided)).await;
            let states = client.nodes().await.into_iter().map(|node| (node.state, node.reason));
            for (state, reason) in states {
                assert_eq!(state, NodeState::Draining);
                assert!(reason.expect("one").starts_with("job 1 goes on there"));
            }
            let next = client.submit(job(2, &["p", "compute-ms", "1"])).await;
            assert_untouched(&client, wide, "n[1-2]").await;
            let end = client.attach(next).await.end().await;
            assert_eq!(end.state, JobState::Completed, "its nodes take jobs again: {end:?}");
        });
    });
}

#[test]
fn a_job_goes_on_when_its_nodes_have_fewer_elements() {
    for_seeds(20, |seed| {
        let shape = if seed % 2 == 0 { Shape::gang(2, 4) } else { Shape::fcfs(2, 4) };
        let (cluster, journal) = start(seed, shape);
        cluster.clone().run(async move {
            cluster.joined().await;
            let first = running(&cluster, job(2, &["p", "compute-ms", "2000"])).await;
            let wide = running(&cluster, job(6, &["p", "compute-ms", "2500"])).await;
            let nodes = [("n1", 2), ("n2", 2)];
            let client = edit(&cluster, &journal, |config| {
                divide(config, &nodes, &[("main", &["n1", "n2"])]);
            })
            .await;
            assert_untouched(&client, first, "n1").await;
            assert_untouched(&client, wide, "n[1-2]").await;
            let next = client.submit(job(4, &["p", "compute-ms", "1"])).await;
            assert_eq!(client.attach(next).await.end().await.state, JobState::Completed);
        });
    });
}

#[test]
fn a_node_that_offers_too_little_keeps_its_jobs_and_gets_no_others() {
    for_seeds(10, |seed| {
        let (cluster, journal) = start(seed, Shape::fcfs(2, 2));
        cluster.clone().run(async move {
            cluster.joined().await;
            let wide = running(&cluster, job(3, &["p", "compute-ms", "2000"])).await;
            let nodes = [("n1", 8), ("n2", 8)];
            let client = edit(&cluster, &journal, |config| {
                divide(config, &nodes, &[("main", &["n1", "n2"])]);
            })
            .await;
            let of_first = client.nodes().await.remove(0);
            assert_eq!(of_first.state, NodeState::Draining);
            assert_eq!(of_first.reason.as_deref(), Some("it offers 2 PEs, 8 are configured"));
            assert_untouched(&client, wide, "n[1-2]").await;
            let next = client.submit(job(1, &["p"])).await;
            cluster.pause(BACK).await;
            assert_eq!(client.show(next).await.view.state, JobState::Pending);
        });
    });
}

#[test]
fn a_job_on_a_node_that_is_removed_waits_for_it_and_ends_with_that_reason() {
    for_seeds(20, |seed| {
        let (cluster, journal) = start(seed, Shape::fcfs(3, 2));
        cluster.clone().run(async move {
            cluster.joined().await;
            let wide = running(&cluster, job(4, &["p", "compute-ms", "60000"])).await;
            let other = running(&cluster, job(1, &["p", "compute-ms", "3000"])).await;
            cluster.shut_out.borrow_mut().insert(NodeId(2));
            let without = [("n3", 2), ("n1", 2)];
            let client = edit(&cluster, &journal, |config| {
                divide(config, &without, &[("main", &["n1", "n3"])]);
            })
            .await;
            assert_eq!(client.show(wide).await.view.state, JobState::Running);
            if seed % 2 == 0 {
                cluster.shut_out.borrow_mut().remove(NodeId(2));
                drop(client);
                let client = edit(&cluster, &journal, |_| ()).await;
                cluster.pause(RECOVERY).await;
                let found = client.show(wide).await;
                assert_eq!(
                    (found.view.state, found.runs),
                    (JobState::Running, 1),
                    "{:?}",
                    found.log
                );
                return assert_untouched(&client, other, "n3").await;
            }
            let end = client.attach(wide).await.end().await;
            assert_eq!(end.state, JobState::NodeFail);
            let reason = client.show(wide).await.view.reason;
            assert_eq!(reason.as_deref(), Some("node n2 is not in the configuration any more"));
            assert_untouched(&client, other, "n3").await;
        });
    });
}

#[test]
fn a_job_that_asked_for_it_waits_again_when_its_node_is_removed() {
    for_seeds(10, |seed| {
        let (cluster, journal) = start(seed, Shape::fcfs(2, 2));
        cluster.clone().run(async move {
            cluster.joined().await;
            let spec = JobSpec { requeue: true, ..job(3, &["p", "compute-ms", "60000"]) };
            let wide = running(&cluster, spec).await;
            cluster.shut_out.borrow_mut().insert(NodeId(2));
            let client = edit(&cluster, &journal, |config| {
                divide(config, &[("n1", 4)], &[("main", &["n1"])]);
            })
            .await;
            cluster.pause(RECOVERY).await;
            let found = client.show(wide).await;
            let why = "requeued";
            assert!(found.log.iter().any(|entry| entry.event == why), "{:?}", found.log);
            let told = found.log.iter().find(|entry| entry.event == why).expect("seen");
            assert_eq!(told.text, "node n2 is not in the configuration any more");
        });
    });
}
