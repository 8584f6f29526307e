//! Nodes that are away keep their places in the plans of the policies, in the whole machine
//! (`docs/decisions/0154-a-node-that-is-away-keeps-its-place.md`).

use std::time::Duration;
use storm_mm::api::JobState;
use storm_primitives::{NodeId, Runtime};
use storm_qsnet_sim::Load;
use storm_sim::{
    Application, JobRequest, JobTimes, Machine, MachineConfig, NodeManagerEnd, RunError, profile,
};

const LIMIT: Duration = Duration::from_secs(60);
const NODES: u32 = 3;
const PES: u32 = 2;
/// Where the first job runs.
const FIRST: NodeId = NodeId(1);
/// Longer than a node or a manager is away.
const RUNS: Duration = Duration::from_millis(20);

/// The daemon that is started again while the jobs wait.
#[derive(Clone, Copy, Debug)]
enum Restart {
    NodeManager(NodeManagerEnd),
    Manager,
    Both,
}

fn machine(seed: u64, sched: &str) -> Machine {
    let plain = profile::machine(profile::PLAIN, seed, NODES, Load::NONE).expect("it is there");
    let node_return = Duration::from_secs(1);
    let sched = sched.to_owned();
    let config = MachineConfig { pes: PES, sched, hand_over: true, node_return, ..plain };
    Machine::start(config).expect("a sound machine")
}

fn job(procs: u32) -> JobRequest {
    JobRequest {
        name: "job".to_owned(),
        procs,
        binary_bytes: 0,
        requeue: false,
        fences: 0,
        partition: None,
        application: Application::bulk_synchronous(10, RUNS),
    }
}

/// A job runs on the first node, one of all elements waits for it, and a third waits behind that
/// one. The times of the second and the third over a restart.
fn over(seed: u64, sched: &str, restart: Restart) -> Result<[JobTimes; 2], RunError> {
    let machine = machine(seed, sched);
    let this = machine.clone();
    machine.run(LIMIT, async move {
        this.joined(NODES).await;
        let first = this.submit(&job(PES)).await?;
        while this.job(first).is_none_or(|times| times.started.is_none()) {
            this.runtime().sleep(Duration::from_millis(1)).await;
        }
        let head = this.submit(&job(NODES * PES)).await?;
        let third = this.submit(&job(PES)).await?;
        if let Restart::NodeManager(how) = restart {
            this.end_node_manager(FIRST, how);
        }
        if let Restart::Both = restart {
            this.end_node_manager(FIRST, NodeManagerEnd::Killed);
        }
        if let Restart::Manager | Restart::Both = restart {
            this.kill_manager();
            this.runtime().sleep(Duration::from_millis(5)).await;
            this.restart_manager().expect("its configuration is sound");
        }
        this.runtime().sleep(Duration::from_millis(40)).await;
        this.start_node_manager(FIRST);
        Ok([this.ended(head).await, this.ended(third).await])
    })
}

/// Regression: the third job passed the second one.
#[test]
fn no_job_passes_the_first_one_over_restarts() {
    let ends = [NodeManagerEnd::Killed, NodeManagerEnd::Asked, NodeManagerEnd::Reset];
    let restarts = ends.map(Restart::NodeManager).into_iter();
    for restart in restarts.chain([Restart::Manager, Restart::Both]) {
        for sched in ["fcfs", "backfill", "easy-sjbf", "conservative"] {
            for seed in 0..5 {
                let times = over(seed, sched, restart);
                let times =
                    times.unwrap_or_else(|failure| panic!("{sched} {restart:?}: {failure}"));
                let [head, third] = times;
                assert_eq!(head.state, Some(JobState::Completed), "{sched} {restart:?} {seed}");
                assert_eq!(third.state, Some(JobState::Completed), "{sched} {restart:?} {seed}");
                assert!(head.started < third.started, "{sched} {restart:?} {seed}");
            }
        }
    }
}
