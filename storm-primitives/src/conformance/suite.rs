//! Runs cases on a backend and reports.

use super::cases::{CASES, dispatch};
use super::{Capabilities, ClusterSpec, Factory, Failure, Trial};
use futures_util::future::{FutureExt, LocalBoxFuture};
use std::fmt;
use std::future::Future;

/// Set this variable to repeat a case under another seed.
pub const SEED_VARIABLE: &str = "STORM_CONFORMANCE_SEED";

/// The default seed.
const DEFAULT_SEED: u64 = 1;

/// A death case is repeated, with the death one step later each time, until the victim survives the
/// operation. No operation of these cases takes more steps.
const MAX_DEATH_STEPS: u64 = 400;

/// The result of a case.
#[derive(Debug)]
pub enum Verdict {
    /// The contract holds.
    Passed,
    /// The backend's factory lacks an ability that the case needs.
    NotApplicable {
        /// The ability that the factory lacks.
        ability: &'static str,
    },
    /// The contract does not hold.
    Failed(Failure),
}

/// The outcome of a run.
#[derive(Debug, Default)]
pub struct Report {
    /// Each case by name, in the order of [`CASES`].
    pub cases: Vec<(&'static str, Verdict)>,
}

impl Report {
    /// The names of the cases that failed.
    pub fn failed(&self) -> Vec<&'static str> {
        let failed = |(name, verdict): &(&'static str, Verdict)| {
            matches!(verdict, Verdict::Failed(_)).then_some(*name)
        };
        self.cases.iter().filter_map(failed).collect()
    }

    /// The number of passed cases.
    pub fn passed(&self) -> usize {
        self.cases.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Passed)).count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, verdict) in &self.cases {
            match verdict {
                Verdict::Passed => writeln!(f, "{name}: ok")?,
                Verdict::NotApplicable { ability } => {
                    writeln!(f, "{name}: not applicable, this backend cannot {ability}")?;
                }
                Verdict::Failed(failure) => writeln!(f, "{name}: FAILED: {failure}")?,
            }
        }
        write!(f, "{} of {} cases passed", self.passed(), self.cases.len())
    }
}

/// Runs every case whose name contains `filter`.
pub fn run<F: Factory>(factory: &F, seed: u64, filter: &str) -> Report {
    let wanted = CASES.iter().filter(|name| name.contains(filter));
    Report { cases: wanted.map(|name| (*name, run_case(factory, seed, name))).collect() }
}

/// Runs the case named `name`, one of [`CASES`].
///
/// # Panics
/// If there is no such case.
pub fn run_case<F: Factory>(factory: &F, seed: u64, name: &str) -> Verdict {
    let run = |compute_nodes, seed, body: Body| {
        run_on(factory, &ClusterSpec { compute_nodes, seed }, body)
    };
    dispatch(&Bench { run: &run, capabilities: factory.capabilities(), seed }, name)
}

/// Runs one case as a test: for [`conformance_tests!`](crate::conformance_tests).
///
/// # Panics
/// If the case fails, with the failure, the seed and the command that repeats it.
pub fn check<F: Factory>(factory: &F, name: &str, package: &str) {
    let seed = std::env::var(SEED_VARIABLE).ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or(DEFAULT_SEED);
    match run_case(factory, seed, name) {
        Verdict::Passed => {}
        Verdict::NotApplicable { ability } => {
            println!("{name}: not applicable, this backend cannot {ability}");
        }
        Verdict::Failed(failure) => panic!(
            "{name}: {failure}\nseed {seed}; to repeat: \
             {SEED_VARIABLE}={seed} cargo test -p {package} {name}"
        ),
    }
}

/// A case as a factory runs it.
type Body = Box<dyn FnOnce(Trial) -> LocalBoxFuture<'static, Result<Death, Failure>>>;

/// Runs the cases: a factory, whose type the cases need not know, and a seed.
pub(crate) struct Bench<'a> {
    run: &'a dyn Fn(u32, u64, Body) -> Result<Death, Failure>,
    capabilities: Capabilities,
    seed: u64,
}

/// The result of a case with a death.
pub(crate) enum Death {
    /// The victim died during the operation.
    Happened,
    /// The operation was over before the victim's step came: no later step
    /// will tell more.
    TooLate,
}

impl Bench<'_> {
    /// Runs `case` on a cluster of `compute_nodes`.
    pub(crate) fn once<Fut>(&self, compute_nodes: u32, case: fn(Trial) -> Fut) -> Verdict
    where
        Fut: Future<Output = Result<(), Failure>> + 'static,
    {
        let body = move |trial| {
            let outcome = case(trial);
            async move { outcome.await.map(|()| Death::TooLate) }.boxed_local()
        };
        match (self.run)(compute_nodes, self.seed, Box::new(body)) {
            Ok(_) => Verdict::Passed,
            Err(failure) => Verdict::Failed(failure),
        }
    }

    /// Runs `case` if the factory has the ability that it needs.
    pub(crate) fn once_if<Fut>(
        &self,
        able: bool,
        ability: &'static str,
        compute_nodes: u32,
        case: fn(Trial) -> Fut,
    ) -> Verdict
    where
        Fut: Future<Output = Result<(), Failure>> + 'static,
    {
        if able { self.once(compute_nodes, case) } else { Verdict::NotApplicable { ability } }
    }

    /// Runs `case` on a fresh cluster for every step at which the victim may
    /// die.
    pub(crate) fn each_step<Fut>(&self, compute_nodes: u32, case: fn(Trial, u64) -> Fut) -> Verdict
    where
        Fut: Future<Output = Result<Death, Failure>> + 'static,
    {
        for step in 0..MAX_DEATH_STEPS {
            let seed = self.seed.wrapping_add(step);
            let body = move |trial| case(trial, step).boxed_local();
            match (self.run)(compute_nodes, seed, Box::new(body)) {
                Ok(Death::Happened) => {}
                Ok(Death::TooLate) => return Verdict::Passed,
                Err(failure) => return Verdict::Failed(failure),
            }
        }
        let what = "the operation of a case with a death";
        Verdict::Failed(Failure::Endless { what, limit: MAX_DEATH_STEPS })
    }

    /// The abilities of the factory's clusters.
    pub(crate) fn capabilities(&self) -> Capabilities {
        self.capabilities
    }
}

/// One case on one cluster of `factory`.
fn run_on<F: Factory>(factory: &F, spec: &ClusterSpec, body: Body) -> Result<Death, Failure> {
    let (patience, capabilities) = (factory.patience(), factory.capabilities());
    let of_trial = spec.clone();
    factory.run(spec, move |cluster| {
        body(Trial::new(Box::new(cluster), of_trial, patience, capabilities))
    })?
}
