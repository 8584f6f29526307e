//! `sim`: runs a scenario on a simulated machine and reports the result, even if the run fails.

use super::progress::{self, Counter};
use super::{machine_profile, note, print};
use crate::attach::Interrupts;
use crate::cli::SimOptions;
use crate::failure::{EXIT_FAILED, Failure};
use crate::output::{Campaign, FailedSeed, Output, RealCost, Simulated};
use std::ops::Range;
use std::path::Path;
use std::time::Instant;
use storm_sim::scenario::{self, RunOptions, Scenario, ScenarioError, ScenarioFailure};
use storm_sim::{ChromeTrace, RunError};
use tokio::sync::mpsc;

/// Most finished seeds that wait to be counted.
const RESULTS: usize = 64;
/// The hint if jobs of a scenario with faults have not ended.
const STAYS_BROKEN: &str = "the damage of a [[fault]] lasts until the scenario repairs it by \
                            rejoin, thaw, mend or the like";
/// The hint if a scenario is refused.
const EXAMPLES: &str =
    "`storm sim --help` has an example; there are more in storm-sim/scenarios of its source";
/// The file name for standard output.
const STDOUT: &str = "-";

/// `sim`.
pub(super) async fn run(
    options: &SimOptions,
    output: &dyn Output,
    silent: bool,
) -> Result<u8, Failure> {
    if let Some(named) = &options.show_profile {
        let shown = machine_profile::shown(&machine_profile::named(named)?)?;
        return print(&output.sheet(&shown)).map(|()| 0);
    }
    let scenario = read(options).map_err(|error| refused(options, &error))?;
    match &options.seeds {
        Some(seeds) => many(scenario, seeds, options, output, silent).await,
        None => one(&scenario, options, output, silent),
    }
}

/// The failure to read a scenario. It names the file.
fn refused(options: &SimOptions, error: &ScenarioError) -> Failure {
    let mut failure = Failure::of("scenario", error);
    if let Some(file) = &options.scenario
        && !matches!(error, ScenarioError::Read { .. })
    {
        failure.message = format!("{}: {}", file.display(), failure.message);
    }
    match error {
        ScenarioError::NamedProfile(profile) => failure.hint(profile.hint()),
        ScenarioError::Profile(machine) => failure.hint(machine.hint()),
        _ => failure.hint(EXAMPLES),
    }
}

fn read(options: &SimOptions) -> Result<Scenario, ScenarioError> {
    // Options without a scenario only print a profile, which is done above.
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
    output: &dyn Output,
    silent: bool,
) -> Result<u8, Failure> {
    let begun = Instant::now();
    let spinner = progress::waiting(silent, "simulating");
    let run = RunOptions { seed: options.seed, traces: options.trace.is_some() };
    let result = scenario::run(scenario, run);
    drop(spinner);
    let cost = RealCost::since(begun);
    let (outcome, failure) = match result {
        Ok(outcome) => (outcome, None),
        Err(ScenarioFailure::Scenario(error)) => return Err(Failure::of("scenario", &error)),
        Err(ScenarioFailure::Run { seed, source, so_far }) => {
            let failure = Failure::of("run", &source);
            let message = format!("seed {seed} fails: {}", failure.message);
            let repeat = repeat(options, seed);
            let Failure { mut causes, .. } = failure;
            if matches!(source, RunError::Hangs { .. }) && !scenario.faults.is_empty() {
                causes.push(STAYS_BROKEN.to_owned());
            }
            (*so_far, Some(FailedSeed { seed, message, causes, repeat }))
        }
    };
    if let (Some(path), Some(trace)) = (&options.trace, &outcome.trace) {
        write_trace(path, trace)?;
    }
    let report = output.simulation(&Simulated::new(&outcome.report, cost, failure.as_ref()));
    if options.trace.as_deref() == Some(Path::new(STDOUT)) {
        note(&report);
    } else {
        print(&report)?;
    }
    match failure {
        None => Ok(0),
        Some(FailedSeed { message, causes, repeat, .. }) => {
            let failure = Failure { causes, ..Failure::new("run", message) };
            Err(failure.hint(format!("repeat it: {repeat}")))
        }
    }
}

fn write_trace(path: &Path, trace: &ChromeTrace) -> Result<(), Failure> {
    if path == Path::new(STDOUT) {
        return print(&trace.to_json());
    }
    std::fs::write(path, trace.to_json()).map_err(|error| {
        let message = format!("the trace {} cannot be written", path.display());
        Failure { causes: vec![error.to_string()], ..Failure::new("trace", message) }
            .hint("name a file in a directory that exists and is yours")
    })
}

async fn many(
    scenario: Scenario,
    seeds: &Range<u64>,
    options: &SimOptions,
    output: &dyn Output,
    silent: bool,
) -> Result<u8, Failure> {
    let begun = Instant::now();
    let mut interrupts = Interrupts::listen()?;
    let counter = Counter::new(silent, "seeds", seeds.end - seeds.start);
    let (over, mut results) = mpsc::channel(RESULTS);
    let range = seeds.clone();
    // The thread ends with this process, if necessary in the middle of a seed.
    std::thread::spawn(move || {
        scenario::run_seeds(&scenario, range, &|seed, result| {
            // After an interruption, no receiver is left.
            let _ = over.blocking_send((seed, result));
        });
    });
    let mut campaign = Campaign::of(seeds);
    let interrupted = loop {
        tokio::select! {
            result = results.recv() => match result {
                Some((seed, result)) => {
                    campaign.run += 1;
                    counter.one_more();
                    campaign.failed.extend(result.err().map(|why| failed(options, seed, &why)));
                }
                None => break None,
            },
            status = interrupts.next() => break Some(status),
        }
    };
    drop(counter);
    campaign.failed.sort_by_key(|failed| failed.seed);
    campaign.real_s = begun.elapsed().as_secs_f64();
    campaign.interrupted = interrupted.is_some();
    print(&output.campaign(&campaign))?;
    Ok(interrupted.unwrap_or(if campaign.is_sound() { 0 } else { EXIT_FAILED }))
}

fn failed(options: &SimOptions, seed: u64, why: &ScenarioFailure) -> FailedSeed {
    let Failure { message, causes, .. } = Failure::of("run", why);
    FailedSeed { seed, message, causes, repeat: repeat(options, seed) }
}

/// The command that repeats this seed.
fn repeat(options: &SimOptions, seed: u64) -> String {
    let nodes = options.nodes.map(|nodes| format!(" --nodes {nodes}")).unwrap_or_default();
    let profile = options.profile.as_ref().map(|one| format!(" --profile {}", quoted(one)));
    let scenario = options.scenario.as_deref().unwrap_or(Path::new("")).to_string_lossy();
    let profile = profile.unwrap_or_default();
    format!("storm sim {} --seed {seed}{nodes}{profile}", quoted(&scenario))
}

/// The path, quoted as one word of a shell.
fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@".contains(c);
    if !path.is_empty() && path.chars().all(plain) {
        return path.to_owned();
    }
    format!("'{}'", path.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_that_is_refused_is_named() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("death.toml");
        std::fs::write(&file, "nodes = 3").expect("it is written");
        let words = ["storm", "sim", file.to_str().expect("text")];
        let cli = crate::cli::Cli::of(words.map(Into::into).to_vec()).expect("a command line");
        let crate::cli::Command::Sim(options) = cli.command else { panic!("another verb") };
        let error = read(&options).expect_err("it is no scenario");
        let failure = refused(&options, &error);
        let start = format!("{}: the scenario cannot", file.display());
        assert!(failure.message.starts_with(&start), "{failure:?}");
    }

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        assert_eq!(quoted("storm-sim/a.toml"), "storm-sim/a.toml");
        assert_eq!(quoted("my file.toml"), "'my file.toml'");
        assert_eq!(quoted("it's.toml"), "'it'\\''s.toml'");
    }
}
