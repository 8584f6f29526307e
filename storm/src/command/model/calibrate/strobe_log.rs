//! The times of strobes, from the Node Managers' switch logs.
//!
//! The comparison is between clocks of different processes, which is valid on a single host only.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use storm_model::calibrate::StrobeSample;

/// A node's record of a strobe, in ns of the host's clock.
#[derive(Clone, Copy, Debug)]
struct Seen {
    issued: u64,
    before: u64,
    after: u64,
}

/// Medians over the strobes that every node logged and that switched a job; `None` if there are no
/// such strobes.
pub(super) fn read(directory: &Path, nodes: u32) -> io::Result<Option<StrobeSample>> {
    let mut strobes: BTreeMap<(u64, u64), Vec<Seen>> = BTreeMap::new();
    for entry in std::fs::read_dir(directory)? {
        let text = std::fs::read_to_string(entry?.path())?;
        for (strobe, seen) in text.lines().skip(1).filter_map(moved) {
            strobes.entry(strobe).or_default().push(seen);
        }
    }
    let complete: Vec<Vec<Seen>> =
        strobes.into_values().filter(|seen| seen.len() == nodes as usize).collect();
    if complete.is_empty() {
        return Ok(None);
    }
    let latency_us = |seen: &Seen| us(seen.before.saturating_sub(seen.issued));
    let first = complete.iter().map(|all| all.iter().map(latency_us).fold(f64::MAX, f64::min));
    let last = complete.iter().map(|all| all.iter().map(latency_us).fold(0.0, f64::max));
    let switch = complete.iter().flatten().map(|seen| us(seen.after.saturating_sub(seen.before)));
    Ok(Some(StrobeSample {
        nodes,
        first_us: middle(first),
        last_us: middle(last),
        switch_us: middle(switch),
    }))
}

/// Reads a line `partition,row,strobe,issued_ns,before_ns,after_ns,stopped,resumed`. `None` unless
/// this node stopped or resumed a job at the strobe.
fn moved(line: &str) -> Option<((u64, u64), Seen)> {
    let fields: Vec<u64> =
        line.split(',').map(|field| field.parse().ok()).collect::<Option<_>>()?;
    let &[partition, _, strobe, issued, before, after, stopped, resumed] = fields.as_slice() else {
        return None;
    };
    (stopped + resumed > 0).then_some(((partition, strobe), Seen { issued, before, after }))
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

fn middle(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_strobes_that_every_node_moved_a_job_at_count() {
        let directory = tempfile::tempdir().expect("a directory");
        let log = |name: &str, lines: &str| {
            let text = format!(
                "partition,row,strobe,issued_ns,before_ns,after_ns,stopped,resumed\n{lines}"
            );
            std::fs::write(directory.path().join(name), text).expect("written");
        };
        log("n1.csv", "0,0,1,0,9,9,0,0\n0,1,2,1000,31000,51000,1,1\n0,1,3,0,9,9,1,1\n");
        log("n2.csv", "0,0,1,0,9,9,0,0\n0,1,2,1000,41000,71000,1,1\n");
        let sample = read(directory.path(), 2).expect("readable").expect("one strobe");
        assert_eq!((sample.first_us, sample.last_us, sample.switch_us), (30.0, 40.0, 30.0));
        assert_eq!(read(directory.path(), 3).expect("readable"), None);
    }
}
