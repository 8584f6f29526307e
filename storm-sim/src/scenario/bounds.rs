//! The ranges of a scenario's numbers. A number outside its range is invalid, or the run would
//! never end.

use super::{Fault, FaultKind, GeneratedJobs, JobEntry, Scenario, ScenarioError};
use crate::Application;
use std::fmt::Debug;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Longest virtual time. The arithmetic has room for far longer times.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);
/// Longest delay of a message.
const LONGEST_DELAY: Duration = Duration::from_secs(3600);
/// The jobs of one entry. Even a long log has fewer.
const JOBS: RangeInclusive<u32> = 1..=100_000;
/// Rounds of an application.
const ROUNDS: RangeInclusive<u32> = 1..=1_000_000;
/// PMI barriers before and after a job's application.
const FENCES: RangeInclusive<u32> = 0..=1_000;
/// MiB of a program.
const BINARY_MIB: RangeInclusive<f64> = 0.0..=16_384.0;
/// Slowdown of a slow node in hundredths; 100 heals it.
const SLOWED_PERCENT: RangeInclusive<u32> = 100..=1_000_000;
/// The work of the ranks with the most work, or their time for it, in percent of the least.
const UNEVEN_PERCENT: RangeInclusive<u32> = 100..=100_000;
/// Nodes tell it in milliseconds.
const NODE_RETURN: RangeInclusive<Duration> = Duration::from_millis(1)..=LONGEST;
const CHUNK_KIB: RangeInclusive<u32> = 1..=65_536;

impl Scenario {
    /// Checks that every number is in its range.
    pub(super) fn check_bounds(&self) -> Result<(), ScenarioError> {
        within("limit", self.limit, Duration::from_nanos(1)..=LONGEST)?;
        if let Some(kib) = self.machine.chunk_kib {
            within("chunk-kib", kib, CHUNK_KIB)?;
        }
        if let Some(time) = self.machine.node_return {
            within("node-return", time, NODE_RETURN)?;
        }
        self.jobs.iter().try_for_each(|job| job.check_bounds(self.limit))?;
        self.generated_jobs.iter().try_for_each(|jobs| jobs.check_bounds(self.limit))?;
        self.faults.iter().try_for_each(|fault| fault.check_bounds(self.limit))
    }
}

impl JobEntry {
    fn check_bounds(&self, limit: Duration) -> Result<(), ScenarioError> {
        within("at", self.at, Duration::ZERO..=limit)?;
        within("copies", self.copies, JOBS)?;
        within("binary-mib", self.binary_mib, BINARY_MIB)?;
        match self.application {
            Application::Compute { .. } => Ok(()),
            Application::BulkSynchronous {
                iterations,
                imbalance_percent,
                heterogeneity_percent,
                ..
            } => {
                within("imbalance-percent", imbalance_percent, UNEVEN_PERCENT)?;
                within("heterogeneity-percent", heterogeneity_percent, UNEVEN_PERCENT)?;
                within("iterations", iterations, ROUNDS)
            }
            Application::PingPong { iterations, .. } => within("iterations", iterations, ROUNDS),
            Application::Wavefront { iterations, blocks, .. } => {
                within("iterations", iterations, ROUNDS)?;
                within("blocks", blocks, ROUNDS)
            }
        }
    }
}

impl GeneratedJobs {
    fn check_bounds(&self, limit: Duration) -> Result<(), ScenarioError> {
        let some = Duration::from_nanos(1)..=limit;
        within("count", self.count, JOBS)?;
        within("mean-interarrival", self.mean_interarrival, some)?;
        within("max-work", self.max_work, Duration::ZERO..=limit)?;
        within("fences", self.fences, FENCES)?;
        within("max-binary-mib", self.max_binary_mib, BINARY_MIB)
    }
}

impl Fault {
    fn check_bounds(&self, limit: Duration) -> Result<(), ScenarioError> {
        within("at", self.at, Duration::ZERO..=limit)?;
        match self.kind {
            FaultKind::Delay { by } => within("by", by, Duration::ZERO..=LONGEST_DELAY),
            FaultKind::Lossy { per_mille, resend } => {
                within("per-mille", per_mille, 0..=999)?;
                within("resend", resend, Duration::ZERO..=LONGEST_DELAY)
            }
            FaultKind::Slow { percent } => within("percent", percent, SLOWED_PERCENT),
            _ => Ok(()),
        }
    }
}

/// NaN is in no range.
fn within<T: PartialOrd + Debug>(
    name: &'static str,
    value: T,
    range: RangeInclusive<T>,
) -> Result<(), ScenarioError> {
    if range.contains(&value) {
        return Ok(());
    }
    let (least, most) = range.into_inner();
    Err(ScenarioError::Bounds {
        name,
        value: format!("{value:?}"),
        least: format!("{least:?}"),
        most: format!("{most:?}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = "limit = \"60s\"\n[machine]\nprofile = \"plain\"\nnodes = 2\nNEXT\n\
        [[job]]\nname = \"a\"\nbinary-mib = 0.5\n\
        application = { kind = \"compute\", time = \"1s\" }\n\
        [[fault]]\nat = \"1s\"\nkind = \"slow\"\nnode = 1\npercent = 300\n";

    #[test]
    fn numbers_out_of_range_are_refused_by_name() {
        let parsed = |text: &str| Scenario::parse(&text.replace("NEXT", ""));
        assert!(parsed(SOUND).is_ok());
        for (sound, wrong, name) in [
            ("binary-mib = 0.5", "binary-mib = nan", "binary-mib"),
            ("binary-mib = 0.5", "binary-mib = -1.0", "binary-mib"),
            ("binary-mib = 0.5", "copies = 4294967295", "copies"),
            ("at = \"1s\"", "at = \"61s\"", "at"),
            ("percent = 300", "percent = 0", "percent"),
            ("limit = \"60s\"", "limit = \"400000days\"", "limit"),
            ("NEXT", "chunk-kib = 0", "chunk-kib"),
        ] {
            let refused = parsed(&SOUND.replace(sound, wrong)).expect_err(wrong);
            assert!(refused.to_string().starts_with(&format!("{name} = ")), "{refused}");
        }
    }
}
