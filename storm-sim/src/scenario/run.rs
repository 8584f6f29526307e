//! Runs a scenario under one seed: its workload with its faults. If there were faults, all of them
//! are healed at the end, and a fresh job runs over the whole machine.

use super::file::Arrival;
use super::{Scenario, ScenarioError};
use crate::machine::node_named;
use crate::{
    Application, ChromeTrace, ConfiguredNode, ConfiguredPartition, JobRequest, Machine, Report,
    RunError,
};
use std::collections::BTreeMap;
use std::time::Duration;
use storm_mm::api::{JobState, ManagerRequest, NodeState, Reply};
use storm_primitives::{NodeId, Runtime};
use thiserror::Error;

/// The time until the last command has reached every node and was obeyed.
const SETTLED: Duration = Duration::from_millis(500);
/// The pause between two rounds of healing: longer than any fabric takes to notice a death.
const HEAL_PAUSE: Duration = Duration::from_millis(20);
/// The pause between two attempts to submit a job that no partition accepts now.
const SUBMIT_PAUSE: Duration = Duration::from_millis(2);
/// CPU time of the fresh job.
const FRESH_WORK: Duration = Duration::from_millis(5);

/// How a scenario is run.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions {
    /// Another seed than the scenario's.
    pub seed: Option<u64>,
    /// Keep a trace.
    pub traces: bool,
}

/// The result of a scenario.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The report of the run.
    pub report: Report,
    /// The trace, if one was recorded.
    pub trace: Option<ChromeTrace>,
}

/// The reason why a scenario was not run to its end.
#[derive(Debug, Error)]
pub enum ScenarioFailure {
    /// The scenario is invalid.
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
        /// The result up to the failure.
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
    let edits = async {
        match scenario.random_edits {
            Some(edits) => {
                edits.happen(machine.clone()).await?;
                // Jobs may still wait to be submitted to a partition that is large enough.
                restore(machine)
            }
            None => Ok(()),
        }
    };
    let submissions = submit_all(machine, arrivals, scenario.random_edits.is_some());
    futures_util::try_join!(faults, random, edits, submissions)?;
    // Nothing is healed before all jobs have ended, so a script must repair the faults that it
    // makes. Otherwise the time limit expires, and the error names the jobs that wait for a repair.
    if !scenario.faults.is_empty() {
        machine.all_ended().await;
    }
    if scenario.has_faults() {
        heal(machine).await;
    }
    machine.all_ended().await;
    if scenario.has_faults() {
        fresh_jobs(machine).await?;
    }
    machine.runtime().sleep(SETTLED).await;
    machine.over();
    Ok(())
}

async fn submit_all(
    machine: &Machine,
    arrivals: Vec<Arrival>,
    anywhere: bool,
) -> Result<(), RunError> {
    let start = machine.now();
    for Arrival { at, request } in arrivals {
        machine.runtime().sleep_until(start + at).await;
        if anywhere {
            submit_anywhere(machine, request).await?;
        } else {
            machine.submit(&request).await?;
        }
    }
    Ok(())
}

/// Submits a job to a random partition that accepts it now. Only partitions of the first
/// configuration are drawn, because they exist again at the end.
async fn submit_anywhere(machine: &Machine, request: JobRequest) -> Result<(), RunError> {
    let first = machine.config().configuration();
    loop {
        let now = machine.configuration_read();
        let takes = |one: &&ConfiguredPartition| {
            let known = first.partitions.iter().any(|known| known.name == one.name);
            known && now.elements(one) >= request.procs
        };
        let fitting: Vec<&ConfiguredPartition> = now.partitions.iter().filter(takes).collect();
        if !fitting.is_empty() {
            let index = machine.random_below(fitting.len() as u64) as usize;
            let partition = Some(fitting[index].name.clone());
            match machine.submit(&JobRequest { partition, ..request.clone() }).await {
                // The manager that answered has read another configuration meanwhile.
                Err(RunError::Refused { .. }) => {}
                done => return done.map(|_| ()),
            }
        }
        machine.runtime().sleep(SUBMIT_PAUSE).await;
    }
}

/// Starts a manager with the first configuration, and puts all further nodes into its last
/// partition. Every submitted job can then run, and no node is left out with its jobs.
fn restore(machine: &Machine) -> Result<(), RunError> {
    let config = machine.config();
    let mut configuration = config.configuration();
    for node in (config.nodes + 1..=config.all_nodes()).map(NodeId) {
        configuration.nodes.push(ConfiguredNode { node, pes: config.pes });
        configuration
            .partitions
            .iter_mut()
            .last()
            .into_iter()
            .for_each(|last| last.nodes.push(node));
    }
    machine.kill_manager();
    machine.edit(configuration);
    machine.restart_manager().map_err(RunError::Configuration)
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
    let nodes = machine.config().all_nodes();
    loop {
        let _ = machine.restart_manager();
        for node in (1..=nodes).map(NodeId) {
            machine.heal(node);
            machine.start_node_manager(node);
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

/// The nodes that the manager does not count as up. `None` if it does not answer.
async fn nodes_down(machine: &Machine) -> Option<Vec<NodeId>> {
    let client = machine.client()?;
    let Some(Reply::Nodes { nodes }) = client.ask(ManagerRequest::Nodes).await else {
        return None;
    };
    let down =
        nodes.iter().filter(|view| matches!(view.state, NodeState::Down | NodeState::Unknown));
    Some(down.filter_map(|view| node_named(&view.name)).collect())
}

/// A job over all elements of each partition.
async fn fresh_jobs(machine: &Machine) -> Result<(), RunError> {
    let configuration = machine.configuration_read();
    for partition in &configuration.partitions {
        let request = JobRequest {
            name: "fresh".to_owned(),
            procs: configuration.elements(partition),
            binary_bytes: u64::from(machine.config().chunk_bytes),
            application: Application::Compute { time: FRESH_WORK },
            requeue: false,
            fences: 0,
            partition: Some(partition.name.clone()),
        };
        let job = machine.submit(&request).await?;
        let times = machine.ended(job).await;
        if times.state != Some(JobState::Completed) {
            let state = times.state.map_or_else(|| "nowhere".to_owned(), |state| state.to_string());
            let how = format!("{state}: {}", times.reason.unwrap_or_default());
            return Err(RunError::NotHealed { how });
        }
    }
    Ok(())
}
