//! `sim`: runs a scenario on a simulated machine and says what came of it.

use super::progress::{self, Counter};
use super::{machine_profile, note, print};
use crate::cli::{DisplayOptions, SimOptions};
use crate::failure::{EXIT_FAILED, Failure};
use crate::output::{self, RealCost, simulation};
use std::ops::Range;
use std::path::Path;
use std::time::Instant;
use storm_sim::scenario::{self, RunOptions, Scenario, ScenarioError, ScenarioFailure};

/// `sim`.
pub(super) fn run(options: &SimOptions, display: DisplayOptions) -> Result<u8, Failure> {
    if let Some(named) = &options.show_profile {
        let shown = machine_profile::shown(&machine_profile::named(named)?)?;
        return print(&output::chosen(display).sheet(&shown)).map(|()| 0);
    }
    let scenario = read(options).map_err(|error| match &error {
        ScenarioError::NamedProfile(profile) => {
            Failure::of("scenario", &error).hint(profile.hint())
        }
        ScenarioError::Profile(machine) => Failure::of("scenario", &error).hint(machine.hint()),
        _ => Failure::of("scenario", &error)
            .hint("the scenarios in storm-sim/scenarios are examples"),
    })?;
    let silent = display.quiet || display.json;
    match &options.seeds {
        Some(seeds) => many(&scenario, seeds, options, silent),
        None => one(&scenario, options, display, silent),
    }
}

fn read(options: &SimOptions) -> Result<Scenario, ScenarioError> {
    // Without a scenario only a profile can be shown.
    let mut scenario = Scenario::read(options.scenario.as_deref().unwrap_or(Path::new("")))?;
    if let Some(nodes) = options.nodes {
        scenario.machine.nodes = nodes;
    }
    if let Some(profile) = &options.profile {
        scenario.machine.profile.clone_from(profile);
    }
    scenario.check()?;
    Ok(scenario)
}

fn one(
    scenario: &Scenario,
    options: &SimOptions,
    display: DisplayOptions,
    silent: bool,
) -> Result<u8, Failure> {
    let begun = Instant::now();
    let spinner = progress::waiting(silent, "simulating");
    let run = RunOptions { seed: options.seed, traces: options.trace.is_some() };
    let outcome = scenario::run(scenario, run).map_err(|failure| explain(&failure, options))?;
    drop(spinner);
    let cost = RealCost::since(begun);
    if let (Some(path), Some(trace)) = (&options.trace, &outcome.trace) {
        std::fs::write(path, trace.to_json()).map_err(|error| {
            let message = format!("the trace {} cannot be written", path.display());
            Failure { causes: vec![error.to_string()], ..Failure::new("trace", message) }
                .hint("name a file in a directory that exists and is yours")
        })?;
    }
    print(&simulation(&outcome.report, &cost, display.json)).map(|()| 0)
}

fn many(
    scenario: &Scenario,
    seeds: &Range<u64>,
    options: &SimOptions,
    silent: bool,
) -> Result<u8, Failure> {
    let begun = Instant::now();
    let counter = Counter::new(silent, "seeds", seeds.end - seeds.start);
    let failures = scenario::run_seeds(scenario, seeds.clone(), &|| counter.one_more());
    drop(counter);
    for (seed, failure) in &failures {
        let Failure { message, causes, .. } = explain(failure, options);
        let why = causes.join(": ");
        note(&format!("{message}: {why}\n  repeat: {}\n", repeat(options, *seed)));
    }
    let (count, real_s) = (seeds.end - seeds.start, begun.elapsed().as_secs_f64());
    print(&format!("{count} seeds in {real_s:.1} s, {} failed\n", failures.len()))?;
    Ok(if failures.is_empty() { 0 } else { EXIT_FAILED })
}

fn explain(failure: &ScenarioFailure, options: &SimOptions) -> Failure {
    match failure {
        ScenarioFailure::Scenario(error) => Failure::of("scenario", error),
        ScenarioFailure::Run { seed, .. } => {
            Failure::of("run", failure).hint(format!("repeat it: {}", repeat(options, *seed)))
        }
    }
}

/// The command that runs this seed again.
fn repeat(options: &SimOptions, seed: u64) -> String {
    let nodes = options.nodes.map(|nodes| format!(" --nodes {nodes}")).unwrap_or_default();
    let profile = options.profile.as_ref().map(|one| format!(" --profile {one}"));
    let scenario = options.scenario.as_deref().unwrap_or(Path::new("")).display();
    format!("storm sim {scenario} --seed {seed}{nodes}{}", profile.unwrap_or_default())
}
