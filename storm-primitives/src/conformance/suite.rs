//! Runs cases on a backend and reports.

pub use super::bench::Verdict;
use super::bench::{Bench, Body, Death};
use super::cases::{CASES, dispatch};
use super::{ClusterSpec, Factory, Failure, Trial};
use std::fmt;

/// Set this variable to repeat a case under another seed.
pub const SEED_VARIABLE: &str = "STORM_CONFORMANCE_SEED";

/// The default seed.
const DEFAULT_SEED: u64 = 1;

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

/// One case on one cluster of `factory`.
fn run_on<F: Factory>(factory: &F, spec: &ClusterSpec, body: Body) -> Result<Death, Failure> {
    let (patience, capabilities) = (factory.patience(), factory.capabilities());
    let of_trial = spec.clone();
    factory.run(spec, move |cluster| {
        body(Trial::new(Box::new(cluster), of_trial, patience, capabilities))
    })?
}

/// Makes one `#[test]` for every case of the suite, named `theme::case`, on clusters of the factory
/// that the expression makes. The expression is put into submodules of the caller's module, where
/// everything of that module is in scope.
#[macro_export]
macro_rules! conformance_tests {
    ($factory:expr) => {
        $crate::__conformance_list! { { $crate::__conformance_tests } $factory }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_tests {
    (
        { $factory:expr }
        $($module:ident { $($name:ident ($($how:tt)*),)* })*
    ) => {
        $crate::__conformance_modules! { { $factory } $($module { $($name)* })* }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_modules {
    ({ $factory:expr }) => {};
    ({ $factory:expr } $module:ident { $($name:ident)* } $($rest:tt)*) => {
        mod $module {
            #[allow(unused_imports, clippy::wildcard_imports)]
            use super::*;
            $(
                #[test]
                fn $name() {
                    let name = concat!(stringify!($module), "::", stringify!($name));
                    $crate::conformance::suite::check(&$factory, name, env!("CARGO_PKG_NAME"));
                }
            )*
        }
        $crate::__conformance_modules! { { $factory } $($rest)* }
    };
}
