//! A scenario run under one seed: its workload with its faults; then, if there
//! were faults, all of them healed and a fresh job over the whole machine.

use super::file::Arrival;
use super::{Scenario, ScenarioError};
use crate::{Application, ChromeTrace, JobRequest, Machine, Report, RunError};
use std::collections::BTreeMap;
use std::time::Duration;
use storm_mm::api::{JobState, ManagerRequest, NodeState, Reply};
use storm_primitives::{NodeId, Runtime};
use thiserror::Error;

/// Until the last command has reached every node and been obeyed.
const SETTLED: Duration = Duration::from_millis(500);
/// Between two rounds of healing: longer than any fabric takes to notice a death.
const HEAL_PAUSE: Duration = Duration::from_millis(20);
/// What the fresh job computes.
const FRESH_WORK: Duration = Duration::from_millis(5);

/// How a scenario is run.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions {
    /// Another seed than the scenario's.
    pub seed: Option<u64>,
    /// Keep a trace.
    pub traces: bool,
}

/// What a run gave.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What came of it.
    pub report: Report,
    /// The trace, if one was asked for.
    pub trace: Option<ChromeTrace>,
}

/// Why a scenario was not run to its end.
#[derive(Debug, Error)]
pub enum ScenarioFailure {
    /// It makes no sense.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The run failed.
    #[error("seed {seed} fails")]
    Run {
        /// The seed that repeats it.
        seed: u64,
        /// How.
        #[source]
        source: RunError,
        /// What came of it up to then.
        so_far: Box<Outcome>,
    },
}

/// Runs a scenario.
///
/// # Errors
/// [`ScenarioFailure`]; that of a run names the seed.
pub fn run(scenario: &Scenario, options: RunOptions) -> Result<Outcome, ScenarioFailure> {
    scenario.check()?;
    let seed = options.seed.unwrap_or(scenario.seed);
    let mut config = scenario.config(seed)?;
    config.traces = options.traces;
    let machine = Machine::start(config).map_err(ScenarioError::from)?;
    let elements = machine.config().nodes.saturating_mul(machine.config().pes);
    let arrivals = scenario.arrivals(elements, |bound| machine.random_below(bound));
    let workload = arrivals.len();
    let work: BTreeMap<String, Duration> = arrivals
        .iter()
        .map(|arrival| (arrival.request.name.clone(), arrival.request.application.work()))
        .collect();
    let (this, script) = (machine.clone(), scenario.clone());
    let result = machine.run(scenario.limit, async move {
        this.joined(this.config().nodes).await;
        play(&this, &script, arrivals).await
    });
    let report = Report::of(&machine, workload, |name| work.get(name).copied());
    let outcome = Outcome { report, trace: machine.take_trace() };
    match result {
        Ok(()) => Ok(outcome),
        Err(source) => Err(ScenarioFailure::Run { seed, source, so_far: Box::new(outcome) }),
    }
}

async fn play(
    machine: &Machine,
    scenario: &Scenario,
    arrivals: Vec<Arrival>,
) -> Result<(), RunError> {
    let faults = script(machine, scenario);
    let random = async {
        match scenario.random_faults {
            Some(faults) => faults.happen(machine.clone()).await,
            None => Ok(()),
        }
    };
    let submissions = submit_all(machine, arrivals);
    futures_util::try_join!(faults, random, submissions)?;
    // What a script broke stays broken until the script mends it, however long the limit:
    // the limit names the jobs that wait for a repair in vain.
    if !scenario.faults.is_empty() {
        machine.all_ended().await;
    }
    if scenario.has_faults() {
        heal(machine).await;
    }
    machine.all_ended().await;
    if scenario.has_faults() {
        fresh_job(machine).await?;
    }
    machine.runtime().sleep(SETTLED).await;
    machine.over();
    Ok(())
}

async fn submit_all(machine: &Machine, arrivals: Vec<Arrival>) -> Result<(), RunError> {
    let start = machine.now();
    for Arrival { at, request } in arrivals {
        machine.runtime().sleep_until(start + at).await;
        machine.submit(&request).await?;
    }
    Ok(())
}

async fn script(machine: &Machine, scenario: &Scenario) -> Result<(), RunError> {
    let start = machine.now();
    let mut faults = scenario.faults.clone();
    faults.sort_by_key(|fault| fault.at);
    for fault in faults {
        machine.runtime().sleep_until(start + fault.at).await;
        // Fails for no configuration that the machine was started with.
        let _ = fault.happen(machine);
    }
    Ok(())
}

/// Brings everything back until the manager knows every node to be up.
async fn heal(machine: &Machine) {
    let nodes = machine.config().nodes;
    loop {
        let _ = machine.restart_manager();
        for node in (1..=nodes).map(NodeId) {
            machine.heal(node);
        }
        machine.killed().into_iter().for_each(|node| machine.rejoin(node));
        machine.runtime().sleep(HEAL_PAUSE).await;
        let Some(down) = nodes_down(machine).await else { continue };
        if down.is_empty() {
            return;
        }
        down.into_iter().for_each(|node| machine.rejoin(node));
        machine.runtime().sleep(HEAL_PAUSE).await;
    }
}

/// The nodes that the manager does not know to be up.
/// `None` when it does not answer.
async fn nodes_down(machine: &Machine) -> Option<Vec<NodeId>> {
    let client = machine.client()?;
    let Some(Reply::Nodes { nodes }) = client.ask(ManagerRequest::Nodes).await else {
        return None;
    };
    let numbered = (1..).map(NodeId).zip(nodes);
    let down =
        numbered.filter(|(_, view)| matches!(view.state, NodeState::Down | NodeState::Unknown));
    Some(down.map(|(node, _)| node).collect())
}

async fn fresh_job(machine: &Machine) -> Result<(), RunError> {
    let config = machine.config();
    let request = JobRequest {
        name: "fresh".to_owned(),
        procs: config.nodes.saturating_mul(config.pes),
        binary_bytes: u64::from(config.chunk_bytes),
        application: Application::Compute { time: FRESH_WORK },
        requeue: false,
    };
    let job = machine.submit(&request).await?;
    let times = machine.ended(job).await;
    match times.state {
        Some(JobState::Completed) => Ok(()),
        state => {
            let state = state.map_or_else(|| "nowhere".to_owned(), |state| state.to_string());
            let how = format!("{state}: {}", times.reason.unwrap_or_default());
            Err(RunError::NotHealed { how })
        }
    }
}
