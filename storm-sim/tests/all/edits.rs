//! Edits of the configuration under running jobs. A node is known by its name, and a job on nodes
//! that stay continues. Tests make each edit by itself, and random edits under many seeds.
//! `STORM_EDIT_SEEDS` sets the number of seeds; `STORM_SEED` runs a single one.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use storm_mm::api::JobState;
use storm_primitives::{NodeId, Runtime};
use storm_qsnet_sim::Load;
use storm_sim::scenario::{self, RunOptions, Scenario};
use storm_sim::{
    Application, Configuration, ConfiguredNode, JobRequest, JobTimes, Machine, MachineConfig,
    RunError, profile,
};

/// The default number of seeds, enough for a quick look. CI runs 1,000.
const SEEDS: u64 = 50;
/// The scenario, as the command that repeats a failure names it.
const SCENARIO: &str = "storm-sim/scenarios/random-edits.toml";
/// Virtual time: a manager waits 10 s for a node that may come back.
const LIMIT: Duration = Duration::from_secs(60);
/// Nodes that are configured at first, and additional nodes.
const NODES: u32 = 3;
const SPARE: NodeId = NodeId(4);
const PES: u32 = 2;

fn machine(seed: u64) -> Machine {
    let plain = profile::machine(profile::PLAIN, seed, NODES, Load::NONE).expect("it is there");
    let config =
        MachineConfig { spare_nodes: 1, pes: PES, quantum: Duration::from_millis(5), ..plain };
    Machine::start(config).expect("a sound machine")
}

/// A job that runs across a restart of the manager.
fn job(procs: u32, requeue: bool) -> JobRequest {
    JobRequest {
        name: "stays".to_owned(),
        procs,
        binary_bytes: 0,
        requeue,
        fences: 0,
        partition: None,
        application: Application::bulk_synchronous(10, Duration::from_millis(20)),
    }
}

/// The times of a job of two nodes while these edits are made one after the other. After each edit
/// the manager is started again.
fn job_over(seed: u64, edits: &[fn(&mut Configuration)]) -> Result<JobTimes, RunError> {
    let (machine, edits) = (machine(seed), edits.to_vec());
    let this = machine.clone();
    machine.run(LIMIT, async move {
        this.joined(NODES).await;
        let job = this.submit(&job(2 * PES, false)).await?;
        while this.job(job).is_none_or(|times| times.started.is_none()) {
            this.runtime().sleep(Duration::from_millis(1)).await;
        }
        for edit in edits {
            let mut configuration = this.configuration();
            edit(&mut configuration);
            this.kill_manager();
            this.edit(configuration);
            this.restart_manager().expect("a configuration that makes sense");
            this.runtime().sleep(Duration::from_millis(30)).await;
        }
        let times = this.ended(job).await;
        this.runtime().sleep(Duration::from_millis(500)).await;
        this.over();
        Ok(times)
    })
}

/// Asserts that under every seed the job completes in its first run.
fn goes_on(edits: &[fn(&mut Configuration)]) {
    for seed in 0..5 {
        let times = job_over(seed, edits).unwrap_or_else(|failure| {
            panic!("seed {seed}: {failure}: {:?}", failure.source().map(ToString::to_string))
        });
        assert_eq!(times.state, Some(JobState::Completed), "seed {seed}: {times:?}");
        assert_eq!(times.requeued, 0);
    }
}

fn insert_first(configuration: &mut Configuration) {
    configuration.nodes.insert(0, ConfiguredNode { node: SPARE, pes: PES });
    configuration.partitions[0].nodes.insert(0, SPARE);
}

/// Regression: every node manager left, because its node had another number.
#[test]
fn a_node_that_is_inserted_ahead_of_others_ends_no_job() {
    goes_on(&[insert_first]);
}

#[test]
fn a_node_that_is_inserted_and_removed_again_ends_no_job() {
    goes_on(&[insert_first, |configuration| {
        configuration.nodes.remove(0);
        configuration.partitions[0].nodes.remove(0);
    }]);
}

#[test]
fn nodes_in_another_order_end_no_job() {
    goes_on(&[
        |configuration| configuration.nodes.reverse(),
        |configuration| configuration.partitions[0].nodes.reverse(),
    ]);
}

#[test]
fn a_partition_that_is_inserted_ahead_of_others_ends_no_job() {
    goes_on(&[|configuration| {
        let mut first = configuration.partitions[0].clone();
        first.name = "first".to_owned();
        first.nodes = configuration.partitions[0].nodes.split_off(2);
        configuration.partitions.insert(0, first);
    }]);
}

/// Regression: the manager refused the node, and its node manager left with its jobs.
#[test]
fn a_node_that_is_too_small_for_its_configuration_keeps_its_jobs() {
    let grow: fn(&mut Configuration) = |configuration| configuration.nodes[0].pes = PES + 1;
    goes_on(&[grow, |configuration| configuration.nodes[0].pes = PES]);
}

#[test]
fn a_job_whose_partition_is_renamed_waits_for_it() {
    let machine = machine(1);
    let this = machine.clone();
    let times = machine.run(LIMIT, async move {
        this.joined(NODES).await;
        // Over all nodes, four times as many as there are rows.
        let mut jobs = Vec::new();
        for _ in 0..8 {
            jobs.push(this.submit(&job(NODES * PES, true)).await?);
        }
        for name in ["misspelt", "all"] {
            let mut configuration = this.configuration();
            configuration.partitions[0].name = name.to_owned();
            this.kill_manager();
            this.edit(configuration);
            this.restart_manager().expect("a configuration that makes sense");
            this.runtime().sleep(Duration::from_millis(100)).await;
        }
        let mut ended = Vec::new();
        for job in jobs {
            ended.push(this.ended(job).await);
        }
        Ok(ended)
    });
    let times = times.unwrap_or_else(|failure| {
        panic!("{failure}: {:?}", failure.source().map(ToString::to_string))
    });
    assert!(times.iter().all(|job| job.state == Some(JobState::Completed)), "{times:?}");
}

fn random_edits() -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/random-edits.toml");
    Scenario::read(&path).expect("the scenario is sound")
}

#[test]
fn every_seed_of_random_edits_keeps_every_promise() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seeds = match number("STORM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("STORM_EDIT_SEEDS").unwrap_or(SEEDS),
    };
    let failures = Mutex::new(BTreeMap::new());
    scenario::run_seeds(&random_edits(), seeds, &|seed, result| {
        if let Err(failure) = result {
            let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
            failures.insert(seed, failure);
        }
    });
    let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (seed, failure) in &failures {
        let first: Option<&dyn Error> = Some(failure);
        let causes = std::iter::successors(first, |error| (*error).source());
        let how: Vec<String> = causes.map(ToString::to_string).collect();
        println!("storm sim {SCENARIO} --seed {seed}\n  {}", how.join(": "));
    }
    assert!(failures.is_empty(), "{} seeds fail; repeat as above", failures.len());
}

/// Regression: a node waited for ever for the end of a PMI fence that it had missed, since a node
/// that was over had forgotten its part of the fence.
#[test]
fn a_node_that_missed_the_end_of_a_fence_gets_it_from_a_later_manager() {
    let options = RunOptions { seed: Some(1672), ..RunOptions::default() };
    let outcome = scenario::run(&random_edits(), options);
    assert!(outcome.is_ok(), "{}", outcome.expect_err("it fails"));
}

#[test]
fn the_same_seed_edits_the_same() {
    let run = |seed| {
        let options = RunOptions { seed: Some(seed), traces: true };
        let outcome = match scenario::run(&random_edits(), options) {
            Ok(outcome) => outcome,
            Err(scenario::ScenarioFailure::Run { so_far, .. }) => *so_far,
            Err(failure) => panic!("{failure}"),
        };
        (format!("{:?}", outcome.report), outcome.trace.expect("a trace was asked for").to_json())
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}
