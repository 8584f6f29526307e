//! Node Managers that end while jobs run, and their successors. Jobs continue if the successor
//! starts within `node-return`, and end as documented otherwise.

use std::path::Path;
use std::time::Duration;
use storm_mm::api::JobState;
use storm_primitives::{NodeId, Runtime};
use storm_qsnet_sim::Load;
use storm_sim::scenario::{self, RunOptions, Scenario};
use storm_sim::{
    Application, JobRequest, JobTimes, Machine, MachineConfig, NodeManagerEnd, RunError, profile,
};

const LIMIT: Duration = Duration::from_secs(60);
const NODES: u32 = 3;
const PES: u32 = 2;
/// The node whose node manager ends.
const LEFT: NodeId = NodeId(2);
const RETURN: Duration = Duration::from_millis(200);
const ENDS: [NodeManagerEnd; 3] =
    [NodeManagerEnd::Killed, NodeManagerEnd::Reset, NodeManagerEnd::Asked];

fn machine(seed: u64) -> Machine {
    let plain = profile::machine(profile::PLAIN, seed, NODES, Load::NONE).expect("it is there");
    let quantum = Duration::from_millis(5);
    let config = MachineConfig { pes: PES, quantum, hand_over: true, node_return: RETURN, ..plain };
    Machine::start(config).expect("a sound machine")
}

fn job(requeue: bool) -> JobRequest {
    JobRequest {
        name: "stays".to_owned(),
        procs: NODES * PES,
        binary_bytes: 0,
        requeue,
        fences: 2,
        partition: None,
        application: Application::bulk_synchronous(10, Duration::from_millis(20)),
    }
}

/// The times of a job over all nodes, one of which has no node manager for `absence`.
fn job_over(
    seed: u64,
    how: NodeManagerEnd,
    (requeue, absence): (bool, Duration),
) -> Result<JobTimes, RunError> {
    let machine = machine(seed);
    let this = machine.clone();
    machine.run(LIMIT, async move {
        this.joined(NODES).await;
        let job = this.submit(&job(requeue)).await?;
        while this.job(job).is_none_or(|times| times.started.is_none()) {
            this.runtime().sleep(Duration::from_millis(1)).await;
        }
        this.end_node_manager(LEFT, how);
        this.runtime().sleep(absence).await;
        this.start_node_manager(LEFT);
        let times = this.ended(job).await;
        this.runtime().sleep(Duration::from_millis(500)).await;
        this.over();
        Ok(times)
    })
}

#[test]
fn a_job_goes_on_over_every_end_of_a_node_manager() {
    for how in ENDS {
        for seed in 0..5 {
            for requeue in [false, true] {
                let absence = Duration::from_millis(20);
                let times = job_over(seed, how, (requeue, absence)).expect("no promise is broken");
                assert_eq!(times.state, Some(JobState::Completed), "{how:?} {seed}: {times:?}");
                assert_eq!(times.requeued, 0, "{how:?}, seed {seed}");
            }
        }
    }
}

#[test]
fn a_job_ends_or_runs_again_when_the_node_manager_stays_away() {
    for how in ENDS {
        for seed in 0..3 {
            // Longer than the manager waits.
            let absence = RETURN + Duration::from_secs(1);
            let lost = job_over(seed, how, (false, absence)).expect("no promise is broken");
            assert_eq!(lost.state, Some(JobState::NodeFail), "{how:?} {seed}: {lost:?}");
            let again = job_over(seed, how, (true, absence)).expect("no promise is broken");
            assert_eq!(again.state, Some(JobState::Completed), "{how:?} {seed}: {again:?}");
            assert_eq!(again.requeued, 1, "{how:?}, seed {seed}");
        }
    }
}

/// A job whose first node is done long before the last one.
fn independent(time: Duration) -> JobRequest {
    let application = Application::Independent { time, heterogeneity_percent: 500 };
    JobRequest { fences: 0, application, ..job(false) }
}

/// The node manager of a node ends, and the next one begins and joins.
async fn replace_node_manager(machine: &Machine, node: NodeId, how: NodeManagerEnd) {
    machine.end_node_manager(node, how);
    machine.runtime().sleep(Duration::from_millis(20)).await;
    machine.start_node_manager(node);
    machine.runtime().sleep(Duration::from_millis(40)).await;
}

async fn replace_manager(machine: &Machine) {
    machine.kill_manager();
    machine.runtime().sleep(Duration::from_millis(10)).await;
    machine.restart_manager().expect("its configuration is sound");
}

/// Regression: the next node manager was told to forget a part that was over, and the next manager
/// took the part for lost. The job ended NODE_FAIL.
#[test]
fn a_job_goes_on_when_a_node_that_is_done_and_then_the_manager_start_anew() {
    let done = NodeId(1);
    for how in ENDS {
        for (seed, returns, restarts) in [(0, 1, 1), (1, 2, 1), (2, 1, 2)] {
            let machine = machine(seed);
            let this = machine.clone();
            let times = machine.run(LIMIT, async move {
                this.joined(NODES).await;
                let job = this.submit(&independent(Duration::from_millis(200))).await?;
                while this.job(job).is_none_or(|times| times.started.is_none()) {
                    this.runtime().sleep(Duration::from_millis(1)).await;
                }
                // Longer than both ranks of the first node compute.
                this.runtime().sleep(Duration::from_millis(400)).await;
                for _ in 0..returns {
                    replace_node_manager(&this, done, how).await;
                }
                for _ in 0..restarts {
                    replace_manager(&this).await;
                    this.runtime().sleep(Duration::from_millis(50)).await;
                }
                assert!(this.job(job).is_some_and(|times| times.ended.is_none()));
                Ok(this.ended(job).await)
            });
            let times = times.unwrap_or_else(|failure| panic!("{how:?}, seed {seed}: {failure:?}"));
            assert_eq!(times.state, Some(JobState::Completed), "{how:?} {seed}: {times:?}");
            assert_eq!(times.requeued, 0, "{how:?}, seed {seed}");
        }
    }
}

/// Regression: the same while the job was being launched on another node. The next manager
/// launched the ranks again that had ended. An invariant finds a second start.
#[test]
fn ranks_that_ended_while_others_were_launched_do_not_start_again() {
    let (done, launching) = (NodeId(1), NodeId(NODES));
    let mut hit = 0;
    for micros in (0..6_000).step_by(200) {
        let machine = machine(micros);
        let this = machine.clone();
        let times = machine.run(LIMIT, async move {
            this.joined(NODES).await;
            let job = this.submit(&independent(Duration::from_millis(4))).await?;
            this.runtime().sleep(Duration::from_micros(micros)).await;
            this.end_node_manager(launching, NodeManagerEnd::Killed);
            this.runtime().sleep(Duration::from_millis(30)).await;
            let starts = this.job(job).is_some_and(|times| times.started.is_none());
            replace_node_manager(&this, done, NodeManagerEnd::Killed).await;
            replace_manager(&this).await;
            this.runtime().sleep(Duration::from_millis(20)).await;
            this.start_node_manager(launching);
            Ok((starts, this.ended(job).await))
        });
        let times = times.unwrap_or_else(|failure| panic!("after {micros} us: {failure:?}"));
        let (starts, times) = times;
        // A node that has not heard of the launch when its node manager ends may have lost the job.
        let completed = times.state == Some(JobState::Completed);
        hit += u32::from(starts && completed && times.requeued == 0);
    }
    assert!(hit > 0, "no launch was interrupted that went on");
}

/// Regression: the manager took a report of a node for a report of its next incarnation, and then
/// ignored the next incarnation's own.
#[test]
fn a_node_that_dies_as_soon_as_it_has_joined_is_heard_in_its_next_life() {
    for micros in (0..100).step_by(2) {
        let machine = machine(micros);
        let this = machine.clone();
        let times = machine.run(LIMIT, async move {
            this.joined(NODES).await;
            this.end_node_manager(LEFT, NodeManagerEnd::Killed);
            this.start_node_manager(LEFT);
            // A node manager tries to join every 5 ms.
            this.runtime().sleep(Duration::from_micros(5_000 + micros)).await;
            this.end_node_manager(LEFT, NodeManagerEnd::Killed);
            this.runtime().sleep(Duration::from_millis(1)).await;
            assert_eq!(this.nodes_up().await, Some(NODES - 1), "after {micros} us");
            this.start_node_manager(LEFT);
            let job = this.submit(&job(false)).await?;
            Ok(this.ended(job).await)
        });
        let times = times.unwrap_or_else(|failure| panic!("after {micros} us: {failure}"));
        assert_eq!(times.state, Some(JobState::Completed), "after {micros} us: {times:?}");
    }
}

fn scenario_of(file: &str) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios").join(file);
    Scenario::read(&path).expect("the scenario is sound")
}

#[test]
fn one_seed_gives_one_trace_with_takeovers_among_faults() {
    let scenario = scenario_of("random-faults.toml");
    assert!(scenario.machine.hand_over);
    let run = || {
        let outcome = scenario::run(&scenario, RunOptions { seed: Some(5), traces: true });
        let outcome = outcome.expect("it keeps every promise");
        outcome.trace.expect("a trace was asked for").to_json()
    };
    let trace = run();
    assert!(trace.contains("node manager down"));
    assert_eq!(trace, run());
}

/// Nodes of this machine keep no jobs: ranks die with their node manager.
#[test]
fn random_edits_keep_every_promise_without_takeovers() {
    let mut scenario = scenario_of("random-edits.toml");
    scenario.machine.hand_over = false;
    for seed in 0..20 {
        let options = RunOptions { seed: Some(seed), traces: false };
        scenario::run(&scenario, options).unwrap_or_else(|failure| {
            let how = std::error::Error::source(&failure).map(ToString::to_string);
            panic!("seed {seed}: {failure}: {}", how.unwrap_or_default())
        });
    }
}

/// A job that is sent a program to all nodes; one node manager ends `after` the submission.
fn launched_over(
    seed: u64,
    how: NodeManagerEnd,
    (after, absence): (Duration, Duration),
) -> Result<JobTimes, RunError> {
    let machine = machine(seed);
    let this = machine.clone();
    machine.run(LIMIT, async move {
        this.joined(NODES).await;
        let job = this.submit(&JobRequest { binary_bytes: 1 << 20, ..job(false) }).await?;
        this.runtime().sleep(after).await;
        this.end_node_manager(LEFT, how);
        this.runtime().sleep(absence).await;
        this.start_node_manager(LEFT);
        let times = this.ended(job).await;
        this.runtime().sleep(Duration::from_millis(500)).await;
        this.over();
        Ok(times)
    })
}

/// The transfer and the launch take some 20 ms here.
#[test]
fn a_launch_that_is_cut_off_at_any_instant_is_done_again() {
    let mut again = 0;
    for how in ENDS {
        for step in 0..80 {
            let after = Duration::from_micros(250) * step;
            let times = launched_over(u64::from(step), how, (after, Duration::from_millis(20)));
            let times = times.unwrap_or_else(|failure| {
                let why = std::error::Error::source(&failure).map(ToString::to_string);
                panic!("{how:?} {after:?}: {failure}: {}", why.unwrap_or_default())
            });
            let state = times.state;
            assert_eq!(state, Some(JobState::Completed), "{how:?} {after:?}: {times:?}");
            assert!(times.requeued <= 1, "{how:?} {after:?}: {times:?}");
            again += times.requeued;
        }
    }
    assert!(again > 20, "{again} of 240 launches were cut off");
}

/// The same, and the manager is killed at the same instant. `manager_first`: the manager is back
/// before the node.
fn launched_over_both(
    seed: u64,
    how: NodeManagerEnd,
    (after, manager_first): (Duration, bool),
) -> Result<JobTimes, RunError> {
    let machine = machine(seed);
    let this = machine.clone();
    machine.run(LIMIT, async move {
        this.joined(NODES).await;
        let job = this.submit(&JobRequest { binary_bytes: 1 << 20, ..job(false) }).await?;
        this.runtime().sleep(after).await;
        this.end_node_manager(LEFT, how);
        if manager_first {
            replace_manager(&this).await;
            this.runtime().sleep(Duration::from_millis(20)).await;
            this.start_node_manager(LEFT);
        } else {
            this.kill_manager();
            this.runtime().sleep(Duration::from_millis(10)).await;
            this.start_node_manager(LEFT);
            this.runtime().sleep(Duration::from_millis(20)).await;
            this.restart_manager().expect("its configuration is sound");
        }
        let times = this.ended(job).await;
        this.runtime().sleep(Duration::from_millis(500)).await;
        this.over();
        Ok(times)
    })
}

/// Regression: the next manager took the node for lost, and the job ended NODE_FAIL.
#[test]
fn a_launch_that_is_cut_off_together_with_the_manager_is_done_again() {
    let mut again = 0;
    for (how, manager_first) in [
        (NodeManagerEnd::Killed, true),
        (NodeManagerEnd::Asked, true),
        (NodeManagerEnd::Reset, false),
    ] {
        for step in 0..80 {
            let after = Duration::from_micros(250) * step;
            let times = launched_over_both(u64::from(step), how, (after, manager_first));
            let times = times.unwrap_or_else(|failure| panic!("{how:?} {after:?}: {failure:?}"));
            let state = times.state;
            assert_eq!(state, Some(JobState::Completed), "{how:?} {after:?}: {times:?}");
            assert!(times.requeued <= 1, "{how:?} {after:?}: {times:?}");
            again += times.requeued;
        }
    }
    assert!(again > 20, "{again} of 240 launches were cut off");
}
