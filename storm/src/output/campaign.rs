//! The result of a scenario under many seeds, for users and for programs.

use serde::Serialize;
use std::fmt::Write;

/// The seeds that were run, and those that failed.
#[derive(Debug, Serialize)]
pub(crate) struct Campaign {
    /// The first seed asked for.
    pub(crate) first: u64,
    /// The end of the range of seeds, which is not run itself.
    pub(crate) end: u64,
    /// Number of seeds that were run.
    pub(crate) run: u64,
    /// The seeds that failed, in order.
    pub(crate) failed: Vec<FailedSeed>,
    /// Seconds of real time.
    pub(crate) real_s: f64,
    /// Whether an interruption came before all were run.
    pub(crate) interrupted: bool,
}

/// A seed that failed.
#[derive(Debug, Serialize)]
pub(crate) struct FailedSeed {
    pub(crate) seed: u64,
    /// The problem.
    pub(crate) message: String,
    /// The causes, outermost first.
    pub(crate) causes: Vec<String>,
    /// The command that repeats it.
    pub(crate) repeat: String,
}

impl Campaign {
    /// A campaign of these seeds, none of which has been run yet.
    pub(crate) fn of(seeds: &std::ops::Range<u64>) -> Campaign {
        let std::ops::Range { start: first, end } = *seeds;
        Campaign { first, end, run: 0, failed: Vec::new(), real_s: 0.0, interrupted: false }
    }

    /// Whether every seed was run and none failed.
    pub(crate) fn is_sound(&self) -> bool {
        self.failed.is_empty() && self.run == self.end - self.first
    }
}

/// For users.
pub(super) fn text(campaign: &Campaign) -> String {
    let Campaign { first, end, run, failed, real_s, interrupted } = campaign;
    let mut text = String::new();
    for FailedSeed { message, causes, repeat, .. } in failed {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{message}: {}\n  repeat: {repeat}", causes.join(": "));
    }
    let asked = end - first;
    let of = if *run < asked { format!(" of {asked}") } else { String::new() };
    let why = if *interrupted { "interrupted: " } else { "" };
    let _ = writeln!(text, "{why}{run}{of} seeds in {real_s:.1} s, {} failed", failed.len());
    text
}

/// For scripts: the seeds that failed.
pub(super) fn bare(campaign: &Campaign) -> String {
    campaign.failed.iter().map(|failed| format!("{}\n", failed.seed)).collect()
}
