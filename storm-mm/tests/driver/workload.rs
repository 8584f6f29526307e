//! A workload of many jobs whose manager is killed again and again. With any faults, no
//! acknowledged job is lost, and no job runs twice.

use crate::client::{Client, job, shipped};
use crate::cluster::Cluster;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use storm_mm::api::{ErrorCode, ManagerRequest, Reply};
use storm_mm::job::{JobRecord, Phase};
use storm_mm::journal::{Entry, Journal, JournalError, MemoryJournal};
use storm_primitives::Runtime;
use storm_primitives::sim::Simulation;
use storm_rm::{JobId, JobSpec};

/// A submission without an answer by then is repeated: the manager died while handling it.
const ANSWERED: Duration = Duration::from_millis(200);
/// Pause between two checks whether a manager is there.
const LOOK: Duration = Duration::from_millis(1);
/// Longest time that a commit takes on either side of the instant that counts.
const COMMIT: Duration = Duration::from_micros(400);

/// A journal whose commits take time: a kill may happen before or after the instant that counts.
#[derive(Clone)]
pub(crate) struct SlowJournal {
    simulation: Simulation,
    memory: MemoryJournal,
    longest: Duration,
}

impl SlowJournal {
    pub(crate) fn new(simulation: &Simulation) -> SlowJournal {
        SlowJournal::with_commits(simulation, COMMIT)
    }

    /// A journal whose commits take up to `longest` on either side of the instant that counts.
    pub(crate) fn with_commits(simulation: &Simulation, longest: Duration) -> SlowJournal {
        let (simulation, memory) = (simulation.clone(), MemoryJournal::default());
        SlowJournal { simulation, memory, longest }
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.memory.entries()
    }

    /// The jobs as the journal has them.
    pub(crate) fn records(&self) -> BTreeMap<JobId, JobRecord> {
        let mut records: BTreeMap<JobId, JobRecord> = BTreeMap::new();
        let entries = self.entries();
        for (job, event) in entries.iter().filter_map(Entry::of_job) {
            match records.get_mut(&job) {
                Some(record) => record.apply(event),
                None => {
                    let first = JobRecord::from_first(job, event);
                    assert!(!first.is_empty(), "a submission first");
                    records.extend(first.into_iter().map(|record| (record.id, record)));
                }
            }
        }
        records
    }

    async fn pass_time(&self) {
        let micros = self.simulation.random_below(self.longest.as_micros() as u64);
        self.simulation.runtime().sleep(Duration::from_micros(micros)).await;
    }
}

impl Journal for SlowJournal {
    async fn append(&self, entries: Vec<Entry>) -> Result<(), JournalError> {
        self.pass_time().await;
        self.memory.append(entries).await?;
        self.pass_time().await;
        Ok(())
    }
}

/// The client of the living manager, if there is one.
pub(crate) type CurrentClient = Rc<RefCell<Option<Client>>>;

/// Submits a job until some manager acknowledges it.
async fn submit(cluster: &Cluster, client: &CurrentClient, spec: &JobSpec) -> JobId {
    let runtime = cluster.simulation.runtime();
    loop {
        let current = client.borrow().clone();
        if let Some(current) = current {
            let request = ManagerRequest::Submit {
                spec: Box::new(spec.clone()),
                attach: false,
                service: Default::default(),
                reservation: None,
            };
            let asked = pin!(async {
                let replies = current.try_send(request).await?;
                Some(replies.next().await?.reply)
            });
            match runtime.timeout(ANSWERED, asked).await.flatten() {
                Some(Reply::Submitted { job }) => return job,
                // The manager died while it handled the request.
                Some(Reply::Error { error }) if error.code == ErrorCode::Internal => {}
                Some(reply) => panic!("not submitted: {reply:?}"),
                None => {}
            }
        }
        runtime.sleep(LOOK).await;
    }
}

/// The specification of a job of the workload, by its number.
fn spec(cluster: &Cluster, index: u64) -> JobSpec {
    let nodes = u64::from(cluster.shape.nodes);
    let procs = 1 + index * 7 % (nodes * u64::from(cluster.shape.pes));
    let time = (1 + index % 9).to_string();
    let spec = match index % 4 {
        0 => job(procs as u32, &["p", "compute-ms", &time]),
        1 => job(procs as u32, &["p", "compute-ms", &time, "print", "said"]),
        2 => job(procs as u32, &["p", "fence", "", "compute-ms", &time, "fence", ""]),
        _ => {
            let file = cluster.contents.add("program", 10_000, index as u8);
            shipped(job(procs as u32, &["p", "compute-ms", &time]), file)
        }
    };
    JobSpec { requeue: index.is_multiple_of(5), ..spec }
}

/// Submits `jobs` jobs while the manager is killed again and again; returns the acknowledged jobs.
pub(crate) async fn submit_all(
    cluster: &Cluster,
    client: &CurrentClient,
    jobs: u64,
    pause: Duration,
) -> Vec<JobId> {
    let mut acknowledged = Vec::new();
    for index in 0..jobs {
        let spec = spec(cluster, index);
        acknowledged.push(submit(cluster, client, &spec).await);
        cluster.pause(cluster.random(pause)).await;
    }
    acknowledged
}

/// Kills the manager at random instants while `going_on`; returns how often.
pub(crate) async fn kill_again_and_again(
    cluster: &Cluster,
    client: &CurrentClient,
    journal: &SlowJournal,
    (most, between): (u32, Duration),
    going_on: Rc<Cell<bool>>,
) -> u32 {
    let mut kills = 0;
    while kills < most && going_on.get() {
        cluster.pause(cluster.random(between)).await;
        client.replace(None);
        cluster.kill_manager();
        kills += 1;
        cluster.pause(cluster.random(between / 4)).await;
        let current = cluster.start_manager(journal.clone(), journal.entries());
        client.replace(Some(current));
    }
    kills
}

/// Waits until every job has ended according to the journal.
pub(crate) async fn all_ended(cluster: &Cluster, journal: &SlowJournal) {
    let ended = |record: &JobRecord| matches!(record.phase, Phase::Ended(_));
    while !journal.records().values().all(ended) {
        cluster.pause(LOOK * 20).await;
    }
}
