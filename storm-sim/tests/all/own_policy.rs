//! A policy of another crate (here: of the tests) in the Machine Manager. Jobs run under it by its
//! name, a partition is switched to it while jobs run, and the next manager finds it again.

use std::time::Duration;
use storm_mm::api::{ErrorCode, JobState, ManagerRequest, PartitionView, Reply};
use storm_qsnet_sim::Load;
use storm_rm::JobId;
use storm_sched::space::{Discipline, News, Order, Passing, Space, SpaceSharing, Verdict};
use storm_sched::{Machine as Nodes, Policy, PolicyParams, Registry};
use storm_sim::{Application, JobRequest, Machine, MachineConfig, RunError, profile};

const NODES: u32 = 4;
const NAME: &str = "last-first";
/// Virtual time after which a run hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// Starts the job that came last first.
struct LastFirst;

impl Discipline for LastFirst {
    fn name(&self) -> &'static str {
        NAME
    }

    fn passing(&self) -> Passing {
        Passing::Harmless
    }

    fn decide(&mut self, space: &mut Space, _news: &[News]) {
        loop {
            let mut last = None;
            space.offer(Order::Queue, |job| {
                last = job.fits().then(|| job.job()).or(last);
                Verdict::Wait
            });
            if !last.is_some_and(|job| space.start(job)) {
                return;
            }
        }
    }
}

fn last_first(nodes: Nodes, params: &PolicyParams) -> Box<dyn Policy> {
    Box::new(SpaceSharing::under(LastFirst, nodes, params))
}

fn machine(sched: &str) -> Machine {
    let plain = profile::machine(profile::PLAIN, 7, NODES, Load::NONE).expect("it is there");
    let mut policies = Registry::standard();
    policies.register(NAME, last_first).expect("no other policy has the name");
    let config = MachineConfig { sched: sched.to_owned(), policies, pes: 1, ..plain };
    Machine::start(config).expect("a sound machine")
}

fn job(number: u32) -> JobRequest {
    JobRequest {
        name: format!("job-{number}"),
        procs: NODES,
        binary_bytes: 0,
        application: Application::Compute { time: Duration::from_millis(30) },
        requeue: false,
        fences: 0,
        partition: None,
    }
}

async fn submit(machine: &Machine, numbers: std::ops::Range<u32>) -> Result<Vec<JobId>, RunError> {
    let mut jobs = Vec::new();
    for number in numbers {
        jobs.push(machine.submit(&job(number)).await?);
    }
    Ok(jobs)
}

async fn switch(machine: &Machine, sched: &str) -> Reply {
    let request = ManagerRequest::SetPartition {
        partition: "all".to_owned(),
        sched: Some(sched.to_owned()),
        quantum_us: None,
    };
    machine.client().expect("there is a manager").ask(request).await.expect("an answer")
}

async fn partition(machine: &Machine) -> PartitionView {
    let client = machine.client().expect("there is a manager");
    match client.ask(ManagerRequest::Partitions).await {
        Some(Reply::Partitions { mut partitions }) => partitions.remove(0),
        reply => panic!("no partitions: {reply:?}"),
    }
}

/// The jobs in the order of their starts, all of them completed.
fn order(machine: &Machine, jobs: &[JobId]) -> Vec<JobId> {
    let times = machine.jobs();
    let mut started: Vec<_> = jobs
        .iter()
        .map(|job| {
            assert_eq!(times[job].state, Some(JobState::Completed), "{job}");
            (times[job].started, *job)
        })
        .collect();
    started.sort();
    started.into_iter().map(|(_, job)| job).collect()
}

#[test]
fn jobs_run_under_a_policy_of_another_crate() {
    let machine = machine(NAME);
    let this = machine.clone();
    let jobs = machine.run(LIMIT, async move {
        this.joined(NODES).await;
        let jobs = submit(&this, 0..4).await?;
        this.all_ended().await;
        Ok(jobs)
    });
    let jobs = jobs.expect("every invariant holds");
    assert_eq!(order(&machine, &jobs), [jobs[0], jobs[3], jobs[2], jobs[1]]);
}

#[test]
fn a_busy_partition_switches_to_the_policy_and_the_next_manager_keeps_it() {
    let machine = machine("fcfs");
    let this = machine.clone();
    let jobs = machine.run(LIMIT, async move {
        this.joined(NODES).await;
        let jobs = submit(&this, 0..4).await?;
        match switch(&this, "nobody's").await {
            Reply::Error { error } => {
                assert_eq!(error.code, ErrorCode::NoSuchPolicy);
                assert!(error.message.ends_with(", last-first"), "{error}");
            }
            reply => panic!("{reply:?}"),
        }
        let Reply::Partitions { partitions } = switch(&this, NAME).await else {
            panic!("the partition is not switched")
        };
        assert_eq!(partitions[0].sched, NAME);
        this.kill_manager();
        this.restart_manager().expect("as before");
        this.joined(NODES).await;
        assert_eq!(partition(&this).await.sched, NAME);
        this.all_ended().await;
        Ok(jobs)
    });
    let jobs = jobs.expect("every invariant holds");
    assert_eq!(order(&machine, &jobs), [jobs[0], jobs[3], jobs[2], jobs[1]]);
}
