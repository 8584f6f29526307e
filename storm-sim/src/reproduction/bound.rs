//! Bounds: conditions on a reproduction, and whether they hold.

use serde::Serialize;
use std::fmt;

/// Whether a bound holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The bound holds.
    Kept,
    /// The bound does not hold.
    Missed,
    /// The bound's machine was not simulated.
    Untested,
}

/// A bound on one of our numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bound {
    /// The number that is bounded.
    pub name: String,
    /// The bound.
    pub wanted: String,
    /// The number found; empty if untested.
    pub found: String,
    /// Whether it holds.
    pub verdict: Verdict,
}

impl Bound {
    /// The number differs from another by at most this many percent.
    pub fn within(
        name: impl Into<String>,
        found: Option<f64>,
        wanted: f64,
        percent: f64,
        unit: &str,
    ) -> Bound {
        let holds = |found: f64| (found - wanted).abs() <= percent / 100.0 * wanted.abs();
        let wanted = format!("{} within {percent} %", written(wanted, unit));
        Bound::of(name.into(), wanted, found, unit, holds)
    }

    /// The number is at most another.
    pub fn at_most(name: impl Into<String>, found: Option<f64>, limit: f64, unit: &str) -> Bound {
        let wanted = format!("at most {}", written(limit, unit));
        Bound::of(name.into(), wanted, found, unit, |found| found <= limit)
    }

    /// The number is at least another.
    pub fn at_least(name: impl Into<String>, found: Option<f64>, limit: f64, unit: &str) -> Bound {
        let wanted = format!("at least {}", written(limit, unit));
        Bound::of(name.into(), wanted, found, unit, |found| found >= limit)
    }

    /// The number, rounded, equals `whole`.
    pub fn rounds_to(name: impl Into<String>, found: Option<f64>, whole: f64, unit: &str) -> Bound {
        let wanted = format!("{} after rounding", written(whole, unit));
        Bound::of(name.into(), wanted, found, unit, |found| found.round() == whole)
    }

    /// Whether it holds.
    pub fn is_kept(&self) -> bool {
        self.verdict == Verdict::Kept
    }

    fn of(
        name: String,
        wanted: String,
        found: Option<f64>,
        unit: &str,
        holds: impl FnOnce(f64) -> bool,
    ) -> Bound {
        // Every comparison with a NaN is false.
        let verdict = match found.map(holds) {
            Some(true) => Verdict::Kept,
            Some(false) => Verdict::Missed,
            None => Verdict::Untested,
        };
        let found = found.map_or_else(String::new, |found| written(found, unit));
        Bound { name, wanted, found, verdict }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Kept => "kept",
            Verdict::Missed => "MISSED",
            Verdict::Untested => "not tested",
        })
    }
}

/// At most three decimals: enough to see by how much a bound is missed.
fn written(value: f64, unit: &str) -> String {
    let digits = format!("{value:.3}");
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    if unit.is_empty() { digits.to_owned() } else { format!("{digits} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_bound_can_be_missed() {
        for (bound, verdict) in [
            (Bound::within("a", Some(110.5), 110.0, 0.5, "ms"), Verdict::Kept),
            (Bound::within("a", Some(110.6), 110.0, 0.5, "ms"), Verdict::Missed),
            (Bound::within("a", Some(109.4), 110.0, 0.5, "ms"), Verdict::Missed),
            (Bound::within("a", Some(f64::NAN), 110.0, 0.5, "ms"), Verdict::Missed),
            (Bound::within("a", None, 110.0, 0.5, "ms"), Verdict::Untested),
            (Bound::at_most("a", Some(2.0), 2.0, "%"), Verdict::Kept),
            (Bound::at_most("a", Some(2.001), 2.0, "%"), Verdict::Missed),
            (Bound::at_least("a", Some(2.0), 2.0, "%"), Verdict::Kept),
            (Bound::at_least("a", Some(1.999), 2.0, "%"), Verdict::Missed),
            (Bound::rounds_to("a", Some(5.5), 6.0, "us"), Verdict::Kept),
            (Bound::rounds_to("a", Some(6.5), 6.0, "us"), Verdict::Missed),
        ] {
            assert_eq!(bound.verdict, verdict, "{bound:?}");
        }
    }

    #[test]
    fn a_bound_prints_the_wanted_and_the_found_value() {
        let bound = Bound::within("launch", Some(120.25), 110.0, 5.0, "ms");
        assert_eq!((&*bound.wanted, &*bound.found), ("110 ms within 5 %", "120.25 ms"));
        assert_eq!(Bound::at_most("", None, 2.0, "").found, "");
    }
}
