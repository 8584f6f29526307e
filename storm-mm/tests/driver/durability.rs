//! Promises are durable: nothing but strobes is sent before its journal entries are durable, and
//! without its journal the manager stops.

use crate::client::job;
use crate::cluster::{Cluster, Shape};
use crate::seeds::for_seeds;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use storm_mm::api::{JobState, ManagerRequest, ReplyStream};
use storm_mm::driver::DriverError;
use storm_mm::journal::{Entry, Journal, JournalError, MemoryJournal};
use storm_primitives::Runtime;
use storm_primitives::sim::{SimRuntime, Simulation};

/// Pause between two checks whether the disk works again.
const LOOK: Duration = Duration::from_millis(1);

/// A journal on a disk that can be slow, or broken.
#[derive(Clone)]
pub(crate) struct Disk {
    runtime: SimRuntime,
    pub(crate) memory: MemoryJournal,
    pub(crate) stuck: Rc<Cell<bool>>,
    broken: Rc<Cell<bool>>,
}

impl Disk {
    pub(crate) fn new(simulation: &Simulation) -> Disk {
        Disk {
            runtime: simulation.runtime(),
            memory: MemoryJournal::default(),
            stuck: Rc::default(),
            broken: Rc::default(),
        }
    }
}

impl Journal for Disk {
    async fn append(&self, entries: Vec<Entry>) -> Result<(), JournalError> {
        while self.stuck.get() {
            self.runtime.sleep(LOOK).await;
        }
        if self.broken.get() {
            return Err(JournalError::WriterGone);
        }
        self.memory.append(entries).await
    }
}

async fn submit(cluster: &Cluster) -> ReplyStream {
    let spec = Box::new(job(2, &["p", "compute-ms", "200"]));
    cluster
        .client
        .send(ManagerRequest::Submit {
            spec,
            attach: false,
            service: Default::default(),
            reservation: None,
        })
        .await
}

#[test]
fn nothing_is_acknowledged_or_launched_before_it_is_durable_and_strobes_go_on() {
    for_seeds(3, |seed| {
        let simulation = Simulation::new(seed);
        let disk = Disk::new(&simulation);
        let cluster = Cluster::start_with(&simulation, Shape::gang(1, 2), disk.clone(), Vec::new());
        cluster.clone().run(async move {
            let mut one = cluster.client.run(job(2, &["p", "compute-ms", "200"])).await;
            let mut two = cluster.client.run(job(2, &["p", "compute-ms", "200"])).await;
            one.until(JobState::Running).await;
            two.until(JobState::Running).await;
            let seen = |what: &str| {
                let trace = cluster.simulation.trace().to_text();
                trace.lines().filter(|line| line.contains(what)).count()
            };
            disk.stuck.set(true);
            let (written, switches) = (disk.memory.entries().len(), seen("resume"));
            let third = submit(&cluster).await;
            let waiting = cluster.simulation.runtime();
            let early = waiting.timeout(Duration::from_millis(60), third.next()).await;
            assert!(early.is_none(), "acknowledged before it was durable: {early:?}");
            assert_eq!((disk.memory.entries().len(), seen("launch ")), (written, 2));
            assert!(seen("resume") > switches + 2, "strobes stood still");
            disk.stuck.set(false);
            assert!(third.next().await.is_some());
            assert_eq!(one.end().await.state, JobState::Completed);
            assert_eq!(two.end().await.state, JobState::Completed);
        });
    });
}

#[test]
fn a_manager_whose_journal_breaks_stops_and_acknowledges_nothing() {
    for_seeds(3, |seed| {
        let simulation = Simulation::new(seed);
        let disk = Disk::new(&simulation);
        let cluster = Cluster::start_with(&simulation, Shape::fcfs(1, 2), disk.clone(), Vec::new());
        cluster.clone().run(async move {
            disk.broken.set(true);
            let replies = submit(&cluster).await;
            while cluster.mm_end.borrow().is_none() {
                cluster.pause(Duration::from_millis(10)).await;
            }
            let end = cluster.mm_end.borrow_mut().take();
            assert!(matches!(end, Some(Err(DriverError::Journal(_)))), "{end:?}");
            assert_eq!(disk.memory.entries(), []);
            drop(replies);
        });
    });
}

/// The manager ordered the nodes to leave, as if the cluster had been shut down. All jobs ended,
/// and no node waited for the manager that started when the disk had room again.
#[test]
fn jobs_outlive_a_manager_whose_journal_breaks() {
    for_seeds(10, |seed| {
        let simulation = Simulation::new(seed);
        let disk = Disk::new(&simulation);
        let shape = if seed % 2 == 0 { Shape::gang(2, 2) } else { Shape::fcfs(2, 2) };
        let cluster = Cluster::start_with(&simulation, shape, disk.clone(), Vec::new());
        cluster.clone().run(async move {
            cluster.joined().await;
            let long = cluster.client.submit(job(2, &["p", "compute-ms", "2000"])).await;
            cluster.client.attach(long).await.until(JobState::Running).await;
            disk.broken.set(true);
            drop(submit(&cluster).await);
            while cluster.mm_end.borrow().is_none() {
                cluster.pause(Duration::from_millis(10)).await;
            }
            cluster.kill_manager();
            disk.broken.set(false);
            let client = cluster.start_manager(disk.clone(), disk.memory.entries());
            let end = client.attach(long).await.end().await;
            assert_eq!((end.state, end.exit_code), (JobState::Completed, 0), "{end:?}");
            assert_eq!(client.show(long).await.runs, 1);
        });
    });
}
