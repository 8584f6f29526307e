//! Reads the Node Managers' switch logs: how long after a strobe's issue each node had switched,
//! and how far the nodes were apart.
//!
//! The issue and switch times come from different processes. They are comparable only on one host,
//! where `CLOCK_MONOTONIC` is one clock.

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The longest time that the histograms resolve, in nanoseconds: a minute.
const LONGEST_NS: u64 = 60_000_000_000;
/// Significant digits of the histograms.
const DIGITS: u8 = 3;

/// The times from the logs of one cluster, in nanoseconds.
#[derive(Debug)]
pub struct Switches {
    /// The time from the issue of a strobe until a node had stopped and resumed.
    pub latency: Histogram<u64>,
    /// The time between the first and the last node's end of one switch.
    pub skew: Histogram<u64>,
    /// The time from a node's first stop to its last resume.
    pub switch: Histogram<u64>,
}

/// Percentiles of a histogram, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Percentiles {
    /// Half of the values are at most this.
    pub p50_us: f64,
    /// 99 of 100 are.
    pub p99_us: f64,
    /// The greatest.
    pub max_us: f64,
    /// The number of values.
    pub count: u64,
}

/// One line of a log; only the fields used here.
struct Line {
    strobe: (u32, u64),
    issued_ns: u64,
    before_ns: u64,
    after_ns: u64,
    moved: u64,
}

impl Switches {
    /// Reads all logs in `dir`. Leaves out strobes at which no node had a job to stop or resume,
    /// and strobes that not every node logged.
    ///
    /// # Errors
    /// There are no logs, or one does not have the format of `storm nm`.
    pub fn read(dir: &Path) -> Result<Switches> {
        let mut strobes: BTreeMap<(u32, u64), Vec<Line>> = BTreeMap::new();
        let mut nodes = 0;
        for entry in std::fs::read_dir(dir)? {
            let path = entry?.path();
            let text = std::fs::read_to_string(&path)?;
            nodes += 1;
            for line in text.lines().skip(1) {
                let line = parse(line)
                    .with_context(|| format!("{}: not a switch: {line}", path.display()))?;
                strobes.entry(line.strobe).or_default().push(line);
            }
        }
        ensure!(nodes > 0, "no switch log in {}", dir.display());
        let mut switches = Switches { latency: empty()?, skew: empty()?, switch: empty()? };
        for lines in strobes.values() {
            if lines.len() == nodes && lines.iter().any(|line| line.moved > 0) {
                switches.add(lines);
            }
        }
        Ok(switches)
    }

    fn add(&mut self, lines: &[Line]) {
        for line in lines {
            self.latency.saturating_record(line.after_ns.saturating_sub(line.issued_ns));
            self.switch.saturating_record(line.after_ns.saturating_sub(line.before_ns));
        }
        let ends = || lines.iter().map(|line| line.after_ns);
        if let (Some(first), Some(last)) = (ends().min(), ends().max()) {
            self.skew.saturating_record(last - first);
        }
    }
}

impl Percentiles {
    /// The percentiles of a histogram of nanoseconds.
    pub fn of(histogram: &Histogram<u64>) -> Percentiles {
        let us = |ns: u64| ns as f64 / 1e3;
        Percentiles {
            p50_us: us(histogram.value_at_quantile(0.50)),
            p99_us: us(histogram.value_at_quantile(0.99)),
            max_us: us(histogram.max()),
            count: histogram.len(),
        }
    }
}

fn empty() -> Result<Histogram<u64>> {
    Ok(Histogram::new_with_max(LONGEST_NS, DIGITS)?)
}

/// `partition,row,strobe,issued_ns,before_ns,after_ns,stopped,resumed`
fn parse(line: &str) -> Option<Line> {
    let fields: Vec<u64> = line.split(',').map(|f| f.parse().ok()).collect::<Option<_>>()?;
    let [partition, _row, number, issued_ns, before_ns, after_ns, stopped, resumed] =
        fields.try_into().ok()?;
    let strobe = (u32::try_from(partition).ok()?, number);
    Some(Line { strobe, issued_ns, before_ns, after_ns, moved: stopped + resumed })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "partition,row,strobe,issued_ns,before_ns,after_ns,stopped,resumed\n";

    #[test]
    fn latency_and_skew_of_the_strobes_that_moved_a_job() {
        let dir = tempfile::tempdir().unwrap();
        let log = |name: &str, lines: &str| {
            std::fs::write(dir.path().join(name), format!("{HEAD}{lines}")).unwrap();
        };
        log("n1.csv", "0,0,1,1000,1100,1200,0,0\n0,1,2,2000,2100,2200,1,1\n");
        log("n2.csv", "0,0,1,1000,1100,1900,0,0\n0,1,2,2000,2100,2500,1,1\n0,0,3,3000,3,3,1,1\n");
        let switches = Switches::read(dir.path()).unwrap();
        assert_eq!((switches.latency.min(), switches.latency.max()), (200, 500));
        assert_eq!((switches.skew.len(), switches.skew.max()), (1, 300));
        assert_eq!(switches.switch.len(), 2);
    }

    #[test]
    fn an_invalid_line_of_a_switch_log_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("n1.csv"), format!("{HEAD}1,2,3\n")).unwrap();
        assert!(Switches::read(dir.path()).is_err());
    }
}
